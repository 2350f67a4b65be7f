//! A process of its own with workers, told what to do by its parent. It ends with the pipe to it.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_plugin::{
    Clock, DelayQueuePlugin, SystemClock, TaskContext, TaskResult, TaskWorker, WorkerOptions,
    open_store, seconds,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, stdin};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Failure;
use crate::curve::counted::{Claims, CountedStore};
use crate::load::TASK_TYPE;
use crate::stage::end;

/// How long a process may take to start, or to answer.
const PATIENCE: Duration = seconds(30);

/// What a process is to serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) url: String,
    pub(crate) task_types: usize,
    /// Scheduler threads that the types share; `None`: one for each.
    pub(crate) threads: Option<usize>,
}

/// What a process has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) ran: u64,
    /// When the last task ran, in ms since the epoch.
    pub(crate) last_ms: i64,
    pub(crate) claims: u64,
    pub(crate) empty_claims: u64,
}

impl Account {
    /// What was done after `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            ran: self.ran - earlier.ran,
            last_ms: self.last_ms,
            claims: self.claims - earlier.claims,
            empty_claims: self.empty_claims - earlier.empty_claims,
        }
    }
}

/// The name of a type.
pub(crate) fn task_type(number: usize) -> String {
    format!("{TASK_TYPE}.{number}")
}

#[derive(Clone, Debug, Default)]
struct Tally {
    ran: Arc<AtomicU64>,
    last_ms: Arc<AtomicI64>,
}

#[async_trait]
impl TaskWorker for Tally {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        let now = SystemClock.now().as_millis();
        self.last_ms.fetch_max(now, Ordering::Relaxed);
        self.ran.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The process: serves until its input ends, and answers every line of it with its account.
pub(crate) async fn serve(orders: &str) -> Result<(), Failure> {
    let orders: Orders = serde_json::from_str(orders)?;
    let (tally, claims) = (Tally::default(), Arc::new(Claims::default()));
    let store = open_store(&orders.url, StoreOptions::default()).await?;
    let store = CountedStore::new(store, Arc::clone(&claims));
    let mut plugin = DelayQueuePlugin::builder()
        .store(Arc::new(store))
        .without_registered_workers();
    for number in 0..orders.task_types {
        plugin = plugin.worker(task_type(number), WorkerOptions::default(), tally.clone());
    }
    if let Some(threads) = orders.threads {
        plugin = plugin.threads(threads);
    }
    let plugin = plugin.start().await?;
    let mut asked = BufReader::new(stdin()).lines();
    while asked.next_line().await?.is_some() {
        let (all, empty) = claims.counts();
        let account = Account {
            ran: tally.ran.load(Ordering::Relaxed),
            last_ms: tally.last_ms.load(Ordering::Relaxed),
            claims: all,
            empty_claims: empty,
        };
        println!("{}", serde_json::to_string(&account)?);
    }
    end(plugin).await;
    Ok(())
}

/// Such a process, as its parent sees it. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) pid: u32,
    child: Child,
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Instance {
    /// Starts a process, and returns once it serves.
    pub(crate) async fn start(orders: &Orders) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("--curve-instance")
            .arg(serde_json::to_string(orders)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let asks = child.stdin.take().ok_or("the input is piped")?;
        let output = child.stdout.take().ok_or("the output is piped")?;
        let mut instance = Self {
            pid: child.id().ok_or("it has just been started")?,
            child,
            asks,
            answers: BufReader::new(output).lines(),
        };
        instance.account().await?;
        Ok(instance)
    }

    pub(crate) async fn account(&mut self) -> Result<Account, Failure> {
        self.asks.write_all(b"\n").await?;
        let line = timeout(PATIENCE, self.answers.next_line()).await??;
        let line = line.ok_or("a process with workers has ended")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Ends it in good order.
    pub(crate) async fn end(mut self) -> Result<(), Failure> {
        drop(self.asks);
        let status = timeout(PATIENCE, self.child.wait()).await??;
        if status.success() {
            return Ok(());
        }
        Err(format!("a process with workers failed: {status}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_counts_from_an_earlier_one() {
        let account = |ran, last_ms, claims, empty_claims| Account {
            ran,
            last_ms,
            claims,
            empty_claims,
        };
        let since = account(10, 7_000, 5, 2).since(account(4, 3_000, 3, 1));
        assert_eq!(since, account(6, 7_000, 2, 1));
    }

    #[test]
    fn orders_survive_the_way_through_the_command_line() {
        let orders = Orders {
            url: "redis://127.0.0.1:1".to_owned(),
            task_types: 3,
            threads: Some(2),
        };
        let text = serde_json::to_string(&orders).unwrap();
        assert_eq!(serde_json::from_str::<Orders>(&text).unwrap(), orders);
    }
}
