//! Threads of a store, and the way of an async call to them and back.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use delayq_core::error::{Error, Result};
use delayq_core::name::TaskType;
use delayq_core::store::{ClaimRequest, Claimed, MAX_BATCH, Wakeups};
use tokio::sync::{broadcast, oneshot, watch};

use crate::commit::Shared;
use crate::commit::call::{Command, PendingCall};
use crate::commit::queue::{Lane, Queue, Size};
use crate::commit::reader::Reader;
use crate::commit::writer::{GROUP_TASKS, Writer};
use crate::connection::busy;
use crate::connection::open::{Opened, open};
use crate::connection::signal;
use crate::connection::sync::SqliteSync;
use crate::error::Outcome;
use crate::operations::claim;
use crate::rows::{Context, Tx};

/// Wake-ups that a slow listener may be behind before it is told to claim from every type.
const WAKEUP_BUFFER: usize = 1_024;

/// Shortest time between two looks at what other processes have signalled: what these cost is a few
/// per cent of a busy writer's time, and a task from another process starts at most so much later.
#[cfg(target_os = "linux")]
const SIGNAL_GAP: Duration = Duration::from_millis(2);

/// The running threads of one store. Dropping it lets them finish what is in line, and end.
pub(crate) struct Engine {
    shared: Shared,
    call_timeout: Duration,
    /// The writer's thread holds a receiver until it ends, as the last one.
    threads: watch::Sender<()>,
}

impl Engine {
    /// Opens the file on a thread of its own, which then writes.
    pub(crate) async fn start(
        path: PathBuf,
        sync: SqliteSync,
        context: Context,
        call_timeout: Duration,
    ) -> Result<Self> {
        let shared = Shared {
            context,
            writes: Arc::new(Queue::new(GROUP_TASKS)),
            reads: Arc::new(Queue::new(1)),
            wakeups: broadcast::Sender::new(WAKEUP_BUFFER),
            commits: Arc::default(),
        };
        let engine = Self {
            shared: shared.clone(),
            call_timeout,
            threads: watch::Sender::new(()),
        };
        let (opened, opening) = oneshot::channel();
        let alive = engine.threads.subscribe();
        let run = move || {
            let now = Instant::now();
            busy::wait_until(now.checked_add(call_timeout).unwrap_or(now));
            let files = open(&shared.context.store, &path, sync);
            match files.and_then(|files| build(shared, files)) {
                // A caller that no longer waits for the store has dropped its queues, too.
                Ok(writer) => {
                    let _ = opened.send(Ok(()));
                    writer.run();
                }
                Err(error) => drop(opened.send(Err(error))),
            }
            drop(alive);
        };
        spawn(engine.store(), "delayq-sqlite", run)?;
        opening.await.unwrap_or(Err(Error::Closed("the store")))?;
        Ok(engine)
    }

    /// The store's name in logs and errors.
    pub(crate) fn store(&self) -> &str {
        &self.shared.context.store
    }

    /// The stream of wake-ups from now on.
    pub(crate) fn wakeups(&self) -> Wakeups {
        Wakeups::new(self.shared.wakeups.subscribe())
    }

    /// Runs `operation` in the next transaction; returns once that is committed.
    ///
    /// When the caller drops this future, the operation may still be applied.
    pub(crate) async fn write<R: Send + 'static>(
        &self,
        lane: Lane,
        size: Size,
        operation: impl FnMut(&mut Tx<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<R> {
        let time = self.call_timeout;
        let (command, answer) = Command::new(lane, size, time, operation, None);
        self.send(&self.shared.writes, command, answer).await
    }

    /// Claims. Tasks claimed for a caller that is gone are put back.
    pub(crate) async fn claim(
        &self,
        task_type: TaskType,
        request: ClaimRequest,
    ) -> Result<Claimed> {
        let size = Size::tasks(request.limit.min(MAX_BATCH));
        let (writes, time) = (Arc::clone(&self.shared.writes), self.call_timeout);
        let lost_type = task_type.clone();
        let if_lost = move |claimed| give_back(&writes, lost_type, claimed, time);
        let claim = move |tx: &mut Tx<'_>| claim::claim(tx, &task_type, &request);
        let (mut command, answer) =
            Command::new(Lane::Operations, size, time, claim, Some(Box::new(if_lost)));
        command.can_peek = true;
        self.send(&self.shared.writes, command, answer).await
    }

    /// Answers from a snapshot that begins after every commit answered so far.
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        query: impl FnMut(&mut Tx<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<R> {
        let (lane, time) = (Lane::Operations, self.call_timeout);
        let (command, answer) = Command::new(lane, Size::ONE, time, query, None);
        let found = self.send(&self.shared.reads, command, answer).await;
        found.map_err(|error| match error {
            // A query has nothing to apply.
            Error::Indeterminate { store, detail } => Error::unavailable(store, detail),
            error => error,
        })
    }

    /// Puts a command in line, waiting for room as long as a call may take, and waits for its
    /// answer.
    async fn send<R>(
        &self,
        queue: &Queue<Command>,
        command: Command,
        answer: PendingCall<R>,
    ) -> Result<R> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::NoRuntime);
        }
        let pushed = queue.push(command.lane, command.size, command);
        match tokio::time::timeout(self.call_timeout, pushed).await {
            Ok(Ok(())) => answer.wait(self.call_timeout, self.store()).await,
            Ok(Err(_)) => Err(Error::Closed("the store")),
            Err(_) => Err(Error::unavailable(
                self.store(),
                "its queue has been full for too long: send less at a time",
            )),
        }
    }

    /// Takes no more calls; those in line are still answered.
    pub(crate) fn close(&self) {
        self.shared.writes.close();
        self.shared.reads.close();
    }

    /// Returns once the threads have ended and the file is closed.
    pub(crate) async fn closed(&self) {
        self.threads.closed().await;
    }

    /// Transactions committed so far.
    #[cfg(test)]
    pub(crate) fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", &self.store())
            .field("commits", &self.shared.commits.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// Starts the readers, and makes the writer for this thread.
fn build(shared: Shared, opened: Opened) -> Result<Writer> {
    let mut readers = Vec::new();
    for connection in opened.readers {
        let reader = Reader {
            connection,
            files: opened.files.clone(),
            shared: shared.clone(),
        };
        let run = move || reader.run();
        readers.push(spawn(&shared.context.store, "delayq-sqlite-r", run)?);
    }
    #[cfg(target_os = "linux")]
    if let Some(signals) = signal::Receiver::new(opened.files.path()) {
        let writes = Arc::clone(&shared.writes);
        let run = move || hear(&signals, &writes);
        spawn(&shared.context.store, "delayq-sqlite-w", run)?;
    }
    Ok(Writer {
        connection: opened.writer,
        bytes: Cell::new(opened.files.check()?),
        files: opened.files,
        reserve: opened.reserve,
        shared,
        has_mended: Cell::new(false),
        readers,
    })
}

/// Lets the writer look around whenever a process signals, until its queue is closed.
#[cfg(target_os = "linux")]
fn hear(signals: &signal::Receiver, writes: &Queue<Command>) {
    while signals.wait().is_some() && writes.signal().is_ok() {
        // Those that come meanwhile are one.
        thread::park_timeout(SIGNAL_GAP);
    }
}

fn spawn(store: &str, name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| Error::unavailable(store, format!("cannot start its thread: {error}")))
}

/// Puts back what was claimed for a caller that is gone: it must not cost the tasks an attempt.
fn give_back(writes: &Queue<Command>, task_type: TaskType, claimed: Claimed, time: Duration) {
    if claimed.tasks.is_empty() {
        return;
    }
    let give_back = move |tx: &mut Tx<'_>| {
        let mut tasks = tx.known(&task_type)?;
        let mut claimed = claimed.tasks.iter();
        claimed.try_for_each(|task| claim::give_back(&mut tasks, task))
    };
    // A closed queue is that of a store that ends; its locks expire.
    let _ = writes.push_now(Command::of_nobody(time, give_back));
}
