//! The store's threads, and the way from an async call to them and back.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, oneshot, watch};

use super::busy;
use super::call::{Caller, IfLost, call};
use super::command::{Call, Command, Edge};
use super::error::Outcome;
use super::open::{Opened, open};
use super::queue::{Lane, Queue, Size};
use super::reader::{Query, Reader, query};
use super::sync::SqliteSync;
use super::tx::{Tx, World};
use super::writer::{GROUP_TASKS, Writer};
use crate::error::{Error, Result};
use crate::name::TaskType;
use crate::store::{ClaimRequest, Claimed, MAX_BATCH, Wakeup};

/// Wake-ups that a slow listener may be behind before it is told to look at every type.
const WAKEUP_BUFFER: usize = 1_024;

/// The running threads of one store. Dropping it lets them finish what is in line, and end.
pub(super) struct Engine {
    store: String,
    call_timeout: Duration,
    writes: Arc<Queue<Box<dyn Command>>>,
    reads: Arc<Queue<Query>>,
    pub(super) wakeups: broadcast::Sender<Wakeup>,
    commits: Arc<AtomicU64>,
    /// The writer's thread holds a receiver until it ends, as the last one.
    threads: watch::Sender<()>,
}

impl Engine {
    /// Opens the file on a thread of its own, which then writes.
    pub(super) async fn start(
        path: PathBuf,
        sync: SqliteSync,
        world: World,
        call_timeout: Duration,
    ) -> Result<Self> {
        let engine = Self {
            store: world.store.clone(),
            call_timeout,
            writes: Arc::new(Queue::new(GROUP_TASKS)),
            reads: Arc::new(Queue::new(1)),
            wakeups: broadcast::Sender::new(WAKEUP_BUFFER),
            commits: Arc::default(),
            threads: watch::Sender::new(()),
        };
        let (opened, opening) = oneshot::channel();
        let threads = engine.threads_of(world);
        let alive = engine.threads.subscribe();
        let run = move || {
            let now = Instant::now();
            busy::wait_until(now.checked_add(call_timeout).unwrap_or(now));
            let files = open(&threads.world.store, &path, sync);
            match files.and_then(|files| threads.build(files)) {
                // Whoever has stopped waiting for the store dropped its queues, too.
                Ok(writer) => {
                    let _ = opened.send(Ok(()));
                    writer.run();
                }
                Err(error) => drop(opened.send(Err(error))),
            }
            drop(alive);
        };
        spawn(&engine.store, "delayq-sqlite", run)?;
        opening.await.unwrap_or(Err(Error::Closed("the store")))?;
        Ok(engine)
    }

    /// The store's name in logs and errors.
    pub(super) fn store(&self) -> &str {
        &self.store
    }

    fn threads_of(&self, world: World) -> Threads {
        Threads {
            world,
            writes: Arc::clone(&self.writes),
            reads: Arc::clone(&self.reads),
            wakeups: self.wakeups.clone(),
            commits: Arc::clone(&self.commits),
        }
    }

    /// Runs `edge` in the next transaction; returns once that is committed.
    ///
    /// When the caller drops this future, the edge may still be applied.
    pub(super) async fn write<R: Send + 'static>(
        &self,
        lane: Lane,
        size: Size,
        edge: impl FnMut(&mut Tx<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<R> {
        let unsent = Unsent {
            edge: Box::new(edge),
            look: None,
            if_lost: None,
        };
        self.send(lane, size, unsent).await
    }

    /// A claim. What is claimed for a caller that is gone is given back.
    pub(super) async fn claim(
        &self,
        task_type: TaskType,
        request: ClaimRequest,
    ) -> Result<Claimed> {
        let size = Size::tasks(request.limit.min(MAX_BATCH));
        let (look_type, look_request) = (task_type.clone(), request.clone());
        let (lost_type, writes, time) = (
            task_type.clone(),
            Arc::clone(&self.writes),
            self.call_timeout,
        );
        let edge: Edge<Claimed> = Box::new(move |tx| tx.claim(&task_type, &request));
        let look: Edge<Option<Claimed>> =
            Box::new(move |tx| tx.idle_claim(&look_type, &look_request));
        let call = Unsent {
            edge,
            look: Some(look),
            if_lost: Some(Box::new(move |claimed| {
                give_back(&writes, lost_type, claimed, time);
            })),
        };
        self.send(Lane::Edges, size, call).await
    }

    async fn send<R: Send + 'static>(
        &self,
        lane: Lane,
        size: Size,
        unsent: Unsent<R>,
    ) -> Result<R> {
        let (caller, answer) = call(self.call_timeout);
        let command = Box::new(Call {
            caller,
            edge: unsent.edge,
            look: unsent.look,
            if_lost: unsent.if_lost,
            prepared: None,
        });
        self.put(&self.writes, lane, size, command as Box<dyn Command>)
            .await?;
        answer.wait(self.call_timeout, &self.store).await
    }

    /// Answers from a snapshot that begins after every commit answered so far.
    pub(super) async fn read<R: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Tx<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<R> {
        let (caller, answer) = call(self.call_timeout);
        self.put(&self.reads, Lane::Edges, Size::ONE, query(caller, look))
            .await?;
        let found = answer.wait(self.call_timeout, &self.store).await;
        found.map_err(|error| match error {
            // A query has nothing to apply.
            Error::Indeterminate { store, detail } => Error::Unavailable { store, detail },
            error => error,
        })
    }

    /// Puts a command in line, waiting for room as long as a call may take.
    async fn put<C>(&self, queue: &Queue<C>, lane: Lane, size: Size, command: C) -> Result<()> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::NoRuntime);
        }
        let pushed = tokio::time::timeout(self.call_timeout, queue.push(lane, size, command));
        match pushed.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Error::Closed("the store")),
            Err(_) => Err(Error::Unavailable {
                store: self.store.clone(),
                detail: "its queue has been full for too long: send less at a time".to_owned(),
            }),
        }
    }

    /// Takes no more calls; those in line are still answered.
    pub(super) fn close(&self) {
        self.writes.close();
        self.reads.close();
    }

    /// Returns once the threads have ended and the file is closed.
    pub(super) async fn closed(&self) {
        self.threads.closed().await;
    }

    /// Transactions committed so far.
    #[cfg(test)]
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
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
            .field("store", &self.store)
            .field("commits", &self.commits.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// What there is to do in a call.
struct Unsent<R> {
    edge: Edge<R>,
    look: Option<Edge<Option<R>>>,
    if_lost: Option<IfLost<R>>,
}

/// What the threads need of the engine, without keeping it alive.
struct Threads {
    world: World,
    writes: Arc<Queue<Box<dyn Command>>>,
    reads: Arc<Queue<Query>>,
    wakeups: broadcast::Sender<Wakeup>,
    commits: Arc<AtomicU64>,
}

impl Threads {
    /// Starts the readers, and makes the writer for this thread.
    fn build(self, opened: Opened) -> Result<Writer> {
        let mut readers = Vec::new();
        for connection in opened.readers {
            let reader = Reader {
                connection,
                files: opened.files.clone(),
                world: self.world.clone(),
                queue: Arc::clone(&self.reads),
            };
            let run = move || reader.run();
            readers.push(spawn(&self.world.store, "delayq-sqlite-r", run)?);
        }
        Ok(Writer {
            connection: opened.writer,
            files: opened.files,
            world: self.world,
            queue: self.writes,
            wakeups: self.wakeups,
            commits: self.commits,
            has_mended: Cell::new(false),
            readers,
        })
    }
}

fn spawn(store: &str, name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| Error::Unavailable {
        store: store.to_owned(),
        detail: format!("cannot start its thread: {error}"),
    })
}

/// Releases what was claimed for a caller that is gone: it must not cost the tasks an attempt.
fn give_back(
    writes: &Queue<Box<dyn Command>>,
    task_type: TaskType,
    claimed: Claimed,
    time: Duration,
) {
    if claimed.tasks.is_empty() {
        return;
    }
    let edge: Edge<()> = Box::new(move |tx| {
        let mut bucket = tx.bucket(&task_type)?;
        claimed
            .tasks
            .iter()
            .try_for_each(|task| bucket.give_back(task))
    });
    // A closed queue is that of a store that ends; its locks expire.
    let _ = writes.push_now(Box::new(Call {
        caller: Caller::nobody(time),
        edge,
        look: None,
        prepared: None,
        if_lost: None,
    }));
}
