//! Connections to the server, and every call over them. A dedicated thread drives them, so that
//! calls work from any runtime and may be dropped at any point.

mod line;
mod session;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt;
use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use delayq_core::{Error, Result};
use futures_util::future::{BoxFuture, Either, join_all, select};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;

pub(crate) use self::line::{Driver, Line};
use self::session::{Doubt, Unreplicated};
pub(crate) use self::session::{Session, Values};
use crate::config::PostgresConfig;
use crate::error::{Fault, Outcome, lost};

/// How often a statement is repeated that the server took back because of another one.
const TRIES: usize = 8;

/// How long a connection may be idle before its server is asked for a sign of life.
const IDLE: Duration = Duration::from_secs(5);

/// How long the sign of life may take.
const PROBE: Duration = Duration::from_secs(1);

/// The time between two attempts to connect to a server that is starting.
const STARTING: Duration = Duration::from_millis(100);

/// How long a call whose time is over keeps its slot, so that its statement can end.
const ABANDONED: Duration = Duration::from_secs(2);

/// The largest number of calls at the same time.
const CALLS: u32 = 1 << 24;

/// A call in progress, which [`close`](Connections::close) waits for.
#[derive(Debug)]
pub(crate) struct Busy {
    _permit: OwnedSemaphorePermit,
}

/// The connections of a store. They end with the last clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Inner>);

struct Inner {
    runtime: Handle,
    line: Line,
    /// The way past a pooler; `None` if the store knows only the pooler.
    direct: Option<Line>,
    place: String,
    timeout: Duration,
    slots: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    is_closed: watch::Sender<bool>,
    /// Dropping this ends the thread.
    _alive: oneshot::Sender<()>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.0.place).finish()
    }
}

/// The connections, for work that ends with them.
#[derive(Clone)]
pub(crate) struct WeakConnections(Weak<Inner>);

impl WeakConnections {
    /// The connections, unless the store is gone or closed.
    pub(crate) fn upgrade(&self) -> Option<Connections> {
        self.last().filter(|open| open.check_open().is_ok())
    }

    /// The connections, unless the store is gone: for what a close still waits for.
    pub(crate) fn last(&self) -> Option<Connections> {
        self.0.upgrade().map(Connections)
    }
}

impl Connections {
    /// Starts the thread. The first call connects.
    pub(crate) fn start(config: &PostgresConfig, timeout: Duration) -> Result<Self> {
        let place = config.place();
        let line = Line::new(&config.server, &config.tls, &place, timeout)?;
        let direct = match &config.listen {
            Some(direct) => {
                let tls = direct.tls.as_ref().unwrap_or(&config.tls);
                Some(Line::new(&direct.server, tls, &place, timeout)?)
            }
            None => (!config.is_deaf).then(|| line.clone()),
        };
        let (runtime, alive) = start_thread(&place)?;
        Ok(Self(Arc::new(Inner {
            runtime,
            line,
            direct,
            place,
            timeout,
            slots: Arc::new(Semaphore::new(config.connections)),
            calls: Arc::new(Semaphore::new(CALLS as usize)),
            idle: Mutex::default(),
            is_closed: watch::Sender::new(false),
            _alive: alive,
        })))
    }

    /// The server, without secrets.
    pub(crate) fn place(&self) -> &str {
        &self.0.place
    }

    /// The time limit of a call.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// The way past a pooler, if there is one.
    pub(crate) fn direct(&self) -> Option<&Line> {
        self.0.direct.as_ref()
    }

    /// The thread of the connections.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    /// Becomes true at the end of the store.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.0.is_closed.subscribe()
    }

    /// Refuses further calls. Returns once those in progress have ended, or after the time of one.
    pub(crate) async fn close(&self) {
        self.close_after(ready(())).await;
    }

    /// The same, once `last` has ended, too.
    pub(crate) async fn close_after(&self, last: impl Future<Output = ()> + Send + 'static) {
        self.0.is_closed.send_replace(true);
        let own = self.clone();
        let closing = self.spawn(async move {
            let calls = own.0.calls.acquire_many(CALLS);
            if timeout(own.0.timeout, calls).await.is_err() {
                debug!("the store is closed before the end of a call");
            }
            let _ = timeout(PROBE, last).await;
            let idle = std::mem::take(&mut *own.idle());
            let ends = join_all(idle.into_iter().map(Session::end));
            let _ = timeout(PROBE, ends).await;
        });
        let _ = closing.await;
    }

    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub(crate) fn check_open(&self) -> Result<()> {
        if *self.0.is_closed.borrow() {
            return Err(Error::Closed("the store"));
        }
        Ok(())
    }

    /// Notes a call in progress.
    ///
    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub(crate) fn busy(&self) -> Result<Busy> {
        self.check_open()?;
        let permit = Arc::clone(&self.0.calls).try_acquire_owned();
        let permit = permit.map_err(|_| Error::Closed("the store"))?;
        Ok(Busy { _permit: permit })
    }

    /// Spawns a task on the thread of the connections; it ends with them.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.0.runtime.spawn(task)
    }

    /// Runs `work` on a connection, within the time limit of a call, to its end even if the caller
    /// goes away. Work that the server took back because of another transaction is repeated.
    pub(crate) async fn call<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: for<'a> Fn(&'a mut Session) -> BoxFuture<'a, Outcome<T>> + Send + Sync + 'static,
    {
        self.call_then(work, |_| ()).await
    }

    /// The same, and then `then`, also if the caller has gone away.
    pub(crate) async fn call_then<T, W>(
        &self,
        work: W,
        then: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        W: for<'a> Fn(&'a mut Session) -> BoxFuture<'a, Outcome<T>> + Send + Sync + 'static,
    {
        let busy = self.busy()?;
        let (own, doubt) = (self.clone(), Doubt::default());
        let of_call = doubt.clone();
        let call = self.0.runtime.spawn(async move {
            let done = own.attempt(&work, &of_call).await;
            if let Ok(done) = &done {
                then(done);
            }
            drop(busy);
            done
        });
        let done = call.await;
        done.unwrap_or_else(|error| Err(broken(self.place(), &error, &doubt)))
    }

    /// The same for work that runs on the thread of the connections already.
    pub(crate) async fn attempt_here<T, W>(&self, work: W) -> Result<T>
    where
        W: for<'a> Fn(&'a mut Session) -> BoxFuture<'a, Outcome<T>>,
    {
        self.attempt(&work, &Doubt::default()).await
    }

    /// Runs `work` on a connection of its own, past a pooler if a way is known, without a limit of
    /// time. The server's limit is lifted unless a pooler would give the setting to others. The
    /// work, which does not keep the store, ends with it.
    pub(crate) fn alone<T, W>(&self, work: W) -> impl Future<Output = Result<T>> + use<T, W>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Outcome<T>> + Send + 'static,
    {
        let (is_direct, doubt) = (self.0.direct.is_some(), Doubt::default());
        let line = self.0.direct.as_ref().unwrap_or(&self.0.line).clone();
        let (runtime, of_call) = (self.0.runtime.clone(), doubt.clone());
        let mut closing = self.closing();
        let call = self.0.runtime.spawn(async move {
            let working = async {
                let mut session = dial(&line, &runtime).await?;
                session.lend(&of_call);
                if is_direct {
                    session.run("SET statement_timeout = 0").await?;
                }
                let done = work(&mut session).await;
                let _ = timeout(PROBE, session.end()).await;
                done
            };
            let closed = closing.wait_for(|is_closed| *is_closed);
            match select(pin!(working), pin!(closed)).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => Err(Error::Closed("the store").into()),
            }
        });
        let place = self.0.place.clone();
        async move {
            match call.await {
                Ok(done) => done.map_err(|fault| fault.error(&place, doubt.is_there())),
                Err(error) => Err(broken(&place, &error, &doubt)),
            }
        }
    }

    pub(crate) fn downgrade(&self) -> WeakConnections {
        WeakConnections(Arc::downgrade(&self.0))
    }

    async fn attempt<T, W>(&self, work: &W, doubt: &Doubt) -> Result<T>
    where
        W: for<'a> Fn(&'a mut Session) -> BoxFuture<'a, Outcome<T>>,
    {
        let deadline = Instant::now() + self.0.timeout;
        let place = self.place();
        let too_slow = |what: &str| {
            let text = format!("{what} within {:?}", self.0.timeout);
            lost(place, &text, false)
        };
        let slot = timeout_at(deadline, Arc::clone(&self.0.slots).acquire_owned()).await;
        let slot =
            slot.map_err(|_| too_slow("all its connections were in use, and none became free"))?;
        let slot = slot.map_err(|_| Error::Closed("the store"))?;
        for turn in 1.. {
            let session = timeout_at(deadline, self.session(deadline)).await;
            let mut session = session.map_err(|_| too_slow("there was no connection"))??;
            session.lend(doubt);
            let Ok(done) = timeout_at(deadline, work(&mut session)).await else {
                let text = format!("no answer within {:?}", self.0.timeout);
                let error = lost(place, &text, doubt.is_there());
                self.abandon(session, slot);
                return Err(error);
            };
            let fault = match done {
                Ok(done) => {
                    self.keep(session);
                    return Ok(done);
                }
                Err(fault) => fault,
            };
            if fault.is_read_only() {
                self.forget_idle();
            }
            if !fault.ends_connection() && self.is_clean(&mut session, deadline).await {
                self.keep(session);
            }
            if !fault.is_conflict() || turn >= TRIES {
                return Err(fault.error(place, doubt.is_there()));
            }
            let pause = Duration::from_millis(fastrand::u64(1..=10 * turn as u64));
            tokio::time::sleep(pause).await;
        }
        Err(Error::Closed("the store"))
    }

    /// Takes back what an error has left open.
    async fn is_clean(&self, session: &mut Session, deadline: Instant) -> bool {
        let rollback = session.run("ROLLBACK");
        matches!(timeout_at(deadline, rollback).await, Ok(Ok(())))
    }

    /// An idle connection, or a new one. A server that is starting is waited for.
    async fn session(&self, deadline: Instant) -> Result<Session> {
        loop {
            let found = self.idle().pop();
            let Some(mut session) = found else {
                break;
            };
            if session.is_closed() {
                continue;
            }
            if session.idle_for() < IDLE {
                return Ok(session);
            }
            // A connection that died in silence is noticed before a write is in doubt.
            match timeout(PROBE, session.run("")).await {
                Ok(Ok(())) => return Ok(session),
                Ok(Err(_)) => {}
                // The others have died with it.
                Err(_) => self.forget_idle(),
            }
        }
        loop {
            let dialled = dial(&self.0.line, &self.0.runtime).await;
            let is_starting = dialled.as_ref().is_err_and(Fault::is_starting);
            if !is_starting || Instant::now() + STARTING >= deadline {
                return dialled.map_err(|fault| self.unconnected(&fault));
            }
            tokio::time::sleep(STARTING).await;
        }
    }

    fn unconnected(&self, fault: &Fault) -> Error {
        match fault.error(self.place(), false) {
            Error::Unavailable { store, detail } => {
                Error::unavailable(store, format!("cannot connect: {detail}"))
            }
            error => error,
        }
    }

    fn keep(&self, mut session: Session) {
        session.rest();
        if self.check_open().is_ok() {
            self.idle().push(session);
        }
    }

    /// Ends the idle connections: they lead to a server that is gone, or no longer the primary.
    pub(crate) fn forget_idle(&self) {
        self.idle().clear();
    }

    /// Asks the server to stop the statement of a call whose time is over. The slot is free once
    /// the connection has ended, so that the server has no more of them than it may.
    fn abandon(&self, session: Session, slot: OwnedSemaphorePermit) {
        let (token, tls) = (session.cancel_token(), self.0.line.tls());
        self.spawn(async move {
            let end = async {
                let cancelled = token.cancel_query(tls).await;
                debug!(?cancelled, "a statement without an answer is cancelled");
                session.end().await;
            };
            let _ = timeout(ABANDONED, end).await;
            drop(slot);
        });
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names the type of a closure, which Rust does not find by itself.
pub(crate) fn session_work<T, W>(work: W) -> W
where
    W: for<'a> Fn(&'a mut Session) -> BoxFuture<'a, Outcome<T>>,
{
    work
}

/// The error of a call whose task is gone.
fn broken(place: &str, error: &JoinError, doubt: &Doubt) -> Error {
    if error.is_panic() || doubt.is_there() {
        return lost(place, "the call has broken off", true);
    }
    Error::Closed("the store")
}

/// A new connection.
async fn dial(line: &Line, runtime: &Handle) -> Outcome<Session> {
    let unreplicated = Unreplicated::default();
    let heard = unreplicated.clone();
    let opened = line.open(runtime, move |message| heard.hear(&message));
    let (client, driver) = opened.await?;
    Ok(Session::new(client, driver, unreplicated))
}

fn start_thread(place: &str) -> Result<(Handle, oneshot::Sender<()>)> {
    let failed = |error: std::io::Error| {
        let detail = format!("cannot start a thread for its connections: {error}");
        Error::unavailable(place, detail)
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let handle = runtime.handle().clone();
    let (alive, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("delayq-postgres".to_owned());
    let drive = move || {
        // Returns when the sender ends, in whatever way.
        let _ = runtime.block_on(ended);
    };
    thread.spawn(drive).map_err(failed)?;
    Ok((handle, alive))
}
