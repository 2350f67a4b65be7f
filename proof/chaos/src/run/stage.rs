//! What a run acts on: the store, the processes, the record.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use delayq_plugin::{DelayQueueJob, Error, TaskInfo, TaskSubmitService, millis};
use delayq_tests::postgres_server::PostgresServer;

use super::application::Place;
use super::door::Door;
use super::failure::{Result, failure};
use super::nodes::Nodes;
use super::part::{Duty, NAMESPACE, Part, open};
use super::ping;
use super::process::Process;
use super::server::Server;
use super::watched::Watched;
use super::{Args, StoreKind};
use crate::event::{DRIVER, EFFECT_LOG, Explains, Phase, Target, What};
use crate::fault::{Clock, Kind, mount};
use crate::proxy::{Controls, Proxies};
use crate::record::{RecordedStore, Recorder};

/// Most tasks of one call.
const BATCH: usize = 16;

/// Everything that faults are done to.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) workers: Vec<Process>,
    pub(crate) submitters: Vec<Process>,
    pub(crate) effect_log: Process,
    pub(crate) server: Option<Server>,
    /// The delayq-server in front of it.
    pub(crate) door: Option<Door>,
    /// The server of a store in PostgreSQL, or of the second store of a tier.
    pub(crate) postgres: Option<PostgresServer>,
    /// Several servers with their sentinels.
    pub(crate) watched: Option<Watched>,
    /// The nodes of a cluster.
    pub(crate) nodes: Option<Nodes>,
    /// The driver's own service, which no fault but those of the store is done to.
    pub(crate) service: TaskSubmitService,
    pub(crate) recorder: Recorder,
    pub(crate) controls: HashMap<String, Arc<Controls>>,
    pub(crate) dice: fastrand::Rng,
    pub(crate) store: StoreKind,
    pub(crate) lock_ms: u64,
    /// How many shards types were given, of those that were given more.
    pub(crate) shards: HashMap<String, u32>,
    /// The folder of the store's files, a small disk of its own when there is one.
    pub(crate) data: PathBuf,
    faults: u64,
    _proxies: Proxies,
}

/// A fault that has begun.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) id: u64,
    kind: String,
    target: Target,
    explains: Vec<Explains>,
}

impl Open {
    /// Notes that nothing was undone after all.
    pub(crate) fn spares(&mut self) {
        let undoes = |what: &Explains| matches!(what, Explains::Rollback { .. });
        self.explains.retain(|what| !undoes(what));
    }
}

impl Stage {
    /// Starts everything that `args` say, in `folder`.
    pub(crate) async fn set(args: &Args, folder: &Path, kinds: &[Kind]) -> Result<Self> {
        let recorder = Recorder::open(folder, DRIVER, 1, NAMESPACE)?;
        recorder.watch_usage()?;
        // All calls of a server pass through this process; nodes of a cluster are called directly.
        let is_direct = matches!(
            args.store,
            StoreKind::Sqlite | StoreKind::Postgres | StoreKind::RedisCluster | StoreKind::Server
        );
        if !is_direct {
            recorder.watch()?;
        }
        let clock = Clock::build(folder, kinds, args.skew_ms)?;
        let data = prepare_disk(args.store, folder, kinds, &recorder)?;
        let Backing {
            server,
            door,
            postgres,
            watched,
            nodes,
            url,
            cold,
        } = Backing::start(args, &data, clock.as_ref(), &recorder).await?;
        check_skew(args.skew_ms, watched.as_ref(), nodes.as_ref()).await?;
        let store = open(&url, cold.as_deref()).await?;
        let store = Arc::new(RecordedStore::new(store, recorder.clone()));
        let mut cast = Cast {
            args,
            folder,
            url,
            cold,
            port: direct_port(server.as_ref(), door.as_ref()),
            clock,
            proxies: Proxies::start()?,
            controls: HashMap::new(),
        };
        if let Some(port) = cast.port {
            let (way, _) = cast.proxies.to(port).await?;
            ping::watch(&recorder, way)?;
        }
        let effect_log = cast.start(EFFECT_LOG.to_owned(), Duty::LogEffects).await?;
        let per_second = (args.tasks / args.seconds.max(1)).max(100) / u64::from(args.submitters);
        let (mut workers, mut submitters) = (Vec::new(), Vec::new());
        for n in 0..args.workers {
            workers.push(cast.start(format!("w{n}"), Duty::Work).await?);
        }
        for n in 0..args.submitters {
            let batch = BATCH;
            let duty = Duty::Submit { per_second, batch };
            submitters.push(cast.start(format!("s{n}"), duty).await?);
        }
        Ok(Self {
            workers,
            submitters,
            effect_log,
            server,
            door,
            postgres,
            watched,
            nodes,
            service: TaskSubmitService::new(store),
            recorder,
            controls: cast.controls,
            dice: fastrand::Rng::with_seed(args.seed),
            store: args.store,
            lock_ms: args.lock_ms,
            shards: HashMap::new(),
            data,
            faults: 0,
            _proxies: cast.proxies,
        })
    }

    /// Records that a fault is about to be done.
    pub(crate) fn begin(&mut self, kind: &str, target: Target, explains: Vec<Explains>) -> Open {
        self.faults += 1;
        let open = Open {
            id: self.faults,
            kind: kind.to_owned(),
            target,
            explains,
        };
        self.record(&open, Phase::Begun);
        open
    }

    /// Records that it has done what it does, though not everything works again.
    pub(crate) fn strike(&self, open: &Open) {
        self.record(open, Phase::Struck);
    }

    /// Records that it is over, and everything works again.
    pub(crate) fn end(&self, open: &Open) {
        self.record(open, Phase::Ended);
    }

    fn record(&self, open: &Open, phase: Phase) {
        self.recorder.record(What::Fault {
            id: open.id,
            kind: open.kind.clone(),
            target: open.target.clone(),
            phase,
            explains: open.explains.clone(),
        });
    }

    /// What the processes share, for a look at it when they have gone.
    pub(crate) fn place(&self, folder: &Path) -> Place {
        Place {
            store: Arc::clone(self.service.store()),
            folder: folder.to_owned(),
        }
    }

    /// The server of a store that has one.
    pub(crate) fn server(&mut self) -> Result<&mut Server> {
        match self.server.as_mut() {
            Some(server) => Ok(server),
            None => failure("this store has no server"),
        }
    }

    /// The server of a store in PostgreSQL.
    pub(crate) fn postgres(&mut self) -> Result<&mut PostgresServer> {
        match self.postgres.as_mut() {
            Some(server) => Ok(server),
            None => failure("this store is not in PostgreSQL"),
        }
    }

    /// The delayq-server of a store that has one.
    pub(crate) fn door(&mut self) -> Result<&mut Door> {
        match self.door.as_mut() {
            Some(door) => Ok(door),
            None => failure("this store has no delayq-server"),
        }
    }

    /// The servers of a store that has sentinels.
    pub(crate) fn watched(&mut self) -> Result<&mut Watched> {
        match self.watched.as_mut() {
            Some(watched) => Ok(watched),
            None => failure("this store has no sentinels"),
        }
    }

    /// The nodes of a store that is a cluster.
    pub(crate) fn nodes(&mut self) -> Result<&mut Nodes> {
        match self.nodes.as_mut() {
            Some(nodes) => Ok(nodes),
            None => failure("this store is no cluster"),
        }
    }

    /// Sends a task of the driver's own, again and again while the store is not back from a fault.
    pub(crate) async fn send(&self, job: DelayQueueJob) -> Result<()> {
        loop {
            match self.service.send(job.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_transient() => tokio::time::sleep(millis(20)).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What is known of a task; nothing while the store does not answer, or finds it damaged.
    pub(crate) async fn find(&self, task_type: &str, id: &str) -> Result<Option<TaskInfo>> {
        match self.service.find(task_type, id).await {
            Ok(info) => Ok(info),
            Err(Error::Corrupt { .. }) => Ok(None),
            Err(error) if error.is_transient() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// All processes that faults may be done to.
    pub(crate) fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        self.workers.iter_mut().chain(self.submitters.iter_mut())
    }
}

/// Whether the clocks of the first two servers differ as they should.
async fn check_skew(skew_ms: u64, watched: Option<&Watched>, nodes: Option<&Nodes>) -> Result<()> {
    if skew_ms == 0 {
        return Ok(());
    }
    let mut times = Vec::new();
    for server in 0..2 {
        let (seconds, micros): (i64, i64) = match (watched, nodes) {
            (Some(watched), _) => watched.set.ask(server, &["TIME"]).await?,
            (_, Some(nodes)) => nodes.set.ask(server, &["TIME"]).await?,
            _ => return failure("there is one clock"),
        };
        times.push(seconds * 1_000 + micros / 1_000);
    }
    let ahead_ms = times.last().unwrap_or(&0) - times.first().unwrap_or(&0);
    if ahead_ms.unsigned_abs() < skew_ms / 2 {
        return failure("the clocks of the servers do not differ");
    }
    Ok(())
}

/// The folder of the store's files. It is a small disk of its own when one of `kinds` fills it.
fn prepare_disk(
    store: StoreKind,
    folder: &Path,
    kinds: &[Kind],
    recorder: &Recorder,
) -> Result<PathBuf> {
    let data = folder.join("store");
    std::fs::create_dir_all(&data)?;
    if kinds.contains(&Kind::DiskFull) {
        // A disk in memory, which is never silent.
        mount(&data)?;
    } else if matches!(
        store,
        StoreKind::Sqlite | StoreKind::Redis | StoreKind::Server | StoreKind::Tiered
    ) {
        // The others wait for no disk.
        recorder.watch_disk(&data)?;
    }
    Ok(data)
}

/// The port of the redis-server that processes call by themselves, through proxies.
fn direct_port(server: Option<&Server>, door: Option<&Door>) -> Option<u16> {
    server.filter(|_| door.is_none()).map(|server| server.port)
}

/// What keeps the tasks.
struct Backing {
    server: Option<Server>,
    door: Option<Door>,
    postgres: Option<PostgresServer>,
    watched: Option<Watched>,
    nodes: Option<Nodes>,
    url: String,
    cold: Option<String>,
}

impl Backing {
    /// Starts the servers of a store that has any.
    async fn start(
        args: &Args,
        data: &Path,
        clock: Option<&Clock>,
        recorder: &Recorder,
    ) -> Result<Self> {
        let (mut server, mut door, mut watched, mut nodes) = (None, None, None, None);
        let (mut postgres, mut cold) = (None, None);
        let environments = clock.map(|clock| clock.skewed(args.skew_ms)).transpose()?;
        let environments = environments.unwrap_or_default();
        let url = match args.store {
            StoreKind::Sqlite => format!("sqlite:{}", data.join("tasks.sqlite").display()),
            StoreKind::Redis | StoreKind::RedisEverysec | StoreKind::Tiered => {
                let is_always = args.store != StoreKind::RedisEverysec;
                let sync = if is_always { "always" } else { "everysec" };
                let preload = clock.map(|clock| clock.preload("redis", 0)).transpose()?;
                let started = Server::start(data.to_owned(), sync, preload).await?;
                let url = format!("redis://127.0.0.1:{}", started.port);
                server = Some(started);
                if args.store == StoreKind::Tiered {
                    cold = Some(postgres.insert(PostgresServer::start(&[])).url());
                }
                url
            }
            StoreKind::Server => {
                let preload = clock.map(|clock| clock.preload("redis", 0)).transpose()?;
                let redis = Server::start(data.to_owned(), "always", preload).await?;
                let url = format!("redis://127.0.0.1:{}", redis.port);
                server = Some(redis);
                door.insert(Door::start(data, &url).await?).url()
            }
            StoreKind::Postgres => postgres.insert(PostgresServer::start(&[])).url(),
            StoreKind::RedisSentinel => {
                let started = Watched::start(recorder.clone(), environments).await;
                watched.insert(started).url()
            }
            StoreKind::RedisCluster => {
                let started = Nodes::start(recorder.clone(), environments).await;
                nodes.insert(started).url()
            }
        };
        Ok(Self {
            server,
            door,
            postgres,
            watched,
            nodes,
            url,
            cold,
        })
    }
}

/// Starts processes.
struct Cast<'a> {
    args: &'a Args,
    folder: &'a Path,
    url: String,
    cold: Option<String>,
    port: Option<u16>,
    clock: Option<Clock>,
    proxies: Proxies,
    controls: HashMap<String, Arc<Controls>>,
}

impl Cast<'_> {
    /// Each process reaches a server through a proxy of its own.
    async fn start(&mut self, name: String, duty: Duty) -> Result<Process> {
        let mut url = self.url.clone();
        if let Some(port) = self.port {
            let (own, controls) = self.proxies.to(port).await?;
            url = format!("redis://127.0.0.1:{own}");
            self.controls.insert(name.clone(), controls);
        }
        let preload = match (&self.clock, &duty) {
            (Some(clock), Duty::Work) => Some(clock.preload(&name, 0)?),
            _ => None,
        };
        let part = Part {
            name,
            incarnation: 1,
            folder: self.folder.to_owned(),
            url,
            cold: self.cold.clone(),
            lock_ms: self.args.lock_ms,
            seed: self.args.seed,
            duty,
        };
        let mut process = Process::start(part, preload)?;
        process.up().await?;
        Ok(process)
    }
}
