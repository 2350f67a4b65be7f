//! Connections to Redis, and every call over them. This is the only module that uses the crate
//! `redis`, whose next major version will change much of it. The module does not know about tasks.
//!
//! A dedicated thread of the store drives the connections, so that they depend on no application
//! runtime: calls work from any runtime, and a starved one cannot stall the others. Answers come
//! back through channels.
//!
//! Reading order: [`reconnecting`] (a connection that is renewed when it ends), [`wire`] (pipelines
//! over it), [`server`] (the connections to one server), [`routing`] (a command's way to its
//! server), [`sentinel`] and [`cluster`] (the search for that server, by asking a [`panel`]),
//! [`replication`] (the number of replicas that have to confirm a write), [`confirm`] (their
//! confirmations).

mod cluster;
mod command;
mod confirm;
#[cfg(test)]
#[cfg_attr(
    not(all(feature = "cluster", feature = "sentinel")),
    allow(dead_code, reason = "the tests of those features use all of it")
)]
pub(crate) mod fake;
mod fault;
mod handshake;
pub(crate) mod login;
mod panel;
mod reconnecting;
mod redirect;
mod replication;
mod reply;
mod routing;
mod sentinel;
mod sentinel_replicas;
mod server;
mod settings;
mod slots;
mod subscriber;
mod target;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "connection/no_tls.rs"]
mod tls;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delayq_core::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::command::{Command, LuaScript};
#[cfg(test)]
pub(crate) use self::fault::GRANT;
pub(crate) use self::fault::grant;
pub(crate) use self::reply::{Fields, RespValue, info};
pub(crate) use self::routing::Routing;
pub(crate) use self::server::{PipelineResult, Server};
pub(crate) use self::subscriber::{Channel, Channels};

use self::reconnecting::{Purpose, Reconnecting};
use self::settings::Settings;
use self::target::Target;
use crate::config::{RedisConfig, RedisServers};

/// Called for each message on the wake channel, and with `None` if some may have been missed.
pub(crate) type Listener = Arc<dyn Fn(Option<&[u8]>) + Send + Sync>;

/// The class of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    /// All calls except those below.
    Main,
    /// Submits, which wait for replicas if these have to confirm.
    Submit,
    /// Lock extensions, which must not wait behind large batches.
    Extend,
}

/// Parameters for opening connections, besides the configuration.
pub(crate) struct Setup {
    /// The time limit of a call.
    pub(crate) timeout: Duration,
    /// True if replicas have to confirm each write.
    pub(crate) is_replicated: bool,
    /// Loaded on each new connection.
    pub(crate) scripts: &'static [LuaScript],
    /// The channel of wake-ups. For a cluster, [`Connections::listen_to`] sets the channels
    /// instead.
    pub(crate) channel: String,
    pub(crate) listener: Listener,
}

/// The connections to one server, or to all masters of a cluster. They end with the last clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Inner>);

struct Inner {
    runtime: Handle,
    routing: Routing,
    place: Arc<str>,
    timeout: Duration,
    channels: tokio::sync::watch::Sender<Arc<Channels>>,
    is_closed: AtomicBool,
    /// Dropping this ends the thread.
    _alive: oneshot::Sender<()>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.0.place).finish()
    }
}

impl Connections {
    /// Starts the thread and connects. Fails at once if the server cannot be reached or refuses,
    /// and within the timeout in any case. Waits for a server that is loading its data.
    pub(crate) async fn open(config: &RedisConfig, setup: Setup) -> Result<Self> {
        let timeout = setup.timeout;
        let (runtime, alive) = start_thread(config)?;
        let settings = Settings::new(config, &runtime, &setup)?;
        let channels = tokio::sync::watch::Sender::default();
        let start_one = |target: Target| {
            let server = Server::start(&settings, &target);
            let may_change = target.may_change();
            let purpose = Purpose::Listen {
                channel: Some(setup.channel.clone()),
                listener: Arc::clone(&setup.listener),
            };
            let listening = Reconnecting::start(&settings, target, purpose);
            (Routing::One { server, may_change }, Some(listening))
        };
        let (routing, listening) = match &config.servers {
            RedisServers::One(address) => start_one(Target::Fixed(address.clone())),
            RedisServers::Sentinel { sentinels, master } if cfg!(feature = "sentinel") => {
                let sentinels = sentinel::Sentinels::start(&settings, sentinels, master);
                start_one(Target::Master(sentinels))
            }
            RedisServers::Cluster { nodes } if cfg!(feature = "cluster") => {
                let cluster = cluster::Cluster::start(&settings, nodes);
                let listening = subscriber::listen(
                    Arc::clone(&settings),
                    Arc::clone(&cluster),
                    channels.subscribe(),
                    Arc::clone(&setup.listener),
                );
                runtime.spawn(listening);
                (Routing::Cluster(cluster), None)
            }
            // The guards keep features that are not built out of the binary, too.
            _ => {
                return Err(Error::Unsupported(
                    "this kind of Redis servers, see its features",
                ));
            }
        };
        let connections = Self(Arc::new(Inner {
            runtime,
            routing,
            place: settings.place(),
            timeout,
            channels,
            is_closed: AtomicBool::new(false),
            _alive: alive,
        }));
        let deadline = Instant::now() + timeout;
        let routing = connections.0.routing.clone();
        connections
            .run(wait_for_first(routing, listening, deadline))
            .await?;
        Ok(connections)
    }

    /// The address, as a URL without secrets.
    pub(crate) fn place(&self) -> &Arc<str> {
        &self.0.place
    }

    /// The time limit of a call.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// True if commands of different slots may have different servers.
    pub(crate) fn is_cluster(&self) -> bool {
        match self.0.routing {
            Routing::One { .. } => false,
            Routing::Cluster(_) => true,
        }
    }

    /// Maps slots to servers. Its calls must run on the thread of the connections.
    pub(crate) fn routing(&self) -> &Routing {
        &self.0.routing
    }

    /// Refuses further calls; those in progress are still answered.
    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Relaxed);
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
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.runtime.spawn(task);
    }

    /// Runs a future on the thread of the connections, to its end even if the caller goes away.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let answer = self.0.runtime.spawn(call).await;
        answer.unwrap_or(Err(Error::Closed("the Redis store")))
    }

    /// Listens to these channels, and no others.
    pub(crate) fn listen_to(&self, channels: Channels) {
        self.0.channels.send_if_modified(|known| {
            let is_news = **known != channels;
            if is_news {
                *known = Arc::new(channels);
            }
            is_news
        });
    }

    /// Runs a command. It is answered or given up within the timeout, including the wait for a
    /// connection. It runs to its end even if the caller goes away.
    pub(crate) async fn call(&self, class: Class, command: Command) -> Result<RespValue> {
        self.check_open()?;
        let routing = self.0.routing.clone();
        let deadline = Instant::now() + self.0.timeout;
        self.run(async move { routing.call(class, command, deadline).await })
            .await
    }

    /// Runs a command like [`call`](Self::call), but stops if the caller goes away: if the command
    /// has not been sent by then, it never is. So an abandoned claim takes no locks later.
    pub(crate) async fn call_while_awaited(
        &self,
        class: Class,
        command: Command,
    ) -> Result<RespValue> {
        self.check_open()?;
        let routing = self.0.routing.clone();
        let deadline = Instant::now() + self.0.timeout;
        let call = async move { routing.call(class, command, deadline).await };
        let call = AbortOnDropHandle::new(self.0.runtime.spawn(call));
        call.await.unwrap_or(Err(Error::Closed("the Redis store")))
    }

    /// Runs a command on one server, whatever slots it has.
    pub(crate) async fn ask(&self, server: &Arc<Server>, command: Command) -> Result<RespValue> {
        self.check_open()?;
        let (server, deadline) = (Arc::clone(server), Instant::now() + self.0.timeout);
        self.run(async move { server.ask(command, deadline).await })
            .await
    }
}

async fn wait_for_first(
    routing: Routing,
    listening: Option<Arc<Reconnecting>>,
    deadline: Instant,
) -> Result<()> {
    match routing {
        Routing::One { server, .. } => server.wait_for_first(deadline).await?,
        Routing::Cluster(cluster) => {
            cluster.wait_for_first(deadline).await?;
            cluster.reach_masters(deadline).await?;
        }
    }
    match listening {
        Some(listening) => listening.wait_for_first(deadline).await,
        None => Ok(()),
    }
}

fn start_thread(config: &RedisConfig) -> Result<(Handle, oneshot::Sender<()>)> {
    let failed = |error: std::io::Error| {
        Error::unavailable(
            config.to_string(),
            format!("cannot start a thread for its connections: {error}"),
        )
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let handle = runtime.handle().clone();
    let (alive, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("delayq-redis".to_owned());
    let drive = move || {
        // Returns when the sender ends, in whatever way.
        let _ = runtime.block_on(ended);
    };
    thread.spawn(drive).map_err(failed)?;
    Ok((handle, alive))
}
