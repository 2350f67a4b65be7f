//! Wake-ups: listeners of a type are told to look earlier.

use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{AttemptEnd, ClaimRequest, SettleOutcome, Settlement, Wakeups};
use delayq_core::{FleetLimits, When, hours, minutes, seconds};

use super::rig::{LONG, Rig, dead, id, job, retry, usual_type};

/// How long a test repeats its edge until its wake-up arrives: a subscription takes a moment.
const PATIENCE: Duration = seconds(20);
/// How often an edge is repeated.
const TRIES: u64 = 50;
/// How long one wake-up may take before the edge is repeated.
const ONE_TRY: Duration = Duration::from_millis(100);

/// True if a wake-up for the usual type arrives within one try.
async fn is_woken(wakeups: &mut Wakeups) -> bool {
    let heard = async {
        loop {
            match wakeups.next().await {
                Some(wakeup) if wakeup.task_type() == Some(&usual_type()) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    };
    tokio::time::timeout(ONE_TRY, heard).await.unwrap_or(false)
}

/// Repeats `edge`, which must cause a wake-up each time, until a wake-up arrives.
async fn wakes(rig: &Rig, edge: impl AsyncFnMut(u64)) {
    wakes_after(rig, async |n| n, edge).await;
}

/// Repeats `prepare` and `edge`, until a wake-up of the latter arrives.
async fn wakes_after<T>(
    rig: &Rig,
    mut prepare: impl AsyncFnMut(u64) -> T,
    mut edge: impl AsyncFnMut(T),
) {
    let mut wakeups = rig.store().wakeups();
    let heard = async {
        for n in 0..TRIES {
            let prepared = prepare(n).await;
            // Wake-ups of the preparation may still be on their way.
            while is_woken(&mut wakeups).await {}
            edge(prepared).await;
            if is_woken(&mut wakeups).await {
                return true;
            }
        }
        false
    };
    let heard = tokio::time::timeout(PATIENCE, heard).await;
    assert_eq!(heard, Ok(true), "the edge wakes");
}

pub async fn a_first_task_wakes(rig: &Rig) {
    wakes(rig, async |n| {
        rig.accept(job(&n.to_string()).after(LONG)).await;
        let _ = rig.cancel(&n.to_string()).await;
    })
    .await;
}

pub async fn an_earlier_task_wakes(rig: &Rig) {
    rig.accept(job("first").after(hours(1_000))).await;
    wakes(rig, async |n| {
        rig.accept(job(&n.to_string()).after(minutes(50_000 - n)))
            .await;
    })
    .await;
}

pub async fn a_batch_of_tasks_wakes_for_the_first_of_them(rig: &Rig) {
    rig.accept(job("waits").after(hours(1_000))).await;
    wakes(rig, async |n| {
        let (mut batch, ids) = (Vec::new(), ["a", "b"].map(|id| format!("{n}-{id}")));
        for (id, wait) in ids.iter().zip([hours(900), hours(2_000)]) {
            batch.push(rig.task(job(id).after(wait)).await);
        }
        assert!(rig.store().submit(batch).await.iter().all(Result::is_ok));
        for id in &ids {
            let _ = rig.cancel(id).await;
        }
    })
    .await;
}

pub async fn moving_a_task_to_the_front_wakes(rig: &Rig) {
    rig.accept(job("1").after(hours(1_000))).await;
    wakes(rig, async |n| {
        let _ = rig.reschedule("1", When::After(minutes(50_000 - n))).await;
    })
    .await;
}

pub async fn requeueing_wakes(rig: &Rig) {
    let running = rig.run_more((0..TRIES).map(|n| n.to_string())).await;
    for task in &running {
        rig.settled(&task.lock, dead("gone")).await;
    }
    wakes(rig, async |n| {
        let filter = DeadFilter::Ids(vec![id(&n.to_string())]);
        rig.store()
            .requeue_dead(&usual_type(), &filter, LONG)
            .await
            .unwrap();
        let _ = rig.cancel(&n.to_string()).await;
    })
    .await;
}

pub async fn a_retry_that_is_due_first_wakes(rig: &Rig) {
    wakes_after(
        rig,
        async |n| rig.run(&n.to_string()).await,
        async |task| {
            rig.settled(&task.lock, retry(LONG)).await;
            let _ = rig.cancel(task.lock.id.as_str()).await;
        },
    )
    .await;
}

pub async fn a_batch_of_retries_wakes_for_the_first_of_them(rig: &Rig) {
    rig.accept(job("waits").after(hours(1_000))).await;
    wakes_after(
        rig,
        async |n| {
            let ids = ["a", "b"].map(|id| format!("{n}-{id}"));
            rig.run_more(ids).await
        },
        async |running| {
            let waits = [hours(900), hours(2_000)];
            let ends = running.iter().zip(waits);
            let ends = ends.map(|(task, wait)| Settlement::new(task.lock.clone(), retry(wait)));
            let settled = rig.settle_all(ends.collect()).await;
            assert_eq!(settled, [SettleOutcome::Settled; 2]);
            for task in &running {
                let _ = rig.cancel(task.lock.id.as_str()).await;
            }
        },
    )
    .await;
}

pub async fn resuming_wakes(rig: &Rig) {
    rig.accept(job("1")).await;
    wakes_after(
        rig,
        async |_| rig.store().pause(&usual_type(), None).await.unwrap(),
        async |()| rig.store().resume(&usual_type()).await.unwrap(),
    )
    .await;
}

pub async fn shortening_a_pause_wakes(rig: &Rig) {
    rig.accept(job("1")).await;
    let sooner = rig.now().await.plus(LONG);
    wakes_after(
        rig,
        async |_| rig.store().pause(&usual_type(), None).await.unwrap(),
        async |()| {
            let task_type = usual_type();
            let pause = rig.store().pause(&task_type, Some(sooner));
            pause.await.unwrap();
        },
    )
    .await;
}

async fn one_at_a_time(rig: &Rig) -> ClaimRequest {
    let fleet = FleetLimits {
        concurrency: Some(1),
        rate: None,
    };
    rig.request().await.fleet(fleet)
}

pub async fn freeing_a_place_that_a_claim_had_missed_wakes(rig: &Rig) {
    let request = one_at_a_time(rig).await;
    for n in 0..=TRIES {
        rig.accept(job(&format!("{n:03}"))).await;
    }
    wakes_after(
        rig,
        async |_| rig.claim_as(&request).await,
        async |claimed| {
            rig.settled(&claimed.tasks[0].lock, AttemptEnd::Done).await;
        },
    )
    .await;
}

/// The claim that took the last slot had left nothing behind.
pub async fn freeing_a_place_wakes_for_a_task_that_came_later(rig: &Rig) {
    let request = one_at_a_time(rig).await;
    wakes_after(
        rig,
        async |n| {
            if let Some(before) = n.checked_sub(1) {
                let _ = rig.cancel(&format!("{before}-second")).await;
            }
            rig.accept(job(&format!("{n}-first"))).await;
            let claimed = rig.claim_as(&request).await;
            assert_eq!(claimed.tasks.len(), 1);
            rig.accept(job(&format!("{n}-second"))).await;
            let none = rig.claim_as(&request).await;
            assert!(none.tasks.is_empty());
            claimed
        },
        async |claimed| {
            rig.settled(&claimed.tasks[0].lock, AttemptEnd::Done).await;
        },
    )
    .await;
}
