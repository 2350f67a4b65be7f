//! Where a case is measured: a store that is set up once, and a clean place in it for every run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delayq_core::store::StoreOptions;
use delayq_plugin::{
    DelayQueuePlugin, DelayQueuePluginBuilder, Namespace, Store, TaskSubmitService, TaskWorker,
    WorkerOptions, open_store,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::Failure;
use crate::bare_postgres::BarePostgres;
use crate::bare_redis::BareRedis;
use crate::load::TASK_TYPE;
use crate::meter::Meter;
use crate::postgres_server::PostgresServer;
use crate::redis_server::{Persistence, RedisServer};

/// A rewrite of the append-only file takes a core for a while. It would hit one round and not the
/// next, so the file is rewritten between rounds instead.
pub(crate) const LARGE_FILE: [&str; 2] = ["--auto-aof-rewrite-min-size", "64gb"];

/// A checkpoint has every page written to the log once more. It comes between rounds, too. The
/// memory for pages is what a small server of its own has.
pub(crate) const POSTGRES: [&str; 3] = [
    "shared_buffers=512MB",
    "max_wal_size=16GB",
    "checkpoint_timeout=1h",
];

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    Redis,
    Sqlite,
    Postgres,
    Memory,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Memory => "memory",
        }
    }
}

/// A store that runs.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) place: Place,
    /// What it is, with its version and settings, for the report.
    pub(crate) version: String,
    redis: Option<RedisServer>,
    postgres: Option<(PostgresServer, Meter)>,
    folder: TempDir,
    runs: AtomicUsize,
}

impl Stage {
    /// Starts what the store needs. Files are made in the target folder, which is on a real disk
    /// where the system's temporary folder may be in memory.
    pub(crate) async fn set(place: Place) -> Result<Self, Failure> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        std::fs::create_dir_all(&target)?;
        let folder = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(target)?;
        // What delayq asks of a Redis by default: that tasks survive a crash of the server.
        let is_redis = place == Place::Redis;
        let redis = is_redis.then(|| RedisServer::start(Persistence::EverySecond, &LARGE_FILE));
        let postgres = match place {
            Place::Postgres => Some(postgres().await?),
            _ => None,
        };
        let runs = AtomicUsize::new(0);
        let version = String::new();
        let mut stage = Self {
            place,
            version,
            redis,
            postgres,
            folder,
            runs,
        };
        stage.version = stage.describe().await?;
        Ok(stage)
    }

    async fn describe(&self) -> Result<String, Failure> {
        Ok(match self.place {
            Place::Redis => {
                let version = self
                    .bare_redis()
                    .await?
                    .info("server", "redis_version")
                    .await?;
                format!("redis: {version}, append-only file synced every second")
            }
            Place::Sqlite => {
                format!("sqlite: {}, WAL, synchronous=FULL", rusqlite::version())
            }
            Place::Postgres => {
                let version = self.meter()?.version().await?;
                format!(
                    "postgres: {version}, synchronous_commit=on, {}",
                    POSTGRES.join(", ")
                )
            }
            Place::Memory => "memory: nothing is durable".to_owned(),
        })
    }

    /// A clean place for one run.
    pub(crate) async fn site(&self) -> Result<Site, Failure> {
        let run = self.next_run();
        let url = match self.place {
            Place::Redis => {
                self.bare_redis().await?.wipe().await?;
                self.redis_url()?
            }
            Place::Sqlite => format!("sqlite:{}", self.file(run).display()),
            Place::Postgres => self.database_of(run).await?,
            Place::Memory => "memory:?durability=memory".to_owned(),
        };
        let namespace = format!("bench-{run}");
        Ok(Site { url, namespace })
    }

    /// A file of its own for a run of bare SQL.
    pub(crate) fn bare_file(&self) -> std::path::PathBuf {
        self.file(self.next_run())
    }

    fn next_run(&self) -> usize {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    fn file(&self, run: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("{run}.sqlite"))
    }

    pub(crate) fn redis(&self) -> Result<&RedisServer, Failure> {
        self.redis
            .as_ref()
            .ok_or_else(|| "this case is about Redis only".into())
    }

    pub(crate) fn redis_url(&self) -> Result<String, Failure> {
        Ok(self.redis()?.url())
    }

    fn postgres(&self) -> Result<&(PostgresServer, Meter), Failure> {
        let postgres = self.postgres.as_ref();
        postgres.ok_or_else(|| "this case is about PostgreSQL only".into())
    }

    /// What the server tells of itself.
    pub(crate) fn meter(&self) -> Result<&Meter, Failure> {
        Ok(&self.postgres()?.1)
    }

    /// Makes an empty database in the place of the one before; returns its URL.
    pub(crate) async fn new_database(&self) -> Result<String, Failure> {
        self.database_of(self.next_run()).await
    }

    async fn database_of(&self, run: usize) -> Result<String, Failure> {
        let (server, meter) = self.postgres()?;
        let new = database(run);
        meter.renew(&database(run.saturating_sub(1)), &new).await?;
        Ok(server.url_of(&new))
    }

    /// The name of the present database.
    pub(crate) fn database(&self) -> String {
        database(self.runs.load(Ordering::Relaxed).saturating_sub(1))
    }

    /// A bare table in a database of its own.
    pub(crate) async fn bare_postgres(&self) -> Result<BarePostgres, Failure> {
        BarePostgres::make(self.new_database().await?).await
    }

    /// A connection of its own, which bare scripts are sent over.
    pub(crate) async fn bare_redis(&self) -> Result<BareRedis, Failure> {
        BareRedis::connect(&self.redis_url()?).await
    }
}

fn database(run: usize) -> String {
    format!("run_{run}")
}

async fn postgres() -> Result<(PostgresServer, Meter), Failure> {
    let server = tokio::task::spawn_blocking(|| PostgresServer::start(&POSTGRES)).await?;
    let pid = server.pid().ok_or("the server has ended")?;
    let meter = Meter::connect(&server.url(), pid).await?;
    Ok((server, meter))
}

/// A clean place in a store, which a process can tell another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Site {
    url: String,
    namespace: String,
}

impl Site {
    /// A plugin with default settings and one worker.
    pub(crate) async fn plugin(self, worker: impl TaskWorker) -> Result<DelayQueuePlugin, Failure> {
        let plugin = self.builder()?;
        Ok(plugin
            .worker(TASK_TYPE, WorkerOptions::default(), worker)
            .start()
            .await?)
    }

    /// A plugin with a worker for each of these types, and other settings as `set` changes them.
    pub(crate) async fn plugin_of_types(
        self,
        types: &[String],
        worker: impl TaskWorker + Clone,
        set: impl FnOnce(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder,
    ) -> Result<DelayQueuePlugin, Failure> {
        let mut plugin = set(self.builder()?);
        for task_type in types {
            plugin = plugin.worker(task_type, WorkerOptions::default(), worker.clone());
        }
        Ok(plugin.start().await?)
    }

    fn builder(self) -> Result<DelayQueuePluginBuilder, Failure> {
        Ok(DelayQueuePlugin::builder()
            .url(self.url)
            .namespace(Namespace::new(self.namespace)?)
            .without_registered_workers())
    }

    /// A service with default settings, without a plugin.
    pub(crate) async fn sender(self) -> Result<TaskSubmitService, Failure> {
        Ok(TaskSubmitService::new(self.store().await?))
    }

    /// The store itself, with default options.
    pub(crate) async fn store(self) -> Result<Arc<dyn Store>, Failure> {
        let options = StoreOptions {
            namespace: Namespace::new(self.namespace)?,
            ..StoreOptions::default()
        };
        Ok(open_store(&self.url, options).await?)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// Ends a plugin whose tasks are all done or not due.
pub(crate) async fn end(plugin: DelayQueuePlugin) {
    plugin.shutdown(Duration::from_secs(5)).await;
}
