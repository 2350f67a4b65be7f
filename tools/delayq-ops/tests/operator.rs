//! What an operator does, and what the log says of it: on the memory store under virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    unused_must_use,
    reason = "a test fails by a panic, also in its helpers; outcomes are looked for in the log"
)]

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use delayq_ops::{DeadSelection, DeadTasks, Operator, TransferReport, known_type};
use delayq_plugin::store::{
    ActionEnd, AttemptEnd, Bucket, ClaimRequest, Layer, LoggedAction, MemoryStore, Settlement,
    StoreCall, StoreOptions,
};
use delayq_plugin::{
    Clock, DelayQueueJob, Error, Store, TaskFilter, TaskId, TaskState, TaskSubmitService, TaskType,
    TypeSettings, VirtualClock, When, hours, minutes, seconds,
};
use delayq_testing::{Fault, FaultyStore};

fn memory(clock: &VirtualClock) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(
        Arc::new(clock.clone()),
        StoreOptions::default(),
    ))
}

fn service(store: Arc<dyn Store>, clock: &VirtualClock) -> TaskSubmitService {
    TaskSubmitService::new(store).with_clock(Arc::new(clock.clone()))
}

fn operator(clock: &VirtualClock) -> Operator {
    let tasks = service(memory(clock), clock);
    Operator::new(&tasks, "ann", "desk-4 test")
}

fn job(id: &str) -> DelayQueueJob {
    DelayQueueJob::raw("mail", "hi").id(id).after(minutes(10))
}

async fn send(tasks: &TaskSubmitService, ids: &[&str]) {
    for id in ids {
        tasks.send(job(id)).await.unwrap();
    }
}

/// Lets tasks die of `error`.
async fn kill(operator: &Operator, ids: &[&str], error: &str) {
    let tasks = operator.tasks();
    send(tasks, ids).await;
    let bucket = Bucket::whole(TaskType::new("mail").unwrap());
    for id in ids {
        tasks.run_now("mail", id).await.unwrap();
        let now = tasks.clock().now();
        let request = ClaimRequest::new(1, minutes(1), now);
        let claimed = tasks.store().claim(&bucket, &request).await.unwrap();
        let lock = claimed.tasks[0].lock.clone();
        let (error, succeeded) = (error.to_owned(), Vec::new());
        let dead = Settlement::new(lock, AttemptEnd::Dead { error, succeeded });
        tasks.store().settle(&bucket, vec![dead]).await.unwrap();
    }
}

/// The log, the oldest first.
async fn log(operator: &Operator) -> Vec<LoggedAction> {
    let store = operator.tasks().store();
    let mut actions = store.actions(None, 100).await.unwrap();
    actions.reverse();
    actions
}

/// Verb, target, end and count of each entry.
async fn lines(operator: &Operator) -> Vec<String> {
    let actions = log(operator).await;
    let line = |one: &LoggedAction| {
        let action = &one.action;
        let count = action
            .count
            .map_or(String::new(), |count| format!(" {count}"));
        format!("{} {} {}{count}", action.verb, action.target, action.end)
    };
    actions.iter().map(line).collect()
}

#[tokio::test]
async fn each_change_of_one_task_or_type_is_an_entry() {
    let operator = operator(&VirtualClock::default()).creating(true);
    operator.send(job("a")).await.unwrap();
    operator
        .reschedule("mail", "a", When::After(hours(2)))
        .await
        .unwrap();
    operator.run_now("mail", "a").await.unwrap();
    operator.update("mail", "a", b"ho".to_vec()).await.unwrap();
    operator.cancel("mail", "a").await.unwrap();
    operator.pause("mail", None).await.unwrap();
    operator.resume("*").await.unwrap();
    let bound = TypeSettings::default().max_pending(Some(7));
    operator.configure_type("mail", &bound).await.unwrap();
    operator.repair("mail").await.unwrap();
    operator.remove_recurring("mail", "nightly").await.unwrap();
    operator.drop_type("mail").await.unwrap();
    let expected = [
        "send a done",
        "reschedule a done",
        "run-now a done",
        "update a done",
        "cancel a done",
        "pause  done",
        "resume  done",
        "configure  done",
        "repair  done",
        "remove-recurring nightly done",
        "drop-type  done",
    ];
    assert_eq!(lines(&operator).await, expected);
    let log = log(&operator).await;
    let first = &log[0].action;
    let who = (
        first.actor.as_str(),
        first.origin.as_str(),
        first.task_type.as_str(),
    );
    assert_eq!(who, ("ann", "desk-4 test", "mail"));
    assert!(first.detail.starts_with("due "), "{}", first.detail);
    let details = [5, 6, 7].map(|nth: usize| log[nth].action.detail.as_str());
    assert_eq!(details, ["until resumed", "mail", "max pending 7"]);
    assert_eq!(log[6].action.task_type, "*");
}

#[tokio::test]
async fn what_is_refused_is_an_entry_that_says_why() {
    let operator = operator(&VirtualClock::default());
    send(operator.tasks(), &["a"]).await;
    operator.tasks().cancel("mail", "a").await.unwrap();
    operator.cancel("mail", "a").await.unwrap();
    operator.cancel("mail", "b").await.unwrap();
    operator.run_now("mail", "a").await.unwrap();
    operator.pause("none.*", None).await.unwrap_err();
    operator.send(job("a").keep()).await.unwrap();
    send(operator.tasks(), &["b"]).await;
    operator.drop_type("mail").await.unwrap_err();
    let log = log(&operator).await;
    assert!(log.iter().all(|one| one.action.end == ActionEnd::Refused));
    let details: Vec<_> = log.iter().map(|one| one.action.detail.as_str()).collect();
    let (details, dropped) = (&details[..4], details[4]);
    assert!(dropped.contains("1 scheduled"), "{dropped}");
    let expected = [
        "it is cancelled",
        "no such task",
        "it is cancelled",
        "known already: cancelled",
    ];
    assert_eq!(details, expected);
}

/// `pause sms.snt` was answered `paused`, while sms.send went on.
#[tokio::test]
async fn a_type_that_is_not_there_is_refused_with_the_name_that_was_meant_or_made() {
    let operator = operator(&VirtualClock::default());
    let tasks = operator.tasks();
    tasks
        .send(DelayQueueJob::raw("sms.send", "hi"))
        .await
        .unwrap();
    let bound = TypeSettings::default().max_pending(Some(7));
    let refused = [
        operator.pause("sms.snt", None).await.map(drop),
        operator.resume("sms.snt").await.map(drop),
        operator.pause("sms.snt.*", None).await.map(drop),
        operator.configure_type("sms.snt", &bound).await,
        operator
            .purge("sms.snt", TaskState::Scheduled)
            .await
            .map(drop),
        operator.repair("sms.snt").await.map(drop),
        operator
            .send(DelayQueueJob::raw("sms.snt", "hi"))
            .await
            .map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::UnknownType { .. }), "{said}");
        assert!(said.ends_with("did you mean sms.send?"), "{said}");
    }
    let other = operator.pause("report.nightly", None).await.unwrap_err();
    assert_eq!(
        other.to_string(),
        "there is no task type report.nightly",
        "no name is like it"
    );
    assert_eq!(lines(&operator).await.len(), 0, "a mistake is no action");
    assert_eq!(tasks.types().await.unwrap().len(), 1);

    let maker = operator.clone().creating(true);
    maker.pause("report.nightly", None).await.unwrap();
    maker.pause("none.*", None).await.unwrap_err();
    let names = tasks.types().await.unwrap();
    assert_eq!(
        names.iter().map(TaskType::as_str).collect::<Vec<_>>(),
        ["report.nightly", "sms.send"]
    );
    operator.resume("report.nightly").await.unwrap();
    // A pause by an application of a type without a task can be ended, too.
    tasks.pause("later", None).await.unwrap();
    operator.resume("later").await.unwrap();
}

/// A server in front of which one may change tasks, and not look at types.
#[derive(Debug)]
struct Blind(Arc<dyn Store>);

impl Layer for Blind {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn around<T: Send>(
        &self,
        call: StoreCall,
        answer: impl Future<Output = delayq_plugin::Result<T>> + Send,
    ) -> delayq_plugin::Result<T> {
        match call {
            StoreCall::Types | StoreCall::Stats => {
                let setting = "the server refuses: the token has no scope read";
                Err(Error::misconfigured(
                    "delayq://shop",
                    setting,
                    "use another token",
                ))
            }
            _ => answer.await,
        }
    }
}

/// The token of one who only sends was refused, as it may not look up the type.
#[tokio::test]
async fn who_may_not_look_up_a_type_may_send_and_who_sees_some_is_told_no_other() {
    let clock = VirtualClock::default();
    let store = memory(&clock);
    let blind = service(Arc::new(Blind(Arc::clone(&store))), &clock);
    let operator = Operator::new(&blind, "shop", "desk-4 test");
    operator.send(job("a")).await.unwrap();
    let known = known_type(&blind, "mail").await.unwrap();
    assert_eq!(known.as_str(), "mail");
    blind.stats("mail").await.unwrap_err();

    let operator = Operator::new(&service(store, &clock), "shop", "desk-4 test");
    let narrow = operator.clone().naming(|one| one.as_str() != "mail");
    for (operator, hint) in [(operator, "did you mean mail?"), (narrow, "type mial")] {
        let error = operator.pause("mial", None).await.unwrap_err();
        assert!(error.to_string().ends_with(hint), "{error}");
    }
}

#[tokio::test]
async fn shards_are_refused_where_a_store_has_none_and_nothing_changes() {
    let operator = operator(&VirtualClock::default());
    send(operator.tasks(), &["a"]).await;
    let sharded = TypeSettings::default().shards(4).max_pending(Some(7));
    let refused = operator.configure_type("mail", &sharded).await.unwrap_err();
    assert!(refused.to_string().contains("has no shards"), "{refused}");
    let stats = operator.tasks().stats("mail").await.unwrap();
    assert_eq!(stats.max_pending, None);
    let whole = TypeSettings::default().shards(1).max_pending(Some(7));
    operator.configure_type("mail", &whole).await.unwrap();
}

#[tokio::test]
async fn a_failure_of_the_store_is_an_entry() {
    let clock = VirtualClock::default();
    let store = FaultyStore::new(memory(&clock), |operation| match operation {
        "cancel" => Fault::NotApplied,
        _ => Fault::None,
    });
    let operator = Operator::new(&service(Arc::new(store), &clock), "ann", "test");
    operator.cancel("mail", "a").await.unwrap_err();
    assert_eq!(lines(&operator).await, ["cancel a failed"]);
}

#[tokio::test]
async fn a_change_of_many_is_an_entry_before_and_one_after() {
    let clock = VirtualClock::default();
    let operator = operator(&clock);
    kill(&operator, &["d-1", "d-2", "d-3"], "no van").await;
    kill(&operator, &["d-4"], "no driver").await;
    let vans = DeadSelection::of("mail").error("van");
    assert_eq!(vans.count(operator.tasks()).await.unwrap(), 3);
    let mut heard = Vec::new();
    let requeued = operator.requeue(&vans, Duration::ZERO, |done, count| {
        heard.push((done, count));
    });
    assert_eq!(requeued.await.unwrap(), 3);
    assert_eq!(heard, [(3, 3)]);
    let one = DeadSelection::of("mail").ids(vec![TaskId::new("d-4").unwrap()]);
    assert_eq!(operator.discard(&one, |_, _| ()).await.unwrap(), 1);
    let filter = TaskFilter::new().id_prefix("d-1");
    let when = When::After(hours(1));
    operator
        .reschedule_all("mail", &filter, when)
        .await
        .unwrap();
    operator.cancel_all("mail", &filter).await.unwrap();
    operator.purge("mail", TaskState::Scheduled).await.unwrap();
    let expected = [
        "requeue error contains \"van\" begun 3",
        "requeue error contains \"van\" done 3",
        "discard d-4 done 1",
        "reschedule-all id begins with d-1 to 3600s from now begun",
        "reschedule-all id begins with d-1 to 3600s from now done 1",
        "cancel-all id begins with d-1 begun",
        "cancel-all id begins with d-1 done 1",
        "purge all scheduled tasks begun",
        "purge all scheduled tasks done 2",
    ];
    assert_eq!(lines(&operator).await, expected);
}

#[tokio::test]
async fn tasks_that_died_without_an_error_are_a_selection_of_their_own() {
    let operator = operator(&VirtualClock::default());
    kill(&operator, &["d-1", "d-2"], "").await;
    kill(&operator, &["d-3"], "no van").await;
    let silent = DeadSelection::of("mail").without_error();
    assert!(!silent.is_all());
    assert_eq!(silent.count(operator.tasks()).await.unwrap(), 2);
    assert_eq!(operator.discard(&silent, |_, _| ()).await.unwrap(), 2);
    let expected = [
        "discard without an error begun 2",
        "discard without an error done 2",
    ];
    assert_eq!(lines(&operator).await, expected);
}

#[tokio::test]
async fn a_requeue_at_a_rate_takes_its_time() {
    let clock = VirtualClock::default();
    let operator = operator(&clock);
    kill(&operator, &["d-1", "d-2", "d-3", "d-4"], "no van").await;
    let begin = clock.now();
    let all = DeadSelection::of("mail");
    let slow = operator.requeue(&all, Duration::from_millis(500), |_, _| ());
    let (slow, ()) = tokio::join!(slow, async {
        while operator.tasks().stats("mail").await.unwrap().dead > 2 {
            tokio::task::yield_now().await;
        }
        clock.advance(seconds(1));
    });
    assert_eq!(slow.unwrap(), 4);
    assert_eq!(clock.now().since(begin), seconds(1));
}

#[tokio::test]
async fn a_log_that_cannot_be_written_refuses_a_change_of_many_and_nothing_is_changed() {
    let clock = VirtualClock::default();
    let store = memory(&clock);
    let sound = Operator::new(&service(Arc::clone(&store), &clock), "ann", "test");
    send(sound.tasks(), &["a", "b"]).await;
    kill(&sound, &["d-1", "d-2"], "no van").await;
    for fault in [Fault::NotApplied, Fault::AnswerLost, Fault::ReadOnly] {
        let faulty = FaultyStore::new(Arc::clone(&store), move |operation| match operation {
            "log_action" => fault,
            _ => Fault::None,
        });
        let operator = Operator::new(&service(Arc::new(faulty), &clock), "ann", "test");
        let (all, dead) = (TaskFilter::all(), DeadSelection::of("mail"));
        let when = When::After(hours(1));
        operator.cancel_all("mail", &all).await.unwrap_err();
        operator
            .reschedule_all("mail", &all, when)
            .await
            .unwrap_err();
        operator
            .purge("mail", TaskState::Scheduled)
            .await
            .unwrap_err();
        operator
            .requeue(&dead, Duration::ZERO, |_, _| ())
            .await
            .unwrap_err();
        operator.discard(&dead, |_, _| ()).await.unwrap_err();
        let (from, kind) = (service(memory(&clock), &clock), DeadTasks::LeaveOut);
        send(&from, &["c"]).await;
        operator
            .copy_from(&from, "mail", kind, &mut |_| ())
            .await
            .unwrap_err();
        let stats = sound.tasks().stats("mail").await.unwrap();
        assert_eq!((stats.scheduled, stats.dead), (2, 2), "{fault:?}");
        // One task has been changed by the time its entry fails.
        operator.run_now("mail", "a").await.unwrap();
    }
}

#[tokio::test]
async fn a_mistake_of_the_caller_leaves_nothing() {
    let operator = operator(&VirtualClock::default());
    send(operator.tasks(), &["a"]).await;
    let (none, when) = (TaskFilter::new(), When::After(hours(1)));
    let dead = TaskFilter::all().state(TaskState::Dead);
    operator.cancel("no type", "a").await.unwrap_err();
    operator.send(job("\n")).await.unwrap_err();
    operator.cancel_all("mail", &none).await.unwrap_err();
    operator.cancel_all("mail", &dead).await.unwrap_err();
    operator
        .cancel_all("m*il*", &TaskFilter::all())
        .await
        .unwrap_err();
    operator
        .reschedule_all("mail", &none, when)
        .await
        .unwrap_err();
    operator
        .purge("mail", TaskState::Running)
        .await
        .unwrap_err();
    operator
        .purge("no type", TaskState::Dead)
        .await
        .unwrap_err();
    let of = || DeadSelection::of("mail");
    for selection in [
        of().filter(TaskFilter::new().id_prefix("")),
        of().filter(TaskFilter::new().group("")),
        of().error(""),
        of().error(" \n"),
        of().group(""),
        of().ids(vec![TaskId::new("a").unwrap()]).error(""),
    ] {
        operator.discard(&selection, |_, _| ()).await.unwrap_err();
        let requeued = operator.requeue(&selection, Duration::ZERO, |_, _| ());
        requeued.await.unwrap_err();
        selection.tasks(operator.tasks()).await.unwrap_err();
        selection.count(operator.tasks()).await.unwrap_err();
        assert!(!selection.is_all(), "{selection}");
    }
    assert_eq!(lines(&operator).await, [""; 0]);
    let json = DelayQueueJob::raw("mail", "{}").id("b").after(hours(1));
    let json = json.header("content-type", "application/json");
    operator.tasks().send(json).await.unwrap();
    let broken = operator.update("mail", "b", b"{".to_vec()).await;
    assert!(broken.unwrap_err().to_string().contains("no JSON"));
}

#[tokio::test]
async fn tasks_from_a_file_or_a_store_are_an_entry_before_and_one_after() {
    let clock = VirtualClock::default();
    let from = service(memory(&clock), &clock);
    send(&from, &["a", "b"]).await;
    let (mut file, kind) = (Vec::new(), DeadTasks::LeaveOut);
    let mut hear = |_: &TransferReport| ();
    delayq_ops::export(&from, "mail", kind, &mut file, &mut hear)
        .await
        .unwrap();
    let operator = operator(&clock);
    let mut reader = Cursor::new(&file);
    let imported = operator
        .import("a.jsonl", kind, &mut reader, &mut hear)
        .await;
    assert_eq!(imported.unwrap().written, 2);
    let copied = operator.copy_from(&from, "mail", kind, &mut hear).await;
    assert_eq!(copied.unwrap().existing, 2);
    let mut broken = Cursor::new(b"{");
    let failed = operator
        .import("b.jsonl", kind, &mut broken, &mut hear)
        .await;
    failed.unwrap_err();
    let expected = [
        "import a.jsonl begun",
        "import a.jsonl done 2",
        "copy from memory:default begun",
        "copy from memory:default done 0",
        "import b.jsonl begun",
        "import b.jsonl failed 0",
    ];
    assert_eq!(lines(&operator).await, expected);
    assert_eq!(
        log(&operator).await[3].action.detail,
        "2 were there, 0 refused"
    );
}
