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

#[tokio::test]
async fn a_pool_or_a_weight_that_cannot_be_is_refused_with_what_to_write() {
    let unused = refusal(|one| one.pool("mail", 2)).await;
    assert!(
        unused.starts_with("pool \"mail\": no worker uses it"),
        "{unused}"
    );
    let empty = refusal(|one| one.pool("mail", 0)).await;
    assert!(empty.contains("at least 1 slot"), "{empty}");
    let twice = refusal(|one| one.pool("mail", 2).pool("mail", 3)).await;
    assert!(twice.contains("declared twice"), "{twice}");
    let pooled = |one: DelayQueuePluginBuilder| {
        one.map_workers(|mut built| {
            built.options.pool = Some("mail");
            built
        })
    };
    let undeclared = refusal(pooled).await;
    assert!(
        undeclared.contains(".pool(\"mail\", 16) of the builder"),
        "{undeclared}"
    );
    // Of no pool, and of no worker.
    let alone = refusal(|one| one.weight("job", 2)).await;
    assert!(alone.starts_with("weight(\"job\", ..)"), "{alone}");
    for (options, reason) in [
        (
            WorkerOptions {
                weight: 0,
                ..WorkerOptions::DEFAULT
            },
            "1 to 100",
        ),
        (
            WorkerOptions {
                weight: 101,
                ..WorkerOptions::DEFAULT
            },
            "1 to 100",
        ),
        (
            WorkerOptions {
                weight: 2,
                ..WorkerOptions::DEFAULT
            },
            "name the pool",
        ),
    ] {
        let clock = VirtualClock::default();
        let plugin = builder(&memory(&clock), &clock).worker("job", options, Nothing);
        let refused = plugin.start().await.unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
    let range = refusal(|one| one.weight("job", 101)).await;
    assert_eq!(range, "weight: use a weight of 1 to 100");
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
    let newline = connect(format!("{url}\n.old")).await.unwrap_err();
    assert!(newline.contains("line break"), "{newline}");
    let fast = connect(format!("{url}?sync=fast")).await.unwrap_err();
    assert!(
        fast.contains("\"sync=fast\": write sqlite:PATH?sync=full"),
        "{fast}"
    );
    connect(format!("{url}?create=true")).await.unwrap();
    connect(url).await.unwrap();
}
