//! Export, import and copy, between the memory store and SQLite.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::sync::Arc;

use delayq_ops::{DeadTasks, TransferError, TransferFault, TransferReport, copy, export, import};
use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, MemoryStore, NewTask, Settlement, SqliteStore, StoreOptions,
};
use delayq_plugin::{
    Clock, DelayQueueJob, Expiry, TaskId, TaskInfo, TaskState, TaskSubmitService, TaskType,
    VirtualClock, When, days, minutes, seconds,
};

fn memory(clock: &VirtualClock) -> TaskSubmitService {
    let store = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
    TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(clock.clone()))
}

async fn sqlite(clock: &VirtualClock) -> (tempfile::TempDir, TaskSubmitService) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.sqlite");
    let store = SqliteStore::open(path, Arc::new(clock.clone()), StoreOptions::default());
    let tasks = TaskSubmitService::new(store.await.unwrap());
    (folder, tasks.with_clock(Arc::new(clock.clone())))
}

/// 300 tasks of two types, one of them with a message that is no text, and a dead one.
async fn filled(clock: &VirtualClock) -> TaskSubmitService {
    let tasks = memory(clock);
    let first = DelayQueueJob::raw("mail.a", "dies").id("dead");
    tasks.send(first).await.unwrap();
    let bucket = Bucket::whole(TaskType::new("mail.a").unwrap());
    let request = ClaimRequest::new(1, minutes(1), clock.now());
    let claimed = tasks.store().claim(&bucket, &request).await.unwrap();
    let lock = claimed.tasks[0].lock.clone();
    let (error, succeeded) = ("gone".to_owned(), Vec::new());
    let dead = Settlement::new(lock, AttemptEnd::Dead { error, succeeded }).with_note("pri=7");
    tasks.store().settle(&bucket, vec![dead]).await.unwrap();
    for nth in 0..300_u64 {
        let task_type = if nth % 2 == 0 { "mail.a" } else { "mail.b" };
        let message = if nth == 7 {
            vec![0, 159, 255]
        } else {
            format!("n {nth}\n").into_bytes()
        };
        let job = DelayQueueJob::raw(task_type, message)
            .id(format!("t{nth}"))
            .after(minutes(10) + seconds(nth))
            .expires_after("1h")
            .group("shop");
        tasks.send(job).await.unwrap();
    }
    tasks
}

/// All that is restored of the scheduled tasks of a type.
async fn scheduled(tasks: &TaskSubmitService, task_type: &str) -> Vec<TaskInfo> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = tasks.list(task_type, TaskState::Scheduled, cursor.as_ref(), 128);
        let page = page.await.unwrap();
        all.extend(page.tasks);
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

async fn file(tasks: &TaskSubmitService, dead: DeadTasks) -> (Vec<u8>, TransferReport) {
    let (mut file, mut pages) = (Vec::new(), 0);
    let mut progress = |_: &TransferReport| pages += 1;
    let report = export(tasks, "mail.*", dead, &mut file, &mut progress)
        .await
        .unwrap();
    assert!(pages > 2, "{pages}");
    (file, report)
}

async fn read(
    tasks: &TaskSubmitService,
    dead: DeadTasks,
    mut lines: &[u8],
) -> Result<TransferReport, TransferError> {
    import(tasks, dead, &mut lines, &mut |_| {}).await
}

#[tokio::test]
async fn a_store_goes_through_a_file_into_another_and_a_repeat_doubles_nothing() {
    let clock = VirtualClock::default();
    let from = filled(&clock).await;
    let (lines, report) = file(&from, DeadTasks::LeaveOut).await;
    assert_eq!(
        (report.written, report.dead_left_out, report.running_left),
        (300, 1, 0)
    );
    let (_folder, to) = sqlite(&clock).await;
    let first = read(&to, DeadTasks::LeaveOut, &lines);
    let first = first.await.unwrap();
    assert_eq!((first.read, first.written, first.refused), (300, 300, 0));
    for task_type in ["mail.a", "mail.b"] {
        let tasks = scheduled(&from, task_type).await;
        assert_eq!(tasks.len(), 150);
        assert_eq!(scheduled(&to, task_type).await, tasks);
    }
    let again = read(&to, DeadTasks::LeaveOut, &lines);
    let again = again.await.unwrap();
    assert_eq!((again.written, again.existing, again.refused), (0, 300, 0));
    let direct = memory(&clock);
    let copied = copy(&to, &direct, "mail.b", DeadTasks::LeaveOut, &mut |_| {})
        .await
        .unwrap();
    assert_eq!(copied.written, 150);
    assert_eq!(
        scheduled(&direct, "mail.b").await,
        scheduled(&from, "mail.b").await
    );
    to.close().await;
}

#[tokio::test]
async fn dead_tasks_come_along_when_they_are_asked_for_and_are_due_at_once() {
    let clock = VirtualClock::default();
    let from = filled(&clock).await;
    let (lines, report) = file(&from, DeadTasks::Include).await;
    assert_eq!((report.written, report.dead_left_out), (301, 0));
    // For people: it is not restored, as the rest of the history.
    let text = std::str::from_utf8(&lines).unwrap();
    assert_eq!(text.matches("\"note\":\"pri=7\"").count(), 1);
    let to = memory(&clock);
    let without = read(&to, DeadTasks::LeaveOut, &lines);
    assert_eq!(without.await.unwrap().dead_left_out, 1);
    let with = read(&to, DeadTasks::Include, &lines);
    let with = with.await.unwrap();
    assert_eq!((with.written, with.existing), (1, 300));
    let task = to.find("mail.a", "dead").await.unwrap().unwrap();
    assert_eq!((task.state, task.at), (TaskState::Scheduled, clock.now()));
    assert_eq!(task.history.note, None);
}

#[tokio::test]
async fn a_broken_line_is_named_and_what_stands_before_it_is_sent() {
    let clock = VirtualClock::default();
    let (lines, _) = file(&filled(&clock).await, DeadTasks::LeaveOut).await;
    let text = String::from_utf8(lines).unwrap();
    for (broken, what) in [
        ("{\"v\":1,", "no task: EOF"),
        ("{}", "no task: missing field"),
        (
            "{\"v\":2,\"type\":\"a\",\"id\":\"b\",\"state\":\"scheduled\",\"at\":1}",
            "version 2",
        ),
        (
            "{\"v\":1,\"type\":\"a\",\"id\":\"b\",\"state\":\"scheduled\",\"at\":1}",
            "either message",
        ),
        (
            "{\"v\":1,\"type\":\"a\",\"id\":\"b\",\"state\":\"done\",\"at\":1,\"message\":\"\",\"past\":{}}",
            "its state is done",
        ),
        (
            "{\"v\":1,\"type\":\"a\",\"id\":\"b\",\"state\":\"dead\",\"at\":1,\"message\":\"\",\"header\":{}}",
            "unknown field `header`",
        ),
    ] {
        let mut lines: Vec<_> = text.lines().take(5).collect();
        lines.insert(3, broken);
        let (to, lines) = (memory(&clock), lines.join("\n"));
        let failed = read(&to, DeadTasks::LeaveOut, lines.as_bytes());
        let failed = failed.await.unwrap_err();
        assert_eq!(
            (failed.line, failed.report.written),
            (Some(4), 3),
            "{failed}"
        );
        assert!(matches!(failed.fault, TransferFault::Line(_)));
        assert!(failed.to_string().contains(what), "{failed}");
        assert_eq!(scheduled(&to, "mail.a").await.len(), 3);
    }
}

#[tokio::test]
async fn another_task_with_the_id_stays_and_the_line_is_refused() {
    let clock = VirtualClock::default();
    let (lines, _) = file(&filled(&clock).await, DeadTasks::LeaveOut).await;
    let to = memory(&clock);
    let other = DelayQueueJob::raw("mail.a", "other").id("t0").after("1h");
    to.send(other).await.unwrap();
    let report = read(&to, DeadTasks::LeaveOut, &lines);
    let report = report.await.unwrap();
    assert_eq!(
        (report.written, report.refused, report.refusals[0].line),
        (299, 1, 1)
    );
    let task = to.find("mail.a", "t0").await.unwrap().unwrap();
    assert_eq!(task.message.as_deref(), Some(&b"other"[..]));
}

/// A client of beanstalkd may ask for 136 years, and one of lmstfy for a life as long.
#[tokio::test]
async fn a_store_that_holds_delays_of_more_than_ten_years_is_moved() {
    let clock = VirtualClock::default();
    let from = memory(&clock);
    let far = [days(3_650), days(3_651), seconds(u64::from(u32::MAX))];
    let tasks = far.iter().enumerate().map(|(nth, delay)| {
        let (task_type, id) = (TaskType::new("mail.far"), TaskId::new(format!("{nth}")));
        let mut task = NewTask::new(task_type.unwrap(), id.unwrap(), b"x".to_vec());
        task.when = When::After(*delay);
        task.expiry = Some(Expiry::AfterDue(days(36_500)));
        task
    });
    for outcome in from.store().submit(tasks.collect()).await {
        outcome.unwrap();
    }
    let held = scheduled(&from, "mail.far").await;
    assert_eq!(held.len(), far.len());
    let (_first, one) = sqlite(&clock).await;
    let copied = copy(&from, &one, "*", DeadTasks::LeaveOut, &mut |_| {}).await;
    assert_eq!(copied.unwrap().written, 3);
    assert_eq!(scheduled(&one, "mail.far").await, held);
    let mut lines = Vec::new();
    let exported = export(&from, "*", DeadTasks::LeaveOut, &mut lines, &mut |_| {}).await;
    assert_eq!(exported.unwrap().written, 3);
    let (_second, other) = sqlite(&clock).await;
    let report = read(&other, DeadTasks::LeaveOut, &lines).await.unwrap();
    assert_eq!((report.written, report.refused), (3, 0));
    assert_eq!(scheduled(&other, "mail.far").await, held);
}
