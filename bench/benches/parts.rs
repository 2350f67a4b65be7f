//! The small parts, each alone, with what it allocates: `cargo bench -p delayq-bench`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delayq_bench::{decode, encode};
use delayq_core::{job, name, task};
use delayq_plugin::store::{MemoryStore, StoreOptions};
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, Durability, SystemClock, TaskContext, TaskResult,
    TaskSubmitService, TaskWorker, WorkerOptions, seconds,
};
use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher, black_box};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

/// Bytes of the messages: hardly any, as many as in `cargo xtask bench`, a page.
const MESSAGES: [usize; 3] = [10, 200, 4_096];
/// A type as an application would name it.
const TASK_TYPE: &str = "order.cancel";
/// Due tasks that the handler finds at once.
const BACKLOG: usize = 1_000;

fn main() {
    divan::main();
}

/// A task with a message of so many bytes that is due in an hour.
fn task_of(bytes: usize) -> job::NewTask {
    job::NewTask {
        task_type: name::TaskType::new(TASK_TYPE).expect("it is a valid type"),
        id: name::TaskId::generate(),
        when: job::When::After(Duration::from_hours(1)),
        expiry: None,
        on_conflict: job::OnConflict::Reject,
        message: vec![b'm'; bytes],
        headers: task::Headers::new(),
    }
}

#[divan::bench(args = MESSAGES)]
fn encode_a_record(bencher: Bencher, bytes: usize) {
    let task = task_of(bytes);
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| encode(black_box(&task)));
}

#[divan::bench(args = MESSAGES)]
fn decode_a_record(bencher: Bencher, bytes: usize) {
    let beginning = b"1{\"s\":1767225600000,".as_slice();
    let stored = [beginning, &encode(&task_of(bytes))].concat();
    bencher
        .counter(BytesCount::new(bytes))
        .with_inputs(|| stored.clone())
        .bench_local_values(|stored| decode(stored).expect("it was just encoded"));
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
