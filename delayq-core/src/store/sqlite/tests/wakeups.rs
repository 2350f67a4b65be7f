//! Who is woken: handlers that planned to look later than there is something to do, and nobody else.

use super::*;
use crate::job::When;
use crate::store::{ChangeOutcome, SettleOutcome, Wakeup, Wakeups};
use crate::task::Lock;
use crate::time::{hours, minutes};

/// Hears what is sent from now on: what was answered may still be about to wake.
async fn listen(store: &Arc<SqliteStore>) -> Wakeups {
    store.check().await.unwrap();
    store.wakeups()
}

/// What was sent by the calls that have been answered. The writer wakes before it takes the next call.
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
    edges: impl FnMut(&mut Tx<'_>) -> super::super::error::Outcome<R> + Send + 'static,
) -> R {
    store
        .engine
        .write(Lane::Edges, Size::ONE, edges)
        .await
        .unwrap()
}

fn released_for(lock: Lock, after: Duration) -> Settlement {
    let succeeded = Vec::new();
    Settlement {
        lock,
        end: AttemptEnd::Release { after, succeeded },
    }
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
    store.settle(&usual_type(), ends).await.unwrap();
    assert_eq!(heard(&store, &mut wakeups).await, []);
}

/// A claim and a submit that waits behind it share a transaction: what the claim said is what counts.
#[tokio::test]
async fn a_task_that_becomes_the_first_by_a_claim_before_it_wakes() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "held").await;
    let held = claim(&store).await.unwrap().tasks.remove(0).lock;
    accept(&store, "due").await;
    let mut wakeups = listen(&store).await;
    let release = released_for(held, hours(2));
    let request = ClaimRequest {
        lock_for: hours(3),
        ..request()
    };
    let new = task_due_after("between", hours(1));
    let claimed = run(&store, move |tx| {
        let settled = tx.bucket(&usual_type())?.settle(&release)?;
        assert_eq!(settled, SettleOutcome::Settled);
        let claimed = tx.claim(&usual_type(), &request)?;
        tx.submit(&new)?.unwrap();
        Ok(claimed)
    })
    .await;
    assert_eq!(ids(&claimed), ["due"]);
    let between = find(&store, "between").await.unwrap();
    assert!(claimed.next_due > Some(between.at));
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
        let mut bucket = tx.bucket(&usual_type())?;
        let moved = bucket.reschedule(&id("1"), When::After(hours(2)))?;
        assert!(matches!(moved, ChangeOutcome::Changed { .. }));
        let claimed = tx.claim(&usual_type(), &request())?;
        tx.submit(&new)?.unwrap();
        Ok(claimed)
    })
    .await;
    assert!(claimed.next_due > Some(find(&store, "2").await.unwrap().at));
    assert_eq!(
        heard(&store, &mut wakeups).await,
        [Wakeup::Type(usual_type())]
    );
}

#[tokio::test]
async fn a_place_is_told_free_by_whoever_frees_it_and_by_nobody_else() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    accept(&store, "2").await;
    let alone = ClaimRequest {
        fleet: FleetLimits {
            concurrency: Some(1),
            rate: None,
        },
        ..request()
    };
    let mut wakeups = listen(&store).await;
    for n in 0..2 {
        let claimed = store.claim(&usual_type(), &alone).await.unwrap();
        assert_eq!(claimed.tasks.len(), 1);
        submit(&store, task_due_after(&format!("later-{n}"), hours(1)))
            .await
            .unwrap();
        assert_eq!(heard(&store, &mut wakeups).await, [], "no place is free");
        store.settle(&usual_type(), done(&claimed)).await.unwrap();
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
