//! Dead tasks: requeue and discard, by id, by filter, at an interval. Also the purge of a state.

use std::time::Duration;

use delayq_core::TaskState::{Cancelled, Dead, Done, Expired, Running, Scheduled};
use delayq_core::operate::DeadFilter;
use delayq_core::store::{AttemptEnd, SettleOutcome, Settlement};
use delayq_core::{Error, TaskId, TaskState, TaskType, When, minutes};

use super::rig::{LONG, Rig, SHORT, dead, id, ids, job, usual_type};

/// Makes tasks die in this order, each with the error `error of ID`.
async fn die(rig: &Rig, dying: &[&str]) {
    for id in dying {
        let task = rig.run(id).await;
        rig.settled(&task.lock, dead(&format!("error of {id}")))
            .await;
        rig.pass(Duration::from_millis(2)).await;
    }
}

async fn requeue(rig: &Rig, filter: DeadFilter, interval: Duration) -> Vec<TaskId> {
    rig.store()
        .requeue_dead(&usual_type(), &filter, interval)
        .await
        .unwrap()
}

async fn discard(rig: &Rig, filter: DeadFilter) -> Vec<TaskId> {
    rig.store()
        .discard_dead(&usual_type(), &filter)
        .await
        .unwrap()
}

fn by_ids(wanted: &[&str]) -> DeadFilter {
    DeadFilter::Ids(wanted.iter().copied().map(id).collect())
}

fn first(limit: usize) -> DeadFilter {
    DeadFilter::Matching {
        died_before: None,
        error_contains: None,
        limit,
    }
}

fn with_error(text: &str) -> DeadFilter {
    DeadFilter::Matching {
        died_before: None,
        error_contains: Some(text.to_owned()),
        limit: usize::MAX,
    }
}

pub async fn a_requeued_task_is_due_now_with_its_attempts_counted_anew(rig: &Rig) {
    rig.accept(job("1").header("shop", "berlin")).await;
    let task = rig.claim_one().await;
    rig.expire(&task.lock).await;
    let task = rig.claim_one().await;
    let end = AttemptEnd::Release {
        after: Duration::ZERO,
        succeeded: vec!["mailer".to_owned()],
    };
    rig.settled(&task.lock, end).await;
    let task = rig.claim_one().await;
    let end = AttemptEnd::Dead {
        error: "no such order".to_owned(),
        succeeded: task.history.succeeded.clone(),
    };
    rig.settled(&task.lock, end).await;
    let before = rig.now().await;
    assert_eq!(ids(&requeue(rig, DeadFilter::all(), LONG).await), ["1"]);
    let info = rig.info("1").await;
    assert_eq!((info.state, info.attempt), (TaskState::Scheduled, 0));
    assert!(info.at >= before && info.at <= rig.now().await);
    let history = &info.history;
    assert_eq!(
        (history.failures, history.lock_expiries, history.releases),
        (0, 0, 0)
    );
    assert_eq!(history.requeues, 1);
    assert_eq!(history.last_error.as_deref(), Some("no such order"));
    assert_eq!(history.succeeded, ["mailer"]);
    let again = rig.claim_one().await;
    assert_eq!((again.attempt, again.due_at), (1, info.at));
    assert!(again.lock.fence > task.lock.fence);
    assert_eq!((again.message, again.headers), (task.message, task.headers));
    assert_eq!(
        rig.settle(&again.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}

pub async fn a_repeat_after_a_lost_lock_was_due_when_the_requeue_said(rig: &Rig) {
    die(rig, &["1"]).await;
    requeue(rig, DeadFilter::all(), LONG).await;
    let due_at = rig.info("1").await.at;
    let task = rig.claim_one().await;
    rig.expire(&task.lock).await;
    assert_eq!(rig.claim_one().await.due_at, due_at);
}

pub async fn requeues_are_counted(rig: &Rig) {
    die(rig, &["1"]).await;
    for requeues in 1..=3 {
        requeue(rig, by_ids(&["1"]), LONG).await;
        let task = rig.claim_one().await;
        assert_eq!((task.history.requeues, task.attempt), (requeues, 1));
        rig.settled(&task.lock, dead("again")).await;
    }
}

pub async fn dead_tasks_are_requeued_in_order_of_death_at_the_interval(rig: &Rig) {
    die(rig, &["c", "a", "b"]).await;
    let requeued = requeue(rig, DeadFilter::all(), minutes(1)).await;
    assert_eq!(ids(&requeued), ["c", "a", "b"]);
    let base = rig.info("c").await.at;
    assert_eq!(rig.info("a").await.at, base.plus(minutes(1)));
    assert_eq!(rig.info("b").await.at, base.plus(minutes(2)));
}

pub async fn dead_tasks_are_requeued_by_id_in_the_order_given(rig: &Rig) {
    // One id is `ids`, the word for this kind of selection.
    die(rig, &["a", "ids", "b", "c"]).await;
    rig.bring("scheduled", TaskState::Scheduled).await;
    let wanted = by_ids(&["c", "unknown", "scheduled", "a", "c"]);
    assert_eq!(ids(&requeue(rig, wanted, minutes(1)).await), ["c", "a"]);
    let base = rig.info("c").await.at;
    assert_eq!(rig.info("a").await.at, base.plus(minutes(1)));
    for left in ["ids", "b"] {
        assert_eq!(rig.state(left).await, Some(TaskState::Dead));
    }
}

pub async fn dead_tasks_are_requeued_by_their_error(rig: &Rig) {
    die(rig, &["1", "2", "3"]).await;
    assert_eq!(ids(&requeue(rig, with_error("of 2"), LONG).await), ["2"]);
    assert!(requeue(rig, with_error("OF 3"), LONG).await.is_empty());
    assert!(requeue(rig, with_error("%"), LONG).await.is_empty());
    assert_eq!(requeue(rig, DeadFilter::all(), LONG).await.len(), 2);
}

pub async fn an_empty_text_is_no_condition_on_dead_tasks(rig: &Rig) {
    die(rig, &["1", "2"]).await;
    for text in ["", " "] {
        let (filter, store) = (with_error(text), rig.store());
        let refused = [
            store.requeue_dead(&usual_type(), &filter, LONG).await,
            store.discard_dead(&usual_type(), &filter).await,
        ];
        for refused in refused {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("an empty error_contains"), "{error}");
        }
    }
    assert_eq!(requeue(rig, DeadFilter::all(), LONG).await.len(), 2);
}

pub async fn an_error_filter_is_text_and_no_pattern(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settled(&task.lock, dead("100%_.*[a]'")).await;
    for text in ["0.%", "_._", "[b]", ".*.*", "%d", "a-"] {
        assert!(
            requeue(rig, with_error(text), LONG).await.is_empty(),
            "{text}"
        );
    }
    assert_eq!(requeue(rig, with_error("%_.*[a]'"), LONG).await.len(), 1);
}

pub async fn dead_tasks_are_requeued_up_to_a_time_of_death(rig: &Rig) {
    die(rig, &["1", "2", "3"]).await;
    let filter = DeadFilter::Matching {
        died_before: Some(rig.info("3").await.at),
        error_contains: Some("error".to_owned()),
        limit: 100,
    };
    let mut requeued = requeue(rig, filter, LONG).await;
    if !rig.has_one_bucket().await {
        requeued.sort_unstable();
    }
    assert_eq!(ids(&requeued), ["1", "2"]);
}

pub async fn dead_tasks_are_requeued_up_to_a_limit(rig: &Rig) {
    die(rig, &["b", "c", "a"]).await;
    assert!(requeue(rig, first(0), LONG).await.is_empty());
    let (some, rest) = (
        requeue(rig, first(2), LONG).await,
        requeue(rig, first(2), LONG).await,
    );
    assert_eq!((some.len(), rest.len()), (2, 1));
    if rig.has_one_bucket().await {
        assert_eq!([ids(&some), ids(&rest)].concat(), ["b", "c", "a"]);
    }
}

pub async fn discarded_tasks_are_gone_for_good(rig: &Rig) {
    die(rig, &["1", "2", "3", "4"]).await;
    assert_eq!(ids(&discard(rig, by_ids(&["2", "unknown"])).await), ["2"]);
    assert_eq!(ids(&discard(rig, with_error("of 3")).await), ["3"]);
    assert_eq!(rig.find("2").await, None);
    assert_eq!(rig.find("3").await, None);
    let (one, rest) = (
        discard(rig, first(1)).await,
        discard(rig, DeadFilter::all()).await,
    );
    assert_eq!((one.len(), rest.len()), (1, 1));
    if rig.has_one_bucket().await {
        assert_eq!([ids(&one), ids(&rest)].concat(), ["1", "4"]);
    }
    assert!(discard(rig, DeadFilter::all()).await.is_empty());
    rig.accept(job("2").after(LONG)).await;
}

pub async fn only_dead_tasks_are_requeued_or_discarded(rig: &Rig) {
    use_every_state_but_dead(rig).await;
    let all = ["scheduled", "running", "done", "cancelled", "expired"];
    assert!(requeue(rig, by_ids(&all), LONG).await.is_empty());
    assert!(discard(rig, by_ids(&all)).await.is_empty());
    assert!(requeue(rig, DeadFilter::all(), LONG).await.is_empty());
    assert!(discard(rig, DeadFilter::all()).await.is_empty());
    for state in all {
        assert_eq!(rig.state(state).await.unwrap().as_str(), state);
    }
}

async fn use_every_state_but_dead(rig: &Rig) {
    for state in [Scheduled, Running, Done, Cancelled, Expired] {
        rig.bring(state.as_str(), state).await;
    }
}

/// Creates so many dead tasks that no single step can take them all.
async fn bury(rig: &Rig, count: usize) {
    let names: Vec<String> = (0..count).map(|n| format!("{n:03}")).collect();
    let running = rig.run_more(names).await;
    let ends = running
        .into_iter()
        .map(|task| Settlement::new(task.lock, dead("gone")));
    rig.settle_all(ends.collect()).await;
}

pub async fn hundreds_of_dead_tasks_are_requeued_at_one_interval(rig: &Rig) {
    bury(rig, 600).await;
    let requeued = requeue(rig, DeadFilter::all(), minutes(1)).await;
    assert_eq!(requeued.len(), 600);
    let base = rig.info(requeued[0].as_str()).await.at;
    let mut last = base;
    for id in &requeued[1..] {
        let due_at = rig.info(id.as_str()).await.at;
        assert!(due_at > last && due_at <= last.plus(minutes(1) + minutes(1)));
        last = due_at;
    }
    assert!(last >= base.plus(minutes(599)));
    let stats = rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!((stats.dead, stats.scheduled), (0, 600));
}

pub async fn hundreds_of_dead_tasks_are_discarded(rig: &Rig) {
    bury(rig, 600).await;
    assert_eq!(discard(rig, first(590)).await.len(), 590);
    assert_eq!(discard(rig, DeadFilter::all()).await.len(), 10);
    assert_eq!(rig.store().stats(&usual_type()).await.unwrap().dead, 0);
}

/// There are more tasks before it than one step takes, which died at only a few different times.
pub async fn dead_tasks_are_found_by_their_error_behind_hundreds_of_others(rig: &Rig) {
    bury(rig, 300).await;
    rig.pass(Duration::from_millis(2)).await;
    die(rig, &["999"]).await;
    assert_eq!(ids(&requeue(rig, with_error("of 9"), LONG).await), ["999"]);
    assert_eq!(rig.store().stats(&usual_type()).await.unwrap().dead, 300);
    assert!(discard(rig, with_error("of 9")).await.is_empty());
    assert_eq!(discard(rig, with_error("gone")).await.len(), 300);
}

async fn purge(rig: &Rig, state: TaskState) -> u64 {
    rig.store().purge(&usual_type(), state).await.unwrap()
}

pub async fn a_purge_removes_every_task_of_one_state(rig: &Rig) {
    for state in [Scheduled, Running, Dead, Done, Cancelled, Expired] {
        rig.bring(state.as_str(), state).await;
    }
    for state in [Scheduled, Dead, Done, Cancelled, Expired] {
        assert_eq!(purge(rig, state).await, 1, "{state}");
        assert_eq!(rig.find(state.as_str()).await, None);
        assert_eq!(purge(rig, state).await, 0, "{state}");
    }
    assert_eq!(rig.state("running").await, Some(Running));
}

pub async fn a_purge_counts_only_what_was_known_until_then(rig: &Rig) {
    let short = rig.with_retention(SHORT).await;
    let task = short.run("before").await;
    short.settled(&task.lock, AttemptEnd::Done).await;
    short.pass(SHORT).await;
    assert_eq!(short.state("before").await, None);
    assert_eq!(purge(&short, Done).await, 0);
    short.finish().await;
}

pub async fn a_purge_of_running_tasks_is_refused(rig: &Rig) {
    let task = rig.run("1").await;
    let refusal = rig.store().purge(&usual_type(), TaskState::Running).await;
    assert!(
        matches!(refusal, Err(Error::InvalidInput { .. })),
        "{refusal:?}"
    );
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}

pub async fn a_purge_of_hundreds_leaves_other_types_alone(rig: &Rig) {
    let other = TaskType::new("gift.refund").unwrap();
    let job = |id: &str| {
        delayq_core::DelayQueueJob::raw(other.as_str(), "m")
            .id(id)
            .after(LONG)
    };
    rig.accept(job("1")).await;
    let mut batch = Vec::new();
    for n in 0..1_000 {
        batch.push(rig.task(super::rig::job(&n.to_string()).after(LONG)).await);
    }
    rig.store().submit(batch).await;
    assert_eq!(purge(rig, TaskState::Scheduled).await, 1_000);
    assert_eq!(rig.store().stats(&usual_type()).await.unwrap().scheduled, 0);
    assert_eq!(rig.store().stats(&other).await.unwrap().scheduled, 1);
    assert_eq!(rig.claim().await.next_at(), None);
}

pub async fn a_purged_id_can_be_used_again(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    purge(rig, TaskState::Scheduled).await;
    rig.accept(job("1").after(LONG)).await;
    let _ = rig.reschedule("1", When::After(SHORT)).await;
    rig.pass(SHORT).await;
    assert_eq!(rig.claim_one().await.attempt, 1);
}
