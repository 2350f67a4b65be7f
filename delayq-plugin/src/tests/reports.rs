//! What the log and the listeners hear of tasks that fail.

use std::io::Write;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use delayq_core::{
    Delivery, RetryPolicy, TaskContext, TaskError, TaskResult, TaskWorker, VirtualClock,
    WorkerOptions, millis, seconds,
};

use super::{builder, memory};
use crate::{
    DelayQueueJob, DelayQueuePlugin, FailureCause, TaskEvent, TaskEventKind, TaskListener,
};

/// Fails as its message says.
struct Failing;

#[async_trait]
impl TaskWorker for Failing {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        match message {
            "\"panic\"" => panic!("out of paper"),
            "\"hang\"" => {
                cx.cancelled().await;
                Err(TaskError::retry("told to stop"))
            }
            "\"last\"" if !cx.is_last_attempt() => Err(TaskError::retry(cx.max_attempts())),
            "\"last\"" => Ok(()),
            _ => Err(TaskError::retry("no route")),
        }
    }
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The lines of one task, without times and colours.
    fn of(&self, id: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let id = format!(" id={id} ");
        let lines = text.lines().filter(|line| line.contains(&id));
        lines.map(ToOwned::to_owned).collect()
    }
}

/// Remembers the methods that were called.
struct Heard(Arc<Mutex<Vec<String>>>);

impl TaskListener for Heard {
    fn on_failed(&self, event: &TaskEvent, error: &str) {
        self.0
            .lock()
            .unwrap()
            .push(format!("failed {} {error}", event.id));
    }

    fn on_dead(&self, event: &TaskEvent, error: &str) {
        self.0
            .lock()
            .unwrap()
            .push(format!("dead {} {error}", event.id));
        panic!("a listener may be wrong, too");
    }
}

fn options(delivery: Delivery) -> WorkerOptions {
    WorkerOptions {
        delivery,
        timeout: seconds(5),
        retry: RetryPolicy {
            max_attempts: 2,
            base: millis(10),
            jitter_percent: 0,
            ..RetryPolicy::DEFAULT
        },
        ..WorkerOptions::DEFAULT
    }
}

/// Sends a task for each way to fail, and collects what is told of them until all have ended.
async fn run_all(plugin: &DelayQueuePlugin, clock: &VirtualClock) -> Vec<(String, TaskEventKind)> {
    let mut events = plugin.events();
    let service = plugin.submit_service();
    for (task_type, message) in [
        ("job", "error"),
        ("job", "panic"),
        ("job", "hang"),
        ("job", "last"),
        ("once", "refused"),
    ] {
        let job = DelayQueueJob::new(task_type, message).unwrap().id(message);
        service.send(job).await.unwrap();
    }
    let (mut kinds, mut ended) = (Vec::new(), 0);
    while ended < 5 {
        let event = tokio::select! {
            event = events.next() => event.unwrap(),
            () = async {
                loop {
                    tokio::task::yield_now().await;
                    clock.advance(millis(1));
                }
            } => unreachable!(),
        };
        let is_end = match &event.kind {
            TaskEventKind::Dead { .. } | TaskEventKind::Succeeded { .. } => true,
            TaskEventKind::Failed { .. } => event.task_type.as_str() == "once",
            _ => false,
        };
        ended += usize::from(is_end);
        kinds.push((event.id.to_string(), event.kind));
    }
    kinds
}

/// The failed attempts of a task: their number, how they failed, and whether they are repeated.
fn failed(kinds: &[(String, TaskEventKind)], id: &str) -> Vec<(u32, FailureCause, bool)> {
    let of_task = kinds.iter().filter(|(other, _)| other == id);
    let failed = of_task.filter_map(|(_, kind)| match kind {
        TaskEventKind::Failed {
            attempt,
            cause,
            retry_in,
            ..
        } => Some((*attempt, *cause, retry_in.is_some())),
        _ => None,
    });
    failed.collect()
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_a_line_and_an_event_whatever_its_cause() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // The runtime has this thread alone.
    let _guard = tracing::subscriber::set_default(subscriber);
    let clock = VirtualClock::default();
    let heard = Arc::default();
    let plugin = builder(&memory(&clock), &clock)
        .on_application_runtime()
        .listener(Heard(Arc::clone(&heard)))
        .worker("job", options(Delivery::AtLeastOnce), Failing)
        .worker("once", options(Delivery::AtMostOnce), Failing)
        .start()
        .await
        .unwrap();
    let kinds = run_all(&plugin, &clock).await;
    let failed = |id: &str| failed(&kinds, id);
    let twice = |cause| vec![(1, cause, true), (2, cause, false)];
    assert_eq!(failed("error"), twice(FailureCause::Error));
    assert_eq!(failed("panic"), twice(FailureCause::Panic));
    assert_eq!(failed("hang"), twice(FailureCause::TimeLimit));
    assert_eq!(failed("refused"), [(1, FailureCause::Error, false)]);
    let submitted = kinds
        .iter()
        .filter(|(_, kind)| matches!(kind, TaskEventKind::Submitted { .. }));
    assert_eq!(submitted.count(), 5);
    assert!(matches!(
        kinds.last().unwrap().1,
        TaskEventKind::Dead {
            attempt: Some(2),
            ..
        }
    ));

    let of_panic = lines.of("panic");
    assert_eq!(of_panic.len(), 3, "{of_panic:#?}");
    assert!(of_panic[0].contains(" INFO ") && of_panic[0].contains("attempt=1"));
    assert!(of_panic[2].contains(" WARN ") && of_panic[2].contains("panicked: out of paper"));
    let of_once = lines.of("refused");
    assert_eq!(of_once.len(), 1, "{of_once:#?}");
    assert!(of_once[0].contains(" WARN ") && of_once[0].contains("no route"));

    let health = plugin.health().await;
    let counts: Vec<_> = health
        .handlers
        .iter()
        .map(|one| (one.failed, one.dead))
        .collect();
    assert_eq!(
        counts,
        [(7, 3), (1, 0)],
        "last fails once, the others twice"
    );
    drop(plugin);
    let heard = heard.lock().unwrap();
    let dead = heard.iter().filter(|line| line.starts_with("dead"));
    assert_eq!((heard.len(), dead.count()), (11, 3), "{heard:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_type_that_nobody_serves_is_one_warning() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let clock = VirtualClock::default();
    let store = memory(&clock);
    let earlier = DelayQueueJob::new("earlier", "1").unwrap();
    let service = crate::TaskSubmitService::new(std::sync::Arc::clone(&store));
    service.send(earlier).await.unwrap();
    let plugin = builder(&store, &clock)
        .on_application_runtime()
        .worker("job", options(Delivery::AtLeastOnce), Failing)
        .start()
        .await
        .unwrap();
    let service = plugin.submit_service();
    for task_type in ["jub", "job", "jub"] {
        let job = DelayQueueJob::new(task_type, "last").unwrap();
        service.send(job.after("1h")).await.unwrap();
    }
    for _ in 0..10_000 {
        clock.advance(millis(10));
        tokio::task::yield_now().await;
    }
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<_> = text
        .lines()
        .filter(|line| line.contains(" WARN "))
        .collect();
    let told = |task_type: &str| {
        let found = warnings
            .iter()
            .filter(|line| line.contains(&format!("task_type={task_type}")));
        found.count()
    };
    assert_eq!(
        (told("jub"), told("earlier"), told("job")),
        (1, 1, 0),
        "{text}"
    );
    assert_eq!(text.matches("delayq started").count(), 1, "{text}");
}
