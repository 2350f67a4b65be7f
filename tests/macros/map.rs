//! What a map of the workers sees, and what it changes.

use std::sync::Arc;

use async_trait::async_trait;
use delayq_plugin::store::{MemoryStore, StoreOptions};
use delayq_plugin::{
    Component, DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, StartError, SystemClock,
    TaskContext, TaskResult, TaskSubmitService, TaskWorker, WorkerOptions, millis, task_worker,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::arguments::{Mailer, Smtp};
use crate::tools::Seen;

#[task_worker(type = "map.registered", name = "by-macro")]
async fn registered() -> TaskResult {
    Ok(())
}

struct ByHand;

#[async_trait]
impl TaskWorker for ByHand {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

/// Tells whom it stands around, then lets it do its work.
struct Around(Arc<dyn TaskWorker>, String, UnboundedSender<String>);

#[async_trait]
impl TaskWorker for Around {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        self.2.send(self.1.clone())?;
        self.0.invoke_bytes(message, cx).await
    }
}

fn builder() -> DelayQueuePluginBuilder {
    let store = MemoryStore::new(Arc::new(SystemClock), StoreOptions::default());
    DelayQueuePlugin::builder()
        .store(Arc::new(store))
        .component(Seen::default())
        .component(42_u64)
        .component(Arc::new(7_u32))
        .component_arc::<dyn Mailer>(Arc::new(Smtp))
        .pool("post", 1)
        .worker("map.by-hand", WorkerOptions::DEFAULT, ByHand)
}

#[tokio::test]
async fn every_worker_passes_through_the_map_whoever_added_it() {
    let (told, mut heard) = unbounded_channel();
    let builder = builder().map_workers(move |mut built| {
        let name = format!("{} {}", built.task_type, built.name.contains("by-macro"));
        built.worker = Arc::new(Around(built.worker, name, told.clone()));
        built
    });
    let plugin = builder.start().await.expect("all components are there");
    let tasks = plugin.submit_service();
    for (task_type, name) in [
        ("map.registered", "map.registered true"),
        ("map.by-hand", "map.by-hand false"),
    ] {
        let job = DelayQueueJob::new(task_type, "message").expect("a text has a JSON form");
        tasks.send(job).await.expect("the memory store takes it");
        assert_eq!(heard.recv().await.as_deref(), Some(name));
    }
}

/// Sends another task; every plugin has the service.
#[task_worker(type = "map.sender")]
async fn sender(message: String, tasks: Component<TaskSubmitService>) -> TaskResult {
    tasks.send(received::job(&message)?).await?;
    Ok(())
}

#[task_worker(type = "map.received")]
async fn received(_message: &str) {}

#[tokio::test]
async fn a_worker_sends_with_the_service_of_its_plugin() {
    let (told, mut heard) = unbounded_channel();
    let builder = builder().map_workers(move |mut built| {
        built.worker = Arc::new(Around(built.worker, built.task_type.clone(), told.clone()));
        built
    });
    let plugin = builder.start().await.expect("the service is a component");
    let job = sender::job("on and on").expect("a valid type");
    plugin
        .submit_service()
        .send(job)
        .await
        .expect("it is taken");
    for task_type in ["map.sender", "map.received"] {
        assert_eq!(heard.recv().await.as_deref(), Some(task_type));
    }
}

/// The second map sees what the first one left, and what it leaves is what counts.
#[tokio::test]
async fn maps_are_applied_in_order_and_their_options_are_checked() {
    let first = builder().map_workers(|mut built| {
        built.options.lock = millis(1);
        built
    });
    let second = first.map_workers(|mut built| {
        assert_eq!(built.options.lock, millis(1));
        built.options.concurrency = 0;
        built.options.lock = WorkerOptions::DEFAULT.lock;
        built
    });
    let refused = second.start().await;
    let error = refused.expect_err("no type can run nothing");
    assert!(
        matches!(&error, StartError::InvalidOption { reason, .. } if reason.contains("concurrency")),
        "{error}"
    );
}
