//! Forecast and groups of dead tasks, on the memory store under virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::sync::Arc;
use std::time::Duration;

use delayq_ops::{dead_groups, forecast};
use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, MemoryStore, Settlement, StoreOptions,
};
use delayq_plugin::{
    Clock, DelayQueueJob, TaskFilter, TaskSubmitService, TaskType, VirtualClock, days, hours,
    minutes, seconds,
};

fn service(clock: &VirtualClock) -> TaskSubmitService {
    let store = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
    TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(clock.clone()))
}

async fn send(tasks: &TaskSubmitService, task_type: &str, delay: Duration) {
    let job = DelayQueueJob::raw(task_type, "hi").after(delay);
    tasks.send(job).await.unwrap();
}

#[tokio::test]
async fn a_forecast_counts_every_task_once_over_all_types_of_a_pattern() {
    let clock = VirtualClock::default();
    let tasks = service(&clock);
    for minute in 0..90 {
        send(&tasks, "mail.a", minutes(minute) + seconds(1)).await;
    }
    send(&tasks, "mail.b", minutes(59)).await;
    send(&tasks, "order", minutes(59)).await;
    clock.advance(minutes(10));
    let found = forecast(&tasks, "mail.*", hours(1), 7).await.unwrap();
    assert_eq!(
        (found.overdue, found.later, found.is_complete),
        (10, 20, true)
    );
    let due: Vec<_> = found.buckets.iter().map(|bucket| bucket.due).collect();
    assert_eq!((due.len(), due.iter().sum::<u64>()), (7, 61));
    assert_eq!(found.types.len(), 2);
    assert!(found.buckets.windows(2).all(|two| two[0].to == two[1].from));
    let month = forecast(&tasks, "order", days(30), 30).await.unwrap();
    assert_eq!((month.buckets[0].due, month.later), (1, 0));
    assert!(forecast(&tasks, "order", Duration::ZERO, 3).await.is_err());
    assert!(forecast(&tasks, "order", hours(1), 0).await.is_err());
}

/// A task that fell due in the very millisecond in which a forecast begins counted twice: as
/// overdue, and in the first bucket.
#[tokio::test]
async fn a_task_that_is_due_as_the_forecast_begins_is_not_overdue_too() {
    let clock = VirtualClock::default();
    let tasks = service(&clock);
    send(&tasks, "mail", Duration::ZERO).await;
    clock.advance(seconds(1));
    for delay in [0, 0, 30, 7_200] {
        send(&tasks, "mail", seconds(delay)).await;
    }
    let found = forecast(&tasks, "mail", hours(1), 2).await.unwrap();
    let due: Vec<_> = found.buckets.iter().map(|bucket| bucket.due).collect();
    assert_eq!((found.overdue, due, found.later), (1, vec![3, 0], 1));
}

#[tokio::test]
async fn a_large_type_is_counted_in_slices_and_no_task_twice() {
    let clock = VirtualClock::default();
    let tasks = service(&clock);
    let begin = clock.now();
    let mut expected = vec![0; 30];
    for batch in 0..24_u64 {
        // Half of them within the first hour, a herd on the tenth day, the rest over the month.
        let delay = |nth: u64| match nth % 4 {
            0 | 1 => seconds(1 + nth * 3),
            2 => days(10),
            _ => hours(batch * 30) + seconds(nth),
        };
        let jobs: Vec<_> = (0..1_000)
            .map(|nth| {
                let due_at = begin.plus(delay(nth));
                expected[usize::try_from(due_at.since(begin).as_secs() / 86_400).unwrap()] += 1;
                DelayQueueJob::raw("mail", "hi").at(due_at)
            })
            .collect();
        for sent in tasks.send_all(jobs).await {
            sent.unwrap();
        }
    }
    let found = forecast(&tasks, "mail", days(30), 30).await.unwrap();
    let due: Vec<_> = found.buckets.iter().map(|bucket| bucket.due).collect();
    assert_eq!(due, expected);
    assert_eq!(
        (found.overdue, found.later, found.is_complete),
        (0, 0, true)
    );
}

#[tokio::test]
async fn dead_tasks_are_grouped_by_their_error_without_its_numbers() {
    let clock = VirtualClock::default();
    let tasks = service(&clock);
    let bucket = Bucket::whole(TaskType::new("mail").unwrap());
    let begin = clock.now();
    for (id, error) in [
        (1, "order-17: no van"),
        (2, "order-4: no van"),
        (3, "no driver"),
    ] {
        let job = DelayQueueJob::raw("mail", "hi").id(format!("t{id}"));
        tasks.send(job).await.unwrap();
        let request = ClaimRequest::new(1, minutes(1), clock.now());
        let claimed = tasks.store().claim(&bucket, &request).await.unwrap();
        let lock = claimed.tasks[0].lock.clone();
        let (error, succeeded) = (error.to_owned(), Vec::new());
        let dead = Settlement::new(lock, AttemptEnd::Dead { error, succeeded });
        tasks.store().settle(&bucket, vec![dead]).await.unwrap();
        clock.advance(seconds(5));
    }
    let found = dead_groups(&tasks, "mail", &TaskFilter::new())
        .await
        .unwrap();
    assert_eq!(
        (found.count, found.is_complete, found.groups.len()),
        (3, true, 2)
    );
    let first = &found.groups[0];
    assert_eq!((first.error.as_str(), first.count), ("order-#: no van", 2));
    assert_eq!(first.latest_error, "order-4: no van");
    assert_eq!(
        (first.first_at, first.last_at),
        (begin, begin.plus(seconds(5)))
    );
    assert_eq!(first.ids.len(), 2);
    let one = TaskFilter::new().id_prefix("t3");
    let found = dead_groups(&tasks, "*", &one).await.unwrap();
    assert_eq!(
        (found.count, found.groups[0].error.as_str()),
        (1, "no driver")
    );
}
