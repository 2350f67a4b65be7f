//! Connections to the server, and every call over them. A dedicated thread drives them, so that
//! calls work from any runtime and may be dropped at any point.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_core::error::{Error, Result};
use delayq_core::time::duration_ms;
use mysql_async::{Opts, OptsBuilder};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::config::{MysqlConfig, Tls};
use super::fault::Outcome;
use super::session::Session;
use super::sql;

/// The number of connections of a process: one ships, the others search.
const CONNECTIONS: usize = 4;

/// How often a statement is repeated that the server took back because of another one.
const TRIES: u64 = 8;

/// How long work may take that changes the tables.
const LONG: Duration = Duration::from_mins(10);

/// How soon a connection that died in silence is noticed by probes.
const PROBE_AFTER: Duration = Duration::from_secs(30);

/// What a piece of work on a session gives.
pub(super) type Work<'a, T> = Pin<Box<dyn Future<Output = Outcome<T>> + Send + 'a>>;

/// The connections of a history. They end with the last clone.
#[derive(Clone)]
pub(super) struct Connections(Arc<Inner>);

struct Inner {
    runtime: Handle,
    options: OptsBuilder,
    tls: Tls,
    /// True once the server was seen to have no TLS.
    is_plain: AtomicBool,
    place: String,
    timeout: Duration,
    slots: Semaphore,
    idle: Mutex<Vec<Session>>,
    /// Dropping this ends the thread.
    _alive: oneshot::Sender<()>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.0.place).finish()
    }
}

impl Connections {
    /// Starts the thread. The first call connects.
    ///
    /// # Errors
    /// `InvalidInput` if the file of authorities cannot be used.
    pub(super) fn start(config: &MysqlConfig, timeout: Duration) -> Result<Self> {
        // The client takes its cryptography from the process. Another choice stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let place = config.place();
        let seconds = timeout.as_secs().max(1).to_string();
        let ms = duration_ms(timeout).max(1).to_string();
        let setup = sql::SESSION.map(|text| text.replace("{s}", &seconds).replace("{ms}", &ms));
        let options = config.options()?;
        let options = options
            .setup(setup.to_vec())
            .tcp_keepalive(Some(PROBE_AFTER));
        let (runtime, alive) = start_thread(&place)?;
        Ok(Self(Arc::new(Inner {
            runtime,
            options,
            tls: config.tls.clone(),
            is_plain: AtomicBool::new(false),
            place,
            timeout,
            slots: Semaphore::new(CONNECTIONS),
            idle: Mutex::default(),
            _alive: alive,
        })))
    }

    /// The server, without secrets.
    pub(super) fn place(&self) -> &str {
        &self.0.place
    }

    /// Runs `work` on a connection, within the time limit of a call. The work may be repeated: on a
    /// new connection if an old one has ended, and if another transaction was in its way.
    pub(super) async fn call<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: for<'a> Fn(&'a mut Session) -> Work<'a, T> + Send + Sync + 'static,
    {
        let (own, limit) = (self.clone(), self.0.timeout);
        let is_sent = Arc::new(AtomicBool::new(false));
        let of_call = Arc::clone(&is_sent);
        let call = self.0.runtime.spawn(async move {
            let done = timeout(limit, own.attempt(&work, &of_call)).await;
            done.unwrap_or_else(|_| Err(own.unanswered(limit, &of_call)))
        });
        let done = call.await;
        done.unwrap_or_else(|_| Err(self.broken(&is_sent)))
    }

    /// Runs `work` on a connection of its own, without the time limit of a call.
    pub(super) async fn alone<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a mut Session) -> Work<'a, T> + Send + 'static,
    {
        let own = self.clone();
        let is_sent = Arc::new(AtomicBool::new(false));
        let of_call = Arc::clone(&is_sent);
        let call = self.0.runtime.spawn(async move {
            let opened = timeout(own.0.timeout, own.open()).await;
            let mut session = opened.map_err(|_| own.unanswered(own.0.timeout, &of_call))??;
            of_call.store(true, Ordering::Relaxed);
            let working = async {
                session.run(sql::UNLIMITED).await?;
                work(&mut session).await
            };
            let done = timeout(LONG, working).await;
            let done = done.map_err(|_| own.unanswered(LONG, &of_call))?;
            session.end().await;
            done.map_err(|fault| fault.error(own.place(), true))
        });
        let done = call.await;
        done.unwrap_or_else(|_| Err(self.broken(&is_sent)))
    }

    /// Ends the idle connections.
    pub(super) async fn close(&self) {
        let idle = std::mem::take(&mut *self.idle());
        let ending = async move {
            for session in idle {
                session.end().await;
            }
        };
        let _ = self.0.runtime.spawn(timeout(self.0.timeout, ending)).await;
    }

    async fn attempt<T, W>(&self, work: &W, is_sent: &AtomicBool) -> Result<T>
    where
        W: for<'a> Fn(&'a mut Session) -> Work<'a, T>,
    {
        let slot = self.0.slots.acquire().await;
        let _slot = slot.map_err(|_| Error::Closed("the history"))?;
        let mut turn = 1;
        loop {
            let found = self.idle().pop();
            let is_old = found.is_some();
            let mut session = match found {
                Some(session) => session,
                None => self.open().await?,
            };
            is_sent.store(true, Ordering::Relaxed);
            let fault = match work(&mut session).await {
                Ok(done) => {
                    self.idle().push(session);
                    return Ok(done);
                }
                Err(fault) => fault,
            };
            if fault.ends_connection() {
                if is_old {
                    // The others have ended with it.
                    self.idle().clear();
                    continue;
                }
            } else if session.run("ROLLBACK").await.is_ok() {
                self.idle().push(session);
            }
            if !fault.is_conflict() || turn >= TRIES {
                return Err(fault.error(self.place(), true));
            }
            let pause = Duration::from_millis(fastrand::u64(1..=10 * turn));
            tokio::time::sleep(pause).await;
            turn += 1;
        }
    }

    /// A new connection to a server that will do.
    async fn open(&self) -> Result<Session> {
        let opened = self.dial().await;
        opened.map_err(|fault| match fault.error(self.place(), false) {
            Error::Unavailable { store, detail } => {
                Error::unavailable(store, format!("cannot connect: {detail}"))
            }
            error => error,
        })
    }

    async fn dial(&self) -> Outcome<Session> {
        let plain = || Opts::from(self.0.options.clone().ssl_opts(None));
        let opened = if self.0.is_plain.load(Ordering::Relaxed) {
            Session::open(plain(), self.place()).await
        } else {
            Session::open(self.0.options.clone().into(), self.place()).await
        };
        match opened {
            Err(fault) if self.0.tls == Tls::Prefer && fault.lacks_tls() => {
                self.0.is_plain.store(true, Ordering::Relaxed);
                Session::open(plain(), self.place()).await
            }
            opened => opened,
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unanswered(&self, limit: Duration, is_sent: &AtomicBool) -> Error {
        if is_sent.load(Ordering::Relaxed) {
            return Error::indeterminate(self.place(), format!("no answer within {limit:?}"));
        }
        Error::unavailable(
            self.place(),
            format!("there was no connection within {limit:?}"),
        )
    }

    /// The error of a call whose task is gone.
    fn broken(&self, is_sent: &AtomicBool) -> Error {
        if is_sent.load(Ordering::Relaxed) {
            return Error::indeterminate(self.place(), "the call has broken off");
        }
        Error::Closed("the history")
    }
}

/// Names the type of a closure, which Rust does not find by itself.
pub(super) fn work<T, W>(work: W) -> W
where
    W: for<'a> Fn(&'a mut Session) -> Work<'a, T>,
{
    work
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
    let thread = std::thread::Builder::new().name("delayq-history".to_owned());
    let drive = move || {
        // Returns when the sender ends, in whatever way.
        let _ = runtime.block_on(ended);
    };
    thread.spawn(drive).map_err(failed)?;
    Ok((handle, alive))
}
