//! What a start refuses, and what a worker can be given.

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_core::{
    Limits, Namespace, TaskContext, TaskResult, TaskWorker, VirtualClock, WorkerOptions, millis,
};

use super::{builder, memory};
use crate::{DelayQueuePluginBuilder, StartError, TaskSubmitService};

struct Nothing;

#[async_trait]
impl TaskWorker for Nothing {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

/// Why a start with one more line fails.
async fn refusal(more: fn(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder) -> String {
    let clock = VirtualClock::default();
    let good = builder(&memory(&clock), &clock).worker("job", WorkerOptions::DEFAULT, Nothing);
    let refused: StartError = more(good).start().await.unwrap_err();
    format!("{refused:?}")
}

#[tokio::test]
async fn an_option_that_cannot_hold_is_refused_by_its_name() {
    let of_store = refusal(|one| one.namespace(Namespace::default()).retention(millis(1))).await;
    assert!(
        of_store.starts_with("namespace, retention: an open store"),
        "{of_store}"
    );
    assert_eq!(
        refusal(|one| one.threads(0)).await,
        "threads: use at least 1"
    );
    let nothing = refusal(|one| one.only([""; 0])).await;
    assert!(
        nothing.starts_with("only: use at least one type"),
        "{nothing}"
    );
    assert_eq!(
        refusal(|one| one.max_lock_expiries(0)).await,
        "max_lock_expiries: use at least 1"
    );
    assert_eq!(
        refusal(|one| one.poll_interval(millis(9))).await,
        "poll_interval: use at least 10 ms"
    );
    let limits = |one: DelayQueuePluginBuilder| {
        one.limits(Limits {
            max_message_bytes: (1 << 20) + 1,
            ..Limits::default()
        })
    };
    assert!(
        refusal(limits)
            .await
            .starts_with("limits: use at most 1 MiB")
    );
    let twice = refusal(|one| one.component(7_u64).component(8_u64)).await;
    assert!(twice.starts_with("two components of type u64"), "{twice}");
    let own = |one: DelayQueuePluginBuilder| {
        let clock = VirtualClock::default();
        let service = TaskSubmitService::new(memory(&clock));
        one.component(service.clone()).component(service)
    };
    assert!(refusal(own).await.contains("TaskSubmitService"));
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_mere_sender_makes_no_file_and_a_path_is_no_line_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.sqlite");
    let url = format!("sqlite:{}", path.display());
    let connect = |url: String| async move {
        let connected = TaskSubmitService::connect(&url, StoreOptions::default()).await;
        connected.map(drop).map_err(|error| error.to_string())
    };
    let refused = connect(url.clone()).await.unwrap_err();
    assert!(
        refused.contains("there is no file") && refused.contains("?create=true"),
        "{refused}"
    );
    assert!(!path.exists());
    let newline = connect(format!("{url}\n")).await.unwrap_err();
    assert!(newline.contains("line break"), "{newline}");
    let fast = connect(format!("{url}?sync=fast")).await.unwrap_err();
    assert!(
        fast.contains("\"sync=fast\": write sqlite:PATH?sync=full"),
        "{fast}"
    );
    connect(format!("{url}?create=true")).await.unwrap();
    connect(url).await.unwrap();
}
