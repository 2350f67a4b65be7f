//! Threads of a store, and the path of an async call to them and back.

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

/// Number of wake-ups that a slow listener may be behind before it is told to claim from every
/// type.
const WAKEUP_BUFFER: usize = 1_024;

/// Minimum time between two looks at the signals of other processes. The looks cost a few per cent
/// of a busy writer's time, and a task from another process starts at most this much later.
#[cfg(target_os = "linux")]
const SIGNAL_GAP: Duration = Duration::from_millis(2);

/// The running threads of one store. When it is dropped, they finish the queued calls and end.
pub(crate) struct Engine {
    shared: Shared,
    call_timeout: Duration,
    /// The writer's thread holds a receiver until it ends; it is the last thread to end.
    threads: watch::Sender<()>,
}

impl Engine {
    /// Opens the file on a new thread, which then writes.
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
                // A caller that no longer waits for the store has also dropped its queues.
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

    /// Runs `operation` in the next transaction. Returns once that is committed.
    ///
    /// If the caller drops this future, the operation may still be applied.
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

    /// Claims. Tasks claimed for a caller that has gone are put back.
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
            // A query changes nothing, so it is never in doubt.
            Error::Indeterminate { store, detail } => Error::unavailable(store, detail),
            error => error,
        })
    }

    /// Queues a command, waiting for room for as long as a call may take, and waits for its answer.
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

    /// Takes no more calls; queued ones are still answered.
    pub(crate) fn close(&self) {
        self.shared.writes.close();
        self.shared.reads.close();
    }

    /// Returns once the threads have ended and the file is closed.
    pub(crate) async fn closed(&self) {
        self.threads.closed().await;
    }

    /// Number of transactions committed so far.
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

/// Starts the readers, and creates the writer for this thread.
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

/// Lets the writer check for changes whenever a process signals, until its queue is closed.
#[cfg(target_os = "linux")]
fn hear(signals: &signal::Receiver, writes: &Queue<Command>) {
    while signals.wait().is_some() && writes.signal().is_ok() {
        // Signals that arrive meanwhile count as one.
        thread::park_timeout(SIGNAL_GAP);
    }
}

fn spawn(store: &str, name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| Error::unavailable(store, format!("cannot start its thread: {error}")))
}

/// Puts back tasks claimed for a caller that has gone: they must not lose an attempt.
fn give_back(writes: &Queue<Command>, task_type: TaskType, claimed: Claimed, time: Duration) {
    if claimed.tasks.is_empty() {
        return;
    }
    let give_back = move |tx: &mut Tx<'_>| {
        let mut tasks = tx.known(&task_type)?;
        let mut claimed = claimed.tasks.iter();
        claimed.try_for_each(|task| claim::give_back(&mut tasks, task))
    };
    // A closed queue means that the store is ending; the locks expire.
    let _ = writes.push_now(Command::of_nobody(time, give_back));
}
