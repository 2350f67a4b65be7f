//! Tasks counted, listed, cancelled and moved by a filter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use delayq_core::store::{Bucket, ClaimRequest};
use delayq_core::{Clock, VirtualClock, hours, millis};
use delayq_testing::{Fault, FaultyStore};

use super::memory;
use crate::{
    CancelOutcome, DelayQueueJob, Error, Store, TaskFilter, TaskState, TaskSubmitService, TaskType,
    Timestamp, When, minutes,
};

/// A service on a memory store with a clock that stands still.
struct Desk {
    clock: VirtualClock,
    store: Arc<dyn Store>,
    tasks: TaskSubmitService,
}

fn job(task_type: &str, id: &str) -> DelayQueueJob {
    DelayQueueJob::raw(task_type, "m").id(id).after(hours(1))
}

impl Desk {
    fn new() -> Self {
        let clock = VirtualClock::default();
        let store = memory(&clock);
        let tasks = TaskSubmitService::new(Arc::clone(&store)).with_clock(Arc::new(clock.clone()));
        Self {
            clock,
            store,
            tasks,
        }
    }

    /// `count` tasks of two groups by turns, the later ids due later.
    async fn fill(&self, task_type: &str, count: u32) {
        let jobs = (0..count).map(|n| {
            let group = ["even", "odd"][n as usize % 2];
            let due = hours(1) + minutes(n.into());
            job(task_type, &format!("order-{n:04}"))
                .after(due)
                .group(group)
        });
        for sent in self.tasks.send_all(jobs.collect()).await {
            sent.unwrap();
        }
    }

    /// Lets a task run.
    async fn run(&self, task_type: &str, id: &str) {
        let due = job(task_type, id).after(millis(0)).group("even");
        self.tasks.send(due).await.unwrap();
        let bucket = Bucket::whole(TaskType::new(task_type).unwrap());
        let request = ClaimRequest::new(1, minutes(1), self.clock.now());
        let claimed = self.store.claim(&bucket, &request).await.unwrap();
        assert_eq!(claimed.tasks.len(), 1);
    }

    async fn state(&self, task_type: &str, id: &str) -> TaskState {
        self.tasks.find(task_type, id).await.unwrap().unwrap().state
    }

    async fn scheduled(&self, task_type: &str) -> u64 {
        self.tasks.stats(task_type).await.unwrap().scheduled
    }
}

#[tokio::test]
async fn a_cancel_by_filter_takes_what_matches_of_all_types_and_asks_running_ones_to_stop() {
    let desk = Desk::new();
    desk.fill("remind.a", 300).await;
    desk.fill("remind.b", 10).await;
    desk.fill("mail", 10).await;
    desk.run("remind.a", "now").await;
    let even = TaskFilter::new().group("even");
    assert_eq!(desk.tasks.count("remind.*", &even).await.unwrap(), 155);
    let foreseen = desk
        .tasks
        .cancel_all("remind.*", &even)
        .dry_run()
        .await
        .unwrap();
    assert_eq!(
        desk.scheduled("remind.a").await,
        300,
        "a dry run changes nothing"
    );
    let report = desk.tasks.cancel_all("remind.*", &even).await.unwrap();
    let counts = (report.matched, report.changed, report.running, report.gone);
    assert_eq!(counts, (156, 155, 1, 0));
    assert!(report.is_complete && foreseen.is_dry_run);
    assert_eq!(
        (foreseen.matched, foreseen.changed, foreseen.running),
        (156, 155, 1)
    );
    let types: Vec<_> = report.types.iter().map(TaskType::as_str).collect();
    assert_eq!(types, ["remind.a", "remind.b"]);
    assert_eq!(
        desk.state("remind.a", "order-0298").await,
        TaskState::Cancelled
    );
    assert_eq!(
        desk.state("remind.a", "order-0299").await,
        TaskState::Scheduled
    );
    let running = desk.tasks.find("remind.a", "now").await.unwrap().unwrap();
    assert!(running.cancel_requested);
    assert_eq!(
        (
            desk.scheduled("remind.a").await,
            desk.scheduled("mail").await
        ),
        (150, 10)
    );
}

#[tokio::test]
async fn a_cancel_of_several_ids_has_an_outcome_for_each_in_their_order() {
    let desk = Desk::new();
    desk.fill("mail", 300).await;
    desk.run("mail", "runs").await;
    let mut ids: Vec<_> = (0..300).map(|n| format!("order-{n:04}")).collect();
    for (place, id) in [(0, "runs"), (150, "nobody"), (200, "two\nlines")] {
        ids.insert(place, id.to_owned());
    }
    let outcomes = desk.tasks.cancel_each("mail", &ids).await;
    assert_eq!(outcomes.len(), 303);
    for (id, outcome) in ids.iter().zip(outcomes) {
        match id.as_str() {
            "runs" => assert_eq!(outcome.unwrap(), CancelOutcome::Running),
            "nobody" => assert_eq!(outcome.unwrap(), CancelOutcome::NotFound),
            "two\nlines" => assert!(matches!(outcome, Err(Error::InvalidName { .. }))),
            _ => assert_eq!(outcome.unwrap(), CancelOutcome::Cancelled, "{id}"),
        }
    }
    let again = desk.tasks.cancel_each("mail", ["order-0007"]).await;
    let ended = CancelOutcome::Finished(TaskState::Cancelled);
    assert_eq!(again, [Ok(ended)]);
    let refused = desk.tasks.cancel_each("no type", ["order-0007"]).await;
    assert!(matches!(refused[..], [Err(Error::InvalidName { .. })]));
}

#[tokio::test]
async fn a_filter_that_cannot_be_meant_is_refused() {
    let desk = Desk::new();
    desk.fill("mail", 3).await;
    let refusal = async |filter: TaskFilter| {
        let refused = desk.tasks.cancel_all("mail", &filter).await.unwrap_err();
        refused.to_string()
    };
    let none = TaskFilter::new().state(TaskState::Scheduled);
    assert!(refusal(none).await.contains("write TaskFilter::all()"));
    for (filter, named) in [
        (TaskFilter::new().id_prefix(""), "empty id_prefix"),
        (TaskFilter::all().id_prefix(" "), "empty id_prefix"),
        (TaskFilter::new().group(""), "empty group"),
        (TaskFilter::new().header("", "x"), "empty name of a header"),
    ] {
        desk.tasks.count("mail", &filter).await.unwrap_err();
        let said = refusal(filter).await;
        assert!(said.contains(named), "{said}");
    }
    let dead = TaskFilter::all().state(TaskState::Dead);
    assert!(refusal(dead).await.contains("discard_dead"));
    let done = TaskFilter::all().state(TaskState::Done);
    assert!(refusal(done).await.contains("find"));
    let running = TaskFilter::all()
        .state(TaskState::Running)
        .due_before(Timestamp::MAX);
    assert!(refusal(running).await.contains("no due time"));
    assert_eq!(desk.scheduled("mail").await, 3);
    let report = desk
        .tasks
        .cancel_all("mail", &TaskFilter::all())
        .await
        .unwrap();
    assert_eq!((report.changed, desk.scheduled("mail").await), (3, 0));
}

#[tokio::test]
async fn a_reschedule_moves_each_task_once_and_a_repeat_finds_it_done() {
    let desk = Desk::new();
    desk.fill("mail", 400).await;
    let at = desk.clock.now().plus(hours(2) + millis(7));
    let all = TaskFilter::all();
    // In the midst of the others: the walk meets the moved ones again.
    let report = desk
        .tasks
        .reschedule_all("mail", &all, When::At(at))
        .await
        .unwrap();
    assert_eq!((report.matched, report.changed), (400, 400));
    assert!(report.is_complete);
    let page = desk
        .tasks
        .list("mail", TaskState::Scheduled, None, 128)
        .await
        .unwrap();
    assert!(page.tasks.iter().all(|task| task.at == at));
    let again = desk
        .tasks
        .reschedule_all("mail", &all, When::At(at))
        .await
        .unwrap();
    assert_eq!((again.matched, again.changed), (0, 0));
    let now = When::After(millis(0));
    let due = desk.tasks.reschedule_all("mail", &all, now).await.unwrap();
    assert_eq!((due.matched, due.changed), (400, 400));
    assert_eq!(desk.tasks.stats("mail").await.unwrap().due, 400);
    let past = When::At(desk.clock.now().minus(hours(1)));
    let due = desk.tasks.reschedule_all("mail", &all, past).await.unwrap();
    assert_eq!(due.matched, 0, "they are due already");
}

#[tokio::test]
async fn due_times_and_prefixes_narrow_a_count_and_pages() {
    let desk = Desk::new();
    desk.fill("mail", 300).await;
    let first = desk.clock.now().plus(hours(1));
    let filter = TaskFilter::new()
        .due_after(first)
        .due_before(first.plus(minutes(250)));
    assert_eq!(desk.tasks.count("mail", &filter).await.unwrap(), 249);
    let filter = filter.id_prefix("order-01").header("group", "odd");
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = desk.tasks.list_by("mail", &filter, cursor.as_ref(), 7);
        let page = page.await.unwrap();
        assert!(page.tasks.len() <= 7);
        ids.extend(page.tasks.into_iter().map(|task| task.id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (101..200)
        .step_by(2)
        .map(|n| format!("order-{n:04}"))
        .collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn a_store_that_fails_in_the_middle_is_told_with_what_was_done_and_a_repeat_does_the_rest() {
    let desk = Desk::new();
    desk.fill("mail", 300).await;
    let calls = AtomicUsize::new(0);
    let failing = FaultyStore::new(Arc::clone(&desk.store), move |operation| {
        if operation == "cancel" && calls.fetch_add(1, Ordering::Relaxed) == 150 {
            return Fault::NotApplied;
        }
        Fault::None
    });
    let tasks = TaskSubmitService::new(Arc::new(failing));
    let all = TaskFilter::all();
    let failed = tasks.cancel_all("mail", &all).await.unwrap_err();
    assert!(failed.error.is_transient());
    assert_eq!((failed.report.matched, failed.report.changed), (256, 255));
    assert_eq!(desk.scheduled("mail").await, 45);
    let again = tasks.cancel_all("mail", &all).await.unwrap();
    assert_eq!((again.matched, again.changed), (45, 45));
    assert_eq!(desk.scheduled("mail").await, 0);
}

#[tokio::test]
async fn types_are_paused_and_resumed_by_a_pattern() {
    let desk = Desk::new();
    for task_type in ["remind.a", "remind.b", "reminder"] {
        desk.fill(task_type, 1).await;
    }
    let paused = desk.tasks.pause("remind.*", None).await.unwrap();
    assert_eq!(
        paused.iter().map(TaskType::as_str).collect::<Vec<_>>(),
        ["remind.a", "remind.b"]
    );
    let is_paused = async |name: &str| {
        let stats = desk.tasks.stats(name).await.unwrap();
        stats.paused_until == Some(Timestamp::MAX)
    };
    assert!(is_paused("remind.a").await && is_paused("remind.b").await);
    assert!(!is_paused("reminder").await);
    assert!(desk.tasks.pause("a.*.b", None).await.is_err());
    assert_eq!(desk.tasks.resume("remind.*").await.unwrap(), paused);
    assert!(!is_paused("remind.a").await);
    // A type of its own name need not be listed.
    assert_eq!(desk.tasks.pause("later", None).await.unwrap().len(), 1);
    assert_eq!(desk.store.types().await.unwrap().len(), 3);
}
