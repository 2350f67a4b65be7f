//! The connections to one Redis server, and every call over them: the only module that knows the crate
//! `redis`, whose next major version changes much of what is used here.
//!
//! A thread of the store's own drives the connections, so that they live on no application runtime: calls
//! work from any of them, and a starved one cannot stall the others. Answers come back through channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

mod command;
mod fault;
mod link;
mod reply;
mod server;
mod tls;

pub(super) use self::command::Command;
use self::link::Purpose;
pub(super) use self::link::{Link, Live};
pub(super) use self::reply::{Fields, Reply};
use self::server::Server;
use super::config::{RedisConfig, RedisServers};
use crate::error::{Error, Result};

/// Told of each message of the wake channel, and of `None` when some may have been missed.
pub(super) type Listener = Arc<dyn Fn(Option<&[u8]>) + Send + Sync>;

/// Which connection a call takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane {
    /// That of all calls but one.
    Main,
    /// That of lock extensions, which must not wait behind large batches.
    Extend,
}

/// The connections to one server. They end with this.
#[derive(Debug)]
pub(super) struct Client {
    runtime: Handle,
    main: Arc<Link>,
    extend: Arc<Link>,
    place: Arc<str>,
    timeout: Duration,
    is_closed: AtomicBool,
    /// Its drop ends the thread.
    _alive: oneshot::Sender<()>,
}

impl Client {
    /// Starts the thread and connects; fails at once when the server cannot be reached or refuses, and
    /// within `timeout` in any case. A server that is loading its data is waited for.
    pub(super) async fn connect(
        config: &RedisConfig,
        timeout: Duration,
        channel: String,
        listener: Listener,
    ) -> Result<Self> {
        let RedisServers::One(address) = &config.servers else {
            let text = "this release connects to one server: write redis://HOST:PORT/DB";
            return Err(Error::InvalidInput(text.to_owned()));
        };
        let server = Server::new(config, address, timeout)?;
        let place = server.place();
        let (runtime, alive) = start_thread(&place)?;
        let link = |purpose| Link::start(&runtime, server.clone(), purpose);
        let client = Self {
            main: link(Purpose::Calls),
            extend: link(Purpose::Calls),
            runtime: runtime.clone(),
            place,
            timeout,
            is_closed: AtomicBool::new(false),
            _alive: alive,
        };
        let listening = link(Purpose::Listen { channel, listener });
        let links = [
            Arc::clone(&client.main),
            Arc::clone(&client.extend),
            listening,
        ];
        let deadline = Instant::now() + timeout;
        client
            .run(async move {
                for link in links {
                    link.wait_for_first(deadline).await?;
                }
                Ok(())
            })
            .await?;
        Ok(client)
    }

    /// Which server, as a URL without secrets.
    pub(super) fn place(&self) -> &Arc<str> {
        &self.place
    }

    pub(super) fn main(&self) -> &Arc<Link> {
        &self.main
    }

    /// Takes no more calls; those under way are still answered.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed("the store"));
        }
        Ok(())
    }

    /// Spawns what drives connections; it ends with the client.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Runs a command. It is answered or given up within the timeout, the wait for a connection
    /// included, and runs to its end even when the caller goes away.
    pub(super) async fn call(&self, lane: Lane, command: Command) -> Result<Reply> {
        self.check_open()?;
        let link = match lane {
            Lane::Main => Arc::clone(&self.main),
            Lane::Extend => Arc::clone(&self.extend),
        };
        let deadline = Instant::now() + self.timeout;
        self.run(async move { link.call(command, deadline).await })
            .await
    }

    async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let answer = self.runtime.spawn(call).await;
        answer.unwrap_or(Err(Error::Closed("the Redis store")))
    }
}

fn start_thread(place: &Arc<str>) -> Result<(Handle, oneshot::Sender<()>)> {
    let failed = |error: std::io::Error| Error::Unavailable {
        store: place.to_string(),
        detail: format!("cannot start a thread for its connections: {error}"),
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let handle = runtime.handle().clone();
    let (alive, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("delayq-redis".to_owned());
    let drive = move || {
        // The end of the sender is the signal, in whatever way it comes.
        let _ = runtime.block_on(ended);
    };
    thread.spawn(drive).map_err(failed)?;
    Ok((handle, alive))
}
