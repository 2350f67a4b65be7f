//! Tests of a whole plugin on a memory store, in virtual time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::store::StoreOptions;
use delayq_core::{TaskContext, TaskResult, TaskWorker, VirtualClock, WorkerOptions};
use tokio::sync::{Semaphore, mpsc};

use crate::{DelayQueuePlugin, DelayQueuePluginBuilder, Store};

mod app_runtime;
mod bulk;
mod clocks;
mod dropped;
mod earlier_attempt;
mod reports;
mod serving;
mod start;
mod suspects;

/// Reports its starts, by attempt, and waits for the test to let it go, whatever asks it to stop.
struct Stubborn {
    starts: mpsc::UnboundedSender<u32>,
    gate: Arc<Semaphore>,
}

#[async_trait]
impl TaskWorker for Stubborn {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        let _ = self.starts.send(cx.attempt());
        self.gate.acquire().await?.forget();
        Ok(())
    }
}

fn memory(clock: &VirtualClock) -> Arc<dyn Store> {
    let clock = Arc::new(clock.clone());
    Arc::new(MemoryStore::new(clock, StoreOptions::default()))
}

fn builder(store: &Arc<dyn Store>, clock: &VirtualClock) -> DelayQueuePluginBuilder {
    DelayQueuePlugin::builder()
        .without_registered_workers()
        .store(Arc::clone(store))
        .clock(Arc::new(clock.clone()))
}

/// A plugin with one stubborn worker of type `job`, on the test's own runtime.
struct Scene {
    plugin: DelayQueuePlugin,
    starts: mpsc::UnboundedReceiver<u32>,
    gate: Arc<Semaphore>,
}

impl Scene {
    async fn start(store: &Arc<dyn Store>, clock: &VirtualClock) -> Self {
        let (sender, starts) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        let worker = Stubborn {
            starts: sender,
            gate: Arc::clone(&gate),
        };
        let builder = builder(store, clock).on_application_runtime();
        let plugin = builder.worker("job", WorkerOptions::DEFAULT, worker);
        Self {
            plugin: plugin.start().await.unwrap(),
            starts,
            gate,
        }
    }

    /// Lets a second pass, and waits until the handler has polled since.
    async fn poll(&self, clock: &VirtualClock) {
        clock.advance(Duration::from_secs(1));
        until(async || {
            let handler = self.plugin.health().await.handlers.remove(0);
            handler.since_last_claim == Some(Duration::ZERO)
        })
        .await;
    }
}

/// Waits until `holds` says so.
async fn until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    let all = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, all)
        .await
        .expect("it holds in time");
}
