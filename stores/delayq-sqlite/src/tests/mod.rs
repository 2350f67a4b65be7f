//! What the contract suite cannot see: shared transactions, damaged files, other processes, the
//! schema.

mod chronicle;
mod crash;
mod damage;
#[cfg(target_os = "linux")]
mod disks;
mod failures;
mod group;
mod instances;
mod retain;
mod sizes;
mod transaction;
mod versions;
mod wakeups;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::error::{Error, Result};
use delayq_core::fleet::FleetLimits;
use delayq_core::job::{DelayQueueJob, Limits, NewTask};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::operate::Operate;
use delayq_core::store::{
    AttemptEnd, Bucket, ClaimRequest, Claimed, Settlement, Store, StoreOptions, SubmitOutcome,
};
use delayq_core::task::TaskInfo;
use delayq_core::time::{Clock, SystemClock, Timestamp};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::commit::queue::{Lane, Size};
use crate::rows::Tx;
use crate::{SqliteStore, SqliteSync};

/// A folder with one file in it, and stores on that file.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("tasks.sqlite")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("tasks.sqlite{suffix}"))
    }

    async fn try_open(&self, options: StoreOptions) -> Result<Arc<SqliteStore>> {
        let sync = SqliteSync::Full;
        SqliteStore::open_with(self.path(), Arc::new(SystemClock), options, sync).await
    }

    async fn open(&self) -> Arc<SqliteStore> {
        self.try_open(StoreOptions::default()).await.unwrap()
    }

    /// A store whose calls may take so long.
    async fn open_hurried(&self, call_timeout: Duration) -> Arc<SqliteStore> {
        let options = StoreOptions {
            call_timeout,
            ..StoreOptions::default()
        };
        self.try_open(options).await.unwrap()
    }

    /// Why the file cannot be opened.
    async fn refusal(&self) -> Error {
        let options = StoreOptions {
            call_timeout: Duration::from_millis(200),
            ..StoreOptions::default()
        };
        self.try_open(options).await.unwrap_err()
    }

    /// Somebody else's connection.
    fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// Somebody else, who is writing.
    fn lock(&self) -> Connection {
        let connection = self.connect();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection
    }
}

fn release(lock: &Connection) {
    lock.execute_batch("ROLLBACK").unwrap();
}

fn usual_type() -> TaskType {
    TaskType::new("order.cancel").unwrap()
}

fn bucket() -> Bucket {
    Bucket::whole(usual_type())
}

fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

/// A task that is due now.
fn task(id: &str) -> NewTask {
    large_task(id, 5)
}

fn large_task(id: &str, bytes: usize) -> NewTask {
    let limits = Limits {
        max_message_bytes: usize::MAX,
        ..Limits::default()
    };
    let job = DelayQueueJob::raw("order.cancel", vec![b'm'; bytes]).id(id);
    job.into_task(&limits, Timestamp::ZERO).unwrap()
}

async fn submit(store: &Arc<SqliteStore>, task: NewTask) -> Result<SubmitOutcome> {
    store.submit(vec![task]).await.remove(0)
}

async fn accept(store: &Arc<SqliteStore>, id: &str) {
    let outcome = submit(store, task(id)).await;
    assert!(
        matches!(outcome, Ok(SubmitOutcome::Accepted { .. })),
        "{outcome:?}"
    );
}

async fn find(store: &Arc<SqliteStore>, task: &str) -> Option<TaskInfo> {
    store.find(&usual_type(), &id(task)).await.unwrap()
}

fn request() -> ClaimRequest {
    ClaimRequest::new(10, Duration::from_mins(1), SystemClock.now())
}

async fn claim(store: &Arc<SqliteStore>) -> Result<Claimed> {
    store.claim(&bucket(), &request()).await
}

fn ids(claimed: &Claimed) -> Vec<&str> {
    let tasks = claimed.tasks.iter();
    tasks.map(|task| task.lock.id.as_str()).collect()
}

fn done(claimed: &Claimed) -> Vec<Settlement> {
    let locks = claimed.tasks.iter().map(|task| task.lock.clone());
    let settle = |lock| Settlement::new(lock, AttemptEnd::Done);
    locks.map(settle).collect()
}

/// Lets every task that was spawned on this runtime run up to its first wait.
async fn let_all_begin() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

async fn is_sound(store: &Arc<SqliteStore>) {
    let report = store.audit(&usual_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
}
