//! Connections to the server, and every call over them. A dedicated thread drives them, so that
//! calls work from any runtime and may be dropped at any point.

mod tls;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use delayq_core::{Error, Result};
use futures_util::future::BoxFuture;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;

use crate::config::PostgresConfig;
use crate::error::{Fault, Outcome, leaves_doubt, lost};

/// How often a statement is repeated that the server took back because of another one.
const TRIES: usize = 8;

/// How long a connection may be idle before its server is asked for a sign of life.
const IDLE: Duration = Duration::from_secs(5);

/// The values of a statement, with their types: nothing is prepared, so that a statement takes one
/// round trip and works behind a pooler in transaction mode.
pub(crate) type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// The connections of a store. They end with the last clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Inner>);

struct Inner {
    runtime: Handle,
    server: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    place: String,
    timeout: Duration,
    slots: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    is_closed: AtomicBool,
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
        let open = self.0.upgrade().map(Connections)?;
        open.check_open().is_ok().then_some(open)
    }
}

/// One connection, in use by one call.
pub(crate) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    used_at: Instant,
    /// A write was sent, and its answer has not arrived.
    is_in_doubt: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Session {
    /// Runs a statement that changes something, in a transaction of its own.
    pub(crate) async fn write(&mut self, sql: &str, values: Values<'_>) -> Outcome<Vec<Row>> {
        self.is_in_doubt = true;
        let answer = self.client.query_typed(sql, values).await;
        self.is_in_doubt = answer.as_ref().is_err_and(leaves_doubt);
        Ok(answer?)
    }

    /// Runs a statement that changes nothing, or one within a transaction.
    pub(crate) async fn ask(&mut self, sql: &str, values: Values<'_>) -> Outcome<Vec<Row>> {
        Ok(self.client.query_typed(sql, values).await?)
    }

    /// Runs statements without values.
    pub(crate) async fn run(&mut self, sql: &str) -> Outcome<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Begins a transaction. A call that ends with an error takes it back.
    pub(crate) async fn begin(&mut self) -> Outcome<()> {
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED").await
    }

    /// Ends the transaction.
    pub(crate) async fn commit(&mut self) -> Outcome<()> {
        self.is_in_doubt = true;
        let answer = self.run("COMMIT").await;
        self.is_in_doubt = matches!(&answer, Err(Fault::Sql(error)) if leaves_doubt(error));
        answer
    }
}

impl Connections {
    /// Starts the thread. The first call connects.
    pub(crate) fn start(config: &PostgresConfig, timeout: Duration) -> Result<Self> {
        let tls = tls::connector(&config.tls)?;
        let place = config.place();
        let (runtime, alive) = start_thread(&place)?;
        let mut server = config.server.clone();
        if server.get_connect_timeout().is_none() {
            // Each host has its share, so that the next one is tried within a call.
            let hosts = u32::try_from(server.get_hosts().len()).unwrap_or(1);
            server.connect_timeout(timeout / (hosts + 1));
        }
        Ok(Self(Arc::new(Inner {
            runtime,
            server,
            tls,
            place,
            timeout,
            slots: Arc::new(Semaphore::new(config.connections)),
            idle: Mutex::default(),
            is_closed: AtomicBool::new(false),
            _alive: alive,
        })))
    }

    /// The server, without secrets.
    pub(crate) fn place(&self) -> &str {
        &self.0.place
    }

    /// Refuses further calls; those in progress are still answered.
    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Relaxed);
        self.idle().clear();
    }

    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.0.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed("the store"));
        }
        Ok(())
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
        self.check_open()?;
        let own = self.clone();
        let call = self
            .0
            .runtime
            .spawn(async move { own.attempt(&work).await });
        call.await.unwrap_or(Err(Error::Closed("the store")))
    }

    /// The same for work that runs on the thread of the connections already.
    pub(crate) async fn attempt_here<T, W>(&self, work: W) -> Result<T>
    where
        W: for<'a> Fn(&'a mut Session) -> BoxFuture<'a, Outcome<T>>,
    {
        self.attempt(&work).await
    }

    pub(crate) fn downgrade(&self) -> WeakConnections {
        WeakConnections(Arc::downgrade(&self.0))
    }

    async fn attempt<T, W>(&self, work: &W) -> Result<T>
    where
        W: for<'a> Fn(&'a mut Session) -> BoxFuture<'a, Outcome<T>>,
    {
        let deadline = Instant::now() + self.0.timeout;
        let place = self.place();
        let too_slow = |what: &str| {
            let text = format!("{what} within {:?}", self.0.timeout);
            lost(place, &text, false)
        };
        let slot = tokio::time::timeout_at(deadline, self.0.slots.acquire()).await;
        let slot =
            slot.map_err(|_| too_slow("all its connections were in use, and none became free"))?;
        let _slot = slot.map_err(|_| Error::Closed("the store"))?;
        for turn in 1.. {
            let session = tokio::time::timeout_at(deadline, self.session()).await;
            let mut session = session.map_err(|_| too_slow("there was no connection"))??;
            let done = tokio::time::timeout_at(deadline, work(&mut session)).await;
            let fault = match done {
                Ok(Ok(done)) => {
                    self.keep(session);
                    return Ok(done);
                }
                Ok(Err(fault)) => fault,
                Err(_) => {
                    let text = format!("no answer within {:?}", self.0.timeout);
                    let error = lost(place, &text, session.is_in_doubt);
                    self.abandon(session);
                    return Err(error);
                }
            };
            let is_in_doubt = session.is_in_doubt;
            let is_conflict = fault.is_conflict() && turn < TRIES;
            if !fault.ends_connection() && self.is_clean(&mut session, deadline).await {
                self.keep(session);
            }
            if !is_conflict {
                return Err(fault.error(place, is_in_doubt));
            }
            let pause = Duration::from_millis(fastrand::u64(1..=10 * turn as u64));
            tokio::time::sleep(pause).await;
        }
        Err(Error::Closed("the store"))
    }

    /// Takes back what an error has left open.
    async fn is_clean(&self, session: &mut Session, deadline: Instant) -> bool {
        let rollback = session.run("ROLLBACK");
        matches!(
            tokio::time::timeout_at(deadline, rollback).await,
            Ok(Ok(()))
        )
    }

    /// An idle connection, or a new one.
    async fn session(&self) -> Result<Session> {
        loop {
            let found = self.idle().pop();
            let Some(mut session) = found else {
                return self.connect().await;
            };
            if session.client.is_closed() {
                continue;
            }
            // A connection that died in silence is noticed before a write is in doubt.
            if session.used_at.elapsed() < IDLE || session.run("").await.is_ok() {
                session.is_in_doubt = false;
                return Ok(session);
            }
        }
    }

    async fn connect(&self) -> Result<Session> {
        let (client, driver) = self.open(&self.0.server, |_| ()).await?;
        Ok(Session {
            client,
            driver,
            used_at: Instant::now(),
            is_in_doubt: false,
        })
    }

    /// Connects; `heard` gets what the server says by itself.
    pub(crate) async fn open(
        &self,
        server: &tokio_postgres::Config,
        mut heard: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Result<(Client, JoinHandle<()>)> {
        let connected = server.connect(self.0.tls.clone()).await;
        let (client, mut connection) = connected.map_err(|error| {
            let fault = Fault::Sql(error);
            match fault.error(self.place(), false) {
                Error::Unavailable { store, detail } => Error::Unavailable {
                    store,
                    detail: format!("cannot connect: {detail}"),
                },
                error => error,
            }
        })?;
        let driver = self.0.runtime.spawn(async move {
            loop {
                match std::future::poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(message)) => heard(message),
                    Some(Err(error)) => {
                        debug!(%error, "a connection has ended");
                        return;
                    }
                    None => return,
                }
            }
        });
        Ok((client, driver))
    }

    fn keep(&self, mut session: Session) {
        session.used_at = Instant::now();
        if !self.0.is_closed.load(Ordering::Relaxed) {
            self.idle().push(session);
        }
    }

    /// Asks the server to stop the statement of a call whose time is over.
    fn abandon(&self, session: Session) {
        let (token, tls) = (session.client.cancel_token(), self.0.tls.clone());
        let limit = self.0.timeout;
        self.spawn(async move {
            let cancelled = tokio::time::timeout(limit, token.cancel_query(tls)).await;
            debug!(?cancelled, "a statement without an answer is cancelled");
            drop(session);
        });
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
