//! The connections to Redis, and every call over them: the only module that knows the crate `redis`, whose
//! next major version changes much of what is used here.
//!
//! A thread of the store's own drives the connections, so that they live on no application runtime: calls
//! work from any of them, and a starved one cannot stall the others. Answers come back through channels.
//!
//! Reading order: [`link`] (a connection that is made again), [`live`] (what is sent over it), [`node`]
//! (the connections to one server), [`sentinel`] and [`cluster`] (which server that is), [`quorum`] (how many of
//! its replicas confirm a write), [`route`] (a command's way to it).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

mod batch;
mod cluster;
mod command;
mod ears;
#[cfg(test)]
mod fake;
mod fault;
mod greet;
mod joint;
mod link;
mod live;
mod node;
mod quorum;
mod redirect;
mod replicas;
mod reply;
mod route;
mod sentinel;
mod server;
mod settings;
mod slots;
mod tls;

use self::cluster::Cluster;
pub(super) use self::command::Command;
pub(super) use self::ears::{Channel, Channels};
pub(super) use self::joint::{Joint, Seat};
use self::link::{Link, Purpose, Target};
pub(super) use self::live::Live;
pub(super) use self::node::Node;
use self::quorum::Quorum;
pub(super) use self::reply::{Fields, Reply};
pub(super) use self::route::Route;
use self::route::Servers;
use self::sentinel::Sentinels;
use self::settings::Settings;
use super::config::{RedisConfig, RedisServers};
use crate::error::{Error, Result};

/// Told of each message of the wake channel, and of `None` when some may have been missed.
pub(super) type Listener = Arc<dyn Fn(Option<&[u8]>) + Send + Sync>;

/// Which connection a call takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane {
    /// That of all calls but those below.
    Main,
    /// That of submits, which wait for replicas where these have to confirm.
    Submit,
    /// That of lock extensions, which must not wait behind large batches.
    Extend,
}

/// The connections to one server, or to all masters of a cluster. They end with this.
#[derive(Debug)]
pub(super) struct Client {
    runtime: Handle,
    route: Route,
    place: Arc<str>,
    timeout: Duration,
    channels: watch::Sender<Arc<Channels>>,
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
        is_replicated: bool,
        channel: String,
        listener: Listener,
    ) -> Result<Self> {
        let quorum = is_replicated.then(|| Arc::new(Quorum::new(config, timeout)));
        let settings = Settings::new(config, timeout, quorum)?;
        let place = settings.place();
        let (runtime, alive) = start_thread(&place)?;
        let channels = watch::Sender::default();
        let listen = |target| {
            let (channel, listener) = (Some(channel), Arc::clone(&listener));
            let purpose = Purpose::Listen { channel, listener };
            Link::start(&runtime, &settings, target, purpose)
        };
        let start_one = |target: Target| {
            let node = Node::start(&runtime, &settings, &target);
            let may_change = matches!(target, Target::Master(_));
            let mut links = node.links().to_vec();
            links.push(listen(target));
            (Servers::One { node, may_change }, links)
        };
        let (servers, links) = match &config.servers {
            RedisServers::One(address) => start_one(Target::Fixed(address.clone())),
            RedisServers::Sentinel { sentinels, master } => {
                let sentinels = Sentinels::start(&runtime, &settings, sentinels, master);
                start_one(Target::Master(sentinels))
            }
            RedisServers::Cluster { nodes } => {
                let cluster = Cluster::start(&runtime, &settings, nodes);
                let (settings, wanted) = (Arc::clone(&settings), channels.subscribe());
                let whole = Arc::clone(&cluster);
                let ears = ears::listen(runtime.clone(), settings, whole, wanted, listener);
                runtime.spawn(ears);
                (Servers::Cluster(cluster), Vec::new())
            }
        };
        let client = Self {
            runtime,
            route: Route { servers },
            place,
            timeout,
            channels,
            is_closed: AtomicBool::new(false),
            _alive: alive,
        };
        let deadline = Instant::now() + timeout;
        let servers = client.route.servers.clone();
        client.run(wait_for_first(servers, links, deadline)).await?;
        Ok(client)
    }

    /// Where it leads to, as a URL without secrets.
    pub(super) fn place(&self) -> &Arc<str> {
        &self.place
    }

    pub(super) fn route(&self) -> &Route {
        &self.route
    }

    /// That of the thread.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
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

    /// Listens to these channels, and no others. Only of use with a cluster.
    pub(super) fn listen_to(&self, channels: Channels) {
        self.channels.send_if_modified(|known| {
            let is_news = **known != channels;
            if is_news {
                *known = Arc::new(channels);
            }
            is_news
        });
    }

    /// Runs a command. It is answered or given up within the timeout, the wait for a connection
    /// included, and runs to its end even when the caller goes away.
    pub(super) async fn call(&self, lane: Lane, command: Command) -> Result<Reply> {
        self.check_open()?;
        let route = self.route.clone();
        let deadline = Instant::now() + self.timeout;
        self.run(async move { route.call(lane, command, deadline).await })
            .await
    }

    /// Runs a command as [`call`](Self::call) does, but not for a caller that has gone away: what has not been sent
    /// by then never is. So a claim that was given up takes no locks later.
    pub(super) async fn call_while_awaited(&self, lane: Lane, command: Command) -> Result<Reply> {
        self.check_open()?;
        let route = self.route.clone();
        let deadline = Instant::now() + self.timeout;
        let call = async move { route.call(lane, command, deadline).await };
        let call = AbortOnDropHandle::new(self.runtime.spawn(call));
        call.await.unwrap_or(Err(Error::Closed("the Redis store")))
    }

    /// The servers that hold data now: one, or the masters of a cluster.
    pub(super) fn servers(&self) -> Vec<Arc<Node>> {
        self.route.servers()
    }

    /// Runs a command on one server, whatever slots it has.
    pub(super) async fn ask(&self, node: &Arc<Node>, command: Command) -> Result<Reply> {
        self.check_open()?;
        let (node, timeout) = (Arc::clone(node), self.timeout);
        self.run(async move { node.ask(command, Instant::now() + timeout).await })
            .await
    }

    /// Waits for so long, with this client's clockwork: the caller's runtime may have none.
    pub(super) async fn rest(&self, span: Duration) {
        // Without the thread nothing is left to wait for.
        // Made where it is polled: the runtime of the caller may end before it does, and take its timer along.
        let pause = self
            .runtime
            .spawn(async move { tokio::time::sleep(span).await });
        let _ = AbortOnDropHandle::new(pause).await;
    }

    async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let answer = self.runtime.spawn(call).await;
        answer.unwrap_or(Err(Error::Closed("the Redis store")))
    }
}

async fn wait_for_first(servers: Servers, links: Vec<Arc<Link>>, deadline: Instant) -> Result<()> {
    for link in links {
        link.wait_for_first(deadline).await?;
    }
    if let Servers::Cluster(cluster) = servers {
        cluster.wait_for_first(deadline).await?;
        cluster.reach_masters(deadline).await?;
    }
    Ok(())
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
