//! Wake-ups: for handlers that planned to claim later than there is something to do, and for nobody
//! else.

use delayq_core::job::When;
use delayq_core::store::{ChangeOutcome, SettleOutcome, Wakeup, Wakeups};
use delayq_core::task::Lock;
use delayq_core::time::{hours, minutes, seconds};

use super::*;
use crate::operations::{change, claim as claiming, settle, submit as submission};

/// Listens from now on: a call that was answered may still be about to wake.
async fn listen(store: &Arc<SqliteStore>) -> Wakeups {
    store.check().await.unwrap();
    store.wakeups()
}

/// The wake-ups of the calls that were answered. The writer wakes before it takes the next call.
async fn heard(store: &Arc<SqliteStore>, wakeups: &mut Wakeups) -> Vec<Wakeup> {
    store.check().await.unwrap();
    let mut heard = Vec::new();
    while let Ok(Some(wakeup)) = tokio::time::timeout(Duration::ZERO, wakeups.next()).await {
        heard.push(wakeup);
    }
    heard
}

fn task_due_after(id: &str, delay: Duration) -> NewTask {
    let job = DelayQueueJob::raw("order.cancel", "m").id(id).after(delay);
    job.into_task(&Limits::default(), Timestamp::ZERO).unwrap()
}

async fn run<R: Send + 'static>(
    store: &Arc<SqliteStore>,
    operations: impl FnMut(&mut Tx<'_>) -> crate::error::Outcome<R> + Send + 'static,
) -> R {
    store
        .engine
        .write(Lane::Operations, Size::ONE, operations)
        .await
        .unwrap()
}

fn released_for(lock: Lock, after: Duration) -> Settlement {
    let succeeded = Vec::new();
    Settlement::new(lock, AttemptEnd::Release { after, succeeded })
}

#[tokio::test]
async fn a_task_that_is_not_the_first_wakes_nobody() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "held").await;
    let held = claim(&store).await.unwrap().tasks.remove(0).lock;
    accept(&store, "first").await;
    let mut wakeups = listen(&store).await;
    submit(&store, task_due_after("1", hours(1))).await.unwrap();
    assert_eq!(heard(&store, &mut wakeups).await, []);
    let batch = vec![task_due_after("2", hours(2)), task_due_after("3", hours(3))];
    assert!(store.submit(batch).await.iter().all(Result::is_ok));
    assert_eq!(heard(&store, &mut wakeups).await, []);
    let ends = vec![released_for(held, hours(1))];
    store.settle(&bucket(), ends).await.unwrap();
    assert_eq!(heard(&store, &mut wakeups).await, []);
}

/// A claim and a submit that waits behind it share a transaction: the answer of the claim
/// counts.
#[tokio::test]
async fn a_task_that_becomes_the_first_by_a_claim_before_it_wakes() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "held").await;
    let held = claim(&store).await.unwrap().tasks.remove(0).lock;
    accept(&store, "due").await;
    let mut wakeups = listen(&store).await;
    let release = released_for(held, hours(2));
    let mut request = request();
    request.lock_for = hours(3);
    let new = task_due_after("between", hours(1));
    let claimed = run(&store, move |tx| {
        let settled = settle::settle(&mut tx.made(&usual_type())?, &release)?;
        assert_eq!(settled, SettleOutcome::Settled);
        let claimed = claiming::claim(tx, &usual_type(), &request)?;
        submission::submit(tx, &new)?.unwrap();
        Ok(claimed)
    })
    .await;
    assert_eq!(ids(&claimed), ["due"]);
    let between = find(&store, "between").await.unwrap();
    assert!(claimed.next_in > Some(between.at.since(claimed.now)));
    assert_eq!(
        heard(&store, &mut wakeups).await,
        [Wakeup::Type(usual_type())]
    );
}

#[tokio::test]
async fn a_task_that_becomes_the_first_as_another_is_moved_later_wakes() {
    let place = Place::new();
    let store = place.open().await;
    submit(&store, task_due_after("1", minutes(10)))
        .await
        .unwrap();
    let mut wakeups = listen(&store).await;
    let new = task_due_after("2", hours(1));
    let claimed = run(&store, move |tx| {
        let mut tasks = tx.made(&usual_type())?;
        let moved = change::reschedule(&mut tasks, &id("1"), When::After(hours(2)))?;
        assert!(matches!(moved, ChangeOutcome::Changed { .. }));
        let claimed = claiming::claim(tx, &usual_type(), &request())?;
        submission::submit(tx, &new)?.unwrap();
        Ok(claimed)
    })
    .await;
    let second = find(&store, "2").await.unwrap();
    assert!(claimed.next_in > Some(second.at.since(claimed.now)));
    assert_eq!(
        heard(&store, &mut wakeups).await,
        [Wakeup::Type(usual_type())]
    );
}

#[tokio::test]
async fn a_slot_is_announced_by_the_call_that_frees_it_and_by_no_other() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    accept(&store, "2").await;
    let alone = request().fleet(FleetLimits {
        concurrency: Some(1),
        rate: None,
    });
    let mut wakeups = listen(&store).await;
    for n in 0..2 {
        let claimed = store.claim(&bucket(), &alone).await.unwrap();
        assert_eq!(claimed.tasks.len(), 1);
        submit(&store, task_due_after(&format!("later-{n}"), hours(1)))
            .await
            .unwrap();
        assert_eq!(heard(&store, &mut wakeups).await, [], "no slot is free");
        store.settle(&bucket(), done(&claimed)).await.unwrap();
        let woken: &[_] = if n == 0 {
            &[Wakeup::Type(usual_type())]
        } else {
            &[]
        };
        assert_eq!(
            heard(&store, &mut wakeups).await,
            woken,
            "what was due is gone after the second"
        );
    }
}

/// Without a signal they would be heard of with the next check, and then all handlers be woken.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_sooner_task_of_another_process_is_signalled() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    let mut wakeups = listen(&here).await;
    let hears = async {
        for sooner in 1.. {
            let task = task_due_after(
                &sooner.to_string(),
                hours(24).saturating_sub(seconds(sooner)),
            );
            submit(&there, task).await.unwrap();
            match wakeups.next().await.unwrap() {
                Wakeup::Type(woken) => return woken,
                // The check came first.
                other => assert_eq!(other, Wakeup::All),
            }
        }
        unreachable!("a loop without an end")
    };
    let woken = tokio::time::timeout(seconds(30), hears).await;
    assert_eq!(woken, Ok(usual_type()));
}
