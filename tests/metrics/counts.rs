//! The counts of a plugin in memory whose tasks succeed, fail, die, are refused and are late.

use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::store::{
    AttemptEnd, Bucket, CancelOutcome, ClaimRequest, SettleOutcome, Settlement,
};
use delayq_plugin::{
    Clock, Component, DelayQueueJob, DelayQueuePluginBuilder, InstanceId, InstanceInfo, Lock,
    SystemClock, TaskContext, TaskError, TaskResult, TaskState, TaskSubmitService, TaskType,
    seconds, task_worker,
};
use delayq_testing::{Fault, TestQueue};
use metrics_exporter_prometheus::PrometheusHandle;

use crate::exposition::{not_zero, recorder, series};

#[task_worker(type = "fine")]
async fn fine(_message: &str) {}

#[task_worker(
    type = "flaky",
    retry(max = 2, backoff = fixed, base = "1s", jitter = 0.0)
)]
async fn flaky(_message: &str, cx: &TaskContext) -> TaskResult {
    if cx.attempt() == 1 {
        return Err(TaskError::retry("not yet"));
    }
    Ok(())
}

#[task_worker(type = "doomed")]
async fn doomed(_message: &str) -> TaskResult {
    Err(TaskError::dead("never"))
}

#[task_worker(type = "panics", retry = never)]
async fn panics(_message: &str) {
    panic!("on purpose");
}

#[task_worker(type = "once", delivery = at_most_once)]
async fn once(_message: &str) -> TaskResult {
    Err(TaskError::retry("and that is it"))
}

#[task_worker(type = "bounded", max_pending = 1)]
async fn bounded(_message: &str) {}

#[task_worker(type = "releases", max_releases = 1)]
async fn releases(_message: &str) -> TaskResult {
    Err(TaskError::release(seconds(1)))
}

/// Gives its own lock away in its first attempt, so that the plugin's settlement comes too late.
#[task_worker(type = "robbed")]
async fn robbed(_message: &str, cx: &TaskContext, tasks: Component<TaskSubmitService>) {
    let lock = Lock {
        id: cx.id().clone(),
        fence: cx.fence(),
    };
    let task = tasks.find("robbed", "r").await.unwrap().unwrap();
    if task.history.releases == 0 {
        let (bucket, store) = (Bucket::whole(cx.task_type().clone()), tasks.store());
        let release = |lock, after| {
            let succeeded = Vec::new();
            vec![Settlement::new(
                lock,
                AttemptEnd::Release { after, succeeded },
            )]
        };
        let given = store.settle(&bucket, release(lock, Duration::ZERO)).await;
        assert_eq!(given.unwrap(), [SettleOutcome::Settled]);
        // Somebody else, who gives it back.
        let request = ClaimRequest::new(1, seconds(1), SystemClock.now());
        let mut claimed = store.claim(&bucket, &request).await.unwrap();
        let lock = claimed.tasks.remove(0).lock;
        let given = store.settle(&bucket, release(lock, seconds(1))).await;
        assert_eq!(given.unwrap(), [SettleOutcome::Settled]);
    }
}

const COUNTERS: &[&str] = &[
    "delayq_submitted_total",
    "delayq_submit_refused_total",
    "delayq_claimed_total",
    "delayq_started_total",
    "delayq_settled_total",
    "delayq_attempts_failed_total",
    "delayq_lock_expiries_total",
    "delayq_locks_lost_total",
    "delayq_store_losses_total",
];

fn raw(task_type: &str) -> DelayQueueJob {
    DelayQueueJob::raw(task_type, "x")
}

/// Waits until the gauges, which no task waits for, show `series`.
async fn until(handle: &PrometheusHandle, series_and_value: &str) {
    let (wanted, value) = series_and_value.rsplit_once(' ').unwrap();
    let value: f64 = value.parse().unwrap();
    let seen = async {
        while series(&handle.render()).get(wanted) != Some(&value) {
            tokio::task::yield_now().await;
        }
    };
    let within = tokio::time::timeout(seconds(10), seen).await;
    assert!(
        within.is_ok(),
        "not seen: {series_and_value}\n{}",
        handle.render()
    );
}

/// What the next test makes of [`COUNTERS`].
const EXPECTED: &[&str] = &[
    "delayq_attempts_failed_total{cause=error,type=doomed} 1",
    "delayq_attempts_failed_total{cause=error,type=flaky} 1",
    "delayq_attempts_failed_total{cause=error,type=once} 1",
    "delayq_attempts_failed_total{cause=error,type=releases} 1",
    "delayq_attempts_failed_total{cause=panic,type=panics} 1",
    "delayq_claimed_total{type=bounded} 1",
    "delayq_claimed_total{type=doomed} 1",
    "delayq_claimed_total{type=fine} 2",
    "delayq_claimed_total{type=flaky} 2",
    "delayq_claimed_total{type=once} 1",
    "delayq_claimed_total{type=panics} 1",
    "delayq_claimed_total{type=releases} 2",
    "delayq_claimed_total{type=robbed} 2",
    "delayq_locks_lost_total{type=robbed} 1",
    "delayq_settled_total{outcome=cancelled,type=fine} 1",
    "delayq_settled_total{outcome=dead,type=doomed} 1",
    "delayq_settled_total{outcome=dead,type=panics} 1",
    "delayq_settled_total{outcome=dead,type=releases} 1",
    "delayq_settled_total{outcome=done,type=bounded} 1",
    "delayq_settled_total{outcome=done,type=fine} 2",
    "delayq_settled_total{outcome=done,type=flaky} 1",
    "delayq_settled_total{outcome=done,type=once} 1",
    "delayq_settled_total{outcome=done,type=robbed} 1",
    "delayq_settled_total{outcome=released,type=releases} 1",
    "delayq_settled_total{outcome=retried,type=flaky} 1",
    "delayq_started_total{type=bounded} 1",
    "delayq_started_total{type=doomed} 1",
    "delayq_started_total{type=fine} 2",
    "delayq_started_total{type=flaky} 2",
    "delayq_started_total{type=once} 1",
    "delayq_started_total{type=panics} 1",
    "delayq_started_total{type=releases} 2",
    "delayq_started_total{type=robbed} 2",
    "delayq_submit_refused_total{reason=conflict,type=fine} 1",
    "delayq_submit_refused_total{reason=invalid,type=(other)} 1",
    "delayq_submit_refused_total{reason=queue_full,type=bounded} 1",
    "delayq_submitted_total{outcome=accepted,type=bounded} 1",
    "delayq_submitted_total{outcome=accepted,type=doomed} 1",
    "delayq_submitted_total{outcome=accepted,type=fine} 3",
    "delayq_submitted_total{outcome=accepted,type=flaky} 1",
    "delayq_submitted_total{outcome=accepted,type=nobody} 1",
    "delayq_submitted_total{outcome=accepted,type=once} 1",
    "delayq_submitted_total{outcome=accepted,type=panics} 1",
    "delayq_submitted_total{outcome=accepted,type=releases} 1",
    "delayq_submitted_total{outcome=accepted,type=robbed} 1",
    "delayq_submitted_total{outcome=already_exists,type=fine} 1",
    "delayq_submitted_total{outcome=replaced,type=fine} 1",
];

#[tokio::test]
async fn every_end_of_a_task_is_counted_once() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let queue = TestQueue::start(DelayQueuePluginBuilder::metrics)
        .await
        .unwrap();
    for id in ["1", "2", "1"] {
        queue.send(raw("fine").id(id)).await.unwrap();
    }
    for name in ["flaky", "doomed", "panics", "once", "releases"] {
        queue.send(raw(name)).await.unwrap();
    }
    queue.send(raw("robbed").id("r")).await.unwrap();
    queue.send(raw("bounded").after("2s")).await.unwrap();
    queue.send(raw("bounded").after("2s")).await.unwrap_err();
    let later = raw("fine").id("later").after("1h");
    queue.send(later.clone()).await.unwrap();
    let other = DelayQueueJob::raw("fine", "another message").id("later");
    queue.send(other.clone()).await.unwrap_err();
    queue.send(other.replace().after("1h")).await.unwrap();
    let cancelled = queue.tasks().cancel("fine", "later").await;
    assert_eq!(cancelled.unwrap(), CancelOutcome::Cancelled);
    queue.send(raw("no type")).await.unwrap_err();
    queue.send(raw("nobody").after("1h")).await.unwrap();
    queue.advance("5s").await;
    assert_eq!(not_zero(&handle, COUNTERS), EXPECTED);
    // Fifteen requests got to the store, which answered each of them.
    let calls = not_zero(&handle, &["delayq_store_calls_total"]);
    let submits: Vec<_> = calls.iter().filter(|one| one.contains("submit")).collect();
    assert_eq!(
        submits,
        ["delayq_store_calls_total{call=submit,outcome=ok} 15"]
    );
    let runs = "delayq_run_seconds_count";
    assert!(not_zero(&handle, &[runs]).contains(&format!("{runs}{{type=flaky}} 2")));
}

#[tokio::test]
async fn gauges_show_the_store_and_who_serves() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let queue = TestQueue::start(|builder| builder.metrics().only(["fine", "doomed"]))
        .await
        .unwrap();
    queue.send(raw("doomed")).await.unwrap();
    queue.send(raw("flaky")).await.unwrap();
    queue.tasks().pause("fine", None).await.unwrap();
    queue.send(raw("fine")).await.unwrap();
    queue.run_due().await;
    assert_eq!(queue.dead("doomed").await.len(), 1);
    // The first round was at the start; the second one is 15 s later.
    queue.advance("15s").await;
    for wanted in [
        "delayq_tasks{delayq_namespace=\"default\",state=\"dead\",type=\"doomed\"} 1",
        "delayq_oldest_dead_seconds{delayq_namespace=\"default\",type=\"doomed\"} 15",
        "delayq_tasks{delayq_namespace=\"default\",state=\"scheduled\",type=\"flaky\"} 1",
        "delayq_due_tasks{delayq_namespace=\"default\",type=\"flaky\"} 1",
        "delayq_oldest_due_seconds{delayq_namespace=\"default\",type=\"flaky\"} 15",
        "delayq_served{delayq_namespace=\"default\",type=\"flaky\"} 0",
        "delayq_served{delayq_namespace=\"default\",type=\"fine\"} 1",
        "delayq_paused{delayq_namespace=\"default\",type=\"fine\"} 1",
        "delayq_instances{delayq_namespace=\"default\"} 1",
        "delayq_sampled_timestamp_seconds{delayq_namespace=\"default\"} 1767225615",
    ] {
        until(&handle, wanted).await;
    }
    // What was late shows in the bucket of its lateness.
    queue.tasks().resume("fine").await.unwrap();
    queue.advance("2s").await;
    let late = series(&handle.render());
    let of = |le: &str| {
        let le = format!("le=\"{le}\"");
        late[&format!(
            "delayq_lateness_seconds_bucket{{delayq_namespace=\"default\",{le},type=\"fine\"}}"
        )]
    };
    assert_eq!((of("10"), of("30"), of("+Inf")), (0.0, 1.0, 1.0));
    // A type that is gone leaves no numbers behind.
    let purge = |state| queue.tasks().purge("flaky", state);
    assert_eq!(purge(TaskState::Scheduled).await.unwrap(), 1);
    queue.tasks().drop_type("flaky").await.unwrap();
    queue.advance("15s").await;
    let gone = "delayq_tasks{delayq_namespace=\"default\",state=\"scheduled\",type=\"flaky\"} 0";
    until(&handle, gone).await;
}

#[tokio::test]
async fn calls_in_doubt_and_expired_locks_are_counted() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let queue = TestQueue::start(|builder| builder.metrics().only(["fine"]))
        .await
        .unwrap();
    queue.run_due().await;
    queue.fail_next("submit", Fault::AnswerLost);
    queue
        .send(raw("fine").id("1").after("1h"))
        .await
        .unwrap_err();
    queue.fail_next("submit", Fault::NotApplied);
    queue.send(raw("fine").id("2")).await.unwrap_err();
    // Locked by this process, which does not learn of it.
    queue.fail_next("claim", Fault::AnswerLost);
    queue.send(raw("fine").id("3")).await.unwrap();
    queue.advance("1m").await;
    let mut names = COUNTERS.to_vec();
    names.push("delayq_store_calls_total");
    let counts = not_zero(&handle, &names);
    for wanted in [
        "delayq_submit_refused_total{reason=in_doubt,type=fine} 1",
        "delayq_submit_refused_total{reason=unavailable,type=fine} 1",
        "delayq_store_calls_total{call=submit,outcome=in_doubt} 1",
        "delayq_store_calls_total{call=submit,outcome=unavailable} 1",
        "delayq_store_calls_total{call=claim,outcome=in_doubt} 1",
        "delayq_lock_expiries_total{type=fine} 1",
        "delayq_claimed_total{type=fine} 1",
        "delayq_settled_total{outcome=done,type=fine} 1",
    ] {
        assert!(
            counts.iter().any(|one| one == wanted),
            "{wanted}: {counts:#?}"
        );
    }
}

#[tokio::test]
async fn a_sender_counts_and_types_beyond_a_thousand_share_their_labels() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let store = delayq_plugin::store::MemoryStore::default();
    let tasks = TaskSubmitService::new(Arc::new(store)).with_metrics();
    let jobs = (0..1_005).map(|n| raw(&format!("made.up.{n}")).after("1h"));
    for sent in tasks.send_all(jobs.collect()).await {
        sent.unwrap();
    }
    let counts = not_zero(&handle, &["delayq_submitted_total"]);
    assert_eq!(counts.len(), 1_001);
    assert!(
        counts.contains(&"delayq_submitted_total{outcome=accepted,type=(other)} 5".to_owned()),
        "{:?}",
        counts.first()
    );
    // What no process asks for is not there: at 0 it would be older than any store.
    for gauge in ["delayq_sampled_timestamp_seconds", "delayq_instances"] {
        assert!(!handle.render().contains(gauge), "{gauge}");
    }
}

/// One that does not run, and is listed.
fn listed(id: InstanceId, types: &[&str]) -> InstanceInfo {
    let types: Vec<_> = types.iter().map(|name| TaskType::new(*name)).collect();
    let types: Result<Vec<_>, _> = types.into_iter().collect();
    InstanceInfo::new(id, "elsewhere", 7, SystemClock.now()).serving(&types.unwrap())
}

#[tokio::test]
async fn a_type_counts_as_served_while_any_listed_instance_serves_it() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let queue = TestQueue::start(|builder| builder.metrics().only(["fine"]))
        .await
        .unwrap();
    let store = queue.tasks().store();
    let id = InstanceId::generate();
    let other = listed(id.clone(), &["flaky"]);
    store.announce(&other, seconds(3_600)).await.unwrap();
    for name in ["fine", "flaky", "doomed"] {
        queue.send(raw(name).after("1h")).await.unwrap();
    }
    queue.advance("15s").await;
    let served =
        |name: &str| format!("delayq_served{{delayq_namespace=\"default\",type=\"{name}\"}}");
    for (name, is_served) in [("fine", 1), ("flaky", 1), ("doomed", 0)] {
        until(&handle, &format!("{} {is_served}", served(name))).await;
    }
    until(&handle, "delayq_instances{delayq_namespace=\"default\"} 2").await;
    store.withdraw(&id).await.unwrap();
    queue.advance("15s").await;
    until(&handle, &format!("{} 0", served("flaky"))).await;
    until(&handle, &format!("{} 1", served("fine"))).await;
}

#[tokio::test]
async fn without_the_option_nothing_is_counted_and_the_store_is_asked_for_nothing_more() {
    let (recorder, handle) = recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let queue = TestQueue::start(|builder| builder).await.unwrap();
    queue.send(raw("fine")).await.unwrap();
    queue.advance("1m").await;
    assert_eq!(handle.render(), "");
}
