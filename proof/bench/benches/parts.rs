//! A handler on one thread, with what it allocates: `cargo bench -p delayq-bench`, in `proof/`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::store::StoreOptions;
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, Durability, SystemClock, TaskContext, TaskResult,
    TaskSubmitService, TaskWorker, WorkerOptions, seconds,
};
use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

/// A type as an application would name it.
const TASK_TYPE: &str = "order.cancel";
/// Due tasks that the handler finds at once.
const BACKLOG: usize = 1_000;

fn main() {
    divan::main();
}

/// Claim, run and settle, all on one thread, so that every allocation of it is counted.
#[divan::bench(sample_size = 1)]
fn run_a_backlog_in_memory(bencher: Bencher) {
    let (runtime, worker) = (runtime(), Counter::default());
    let plugin = runtime.block_on(start(worker.clone()));
    let tasks = plugin.submit_service();
    bencher
        .counter(ItemsCount::new(BACKLOG))
        .with_inputs(|| runtime.block_on(send(&tasks)))
        .bench_local_values(|()| {
            runtime.block_on(async {
                tasks.resume(TASK_TYPE).await.expect("memory answers");
                worker.whole.notified().await;
                all_settled(&tasks).await;
            });
        });
    runtime.block_on(plugin.shutdown(seconds(5)));
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("the system has a thread and a timer")
}

async fn start(worker: Counter) -> DelayQueuePlugin {
    let options = StoreOptions {
        durability: Durability::Memory,
        ..StoreOptions::default()
    };
    let store = MemoryStore::new(Arc::new(SystemClock), options);
    let plugin = DelayQueuePlugin::builder()
        .store(Arc::new(store))
        .without_registered_workers()
        .worker(TASK_TYPE, WorkerOptions::default(), worker)
        .on_application_runtime()
        .start();
    plugin.await.expect("a memory store needs nothing")
}

async fn send(tasks: &TaskSubmitService) {
    tasks.pause(TASK_TYPE, None).await.expect("memory answers");
    let job = || DelayQueueJob::raw(TASK_TYPE, vec![b'm'; 200]);
    let jobs = std::iter::repeat_with(job).take(BACKLOG).collect();
    for sent in tasks.send_all(jobs).await {
        sent.expect("memory takes all");
    }
}

async fn all_settled(tasks: &TaskSubmitService) {
    loop {
        let stats = tasks.stats(TASK_TYPE).await.expect("memory answers");
        if stats.scheduled + stats.running == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Counts tasks, and tells after each backlog.
#[derive(Clone, Debug, Default)]
struct Counter {
    seen: Arc<AtomicUsize>,
    whole: Arc<Notify>,
}

#[async_trait]
impl TaskWorker for Counter {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if seen.is_multiple_of(BACKLOG) {
            self.whole.notify_one();
        }
        Ok(())
    }
}
