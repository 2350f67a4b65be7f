//! Where a case is measured: a store that is set up once, and a clean place in it for every run.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delayq_core::store::StoreOptions;
use delayq_plugin::{
    DelayQueuePlugin, DelayQueuePluginBuilder, Namespace, TaskSubmitService, TaskWorker,
    WorkerOptions, open_store,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::Failure;
use crate::bare_redis::BareRedis;
use crate::load::TASK_TYPE;
use crate::redis_server::{Persistence, RedisServer};

/// A rewrite of the append-only file takes a core for a while. It would hit one round and not the
/// next, so the file is rewritten between rounds instead.
pub(crate) const LARGE_FILE: [&str; 2] = ["--auto-aof-rewrite-min-size", "64gb"];

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    Redis,
    Sqlite,
    Memory,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Sqlite => "sqlite",
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
        let runs = AtomicUsize::new(0);
        let version = String::new();
        let mut stage = Self {
            place,
            version,
            redis,
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
            Place::Memory => "memory: nothing is durable".to_owned(),
        })
    }

    /// A clean place for one run.
    pub(crate) async fn site(&self) -> Result<Site, Failure> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let url = match self.place {
            Place::Redis => {
                self.bare_redis().await?.wipe().await?;
                self.redis_url()?
            }
            Place::Sqlite => format!("sqlite:{}", self.file(run).display()),
            Place::Memory => "memory:?durability=memory".to_owned(),
        };
        let namespace = format!("bench-{run}");
        Ok(Site { url, namespace })
    }

    /// A file of its own for a run of bare SQL.
    pub(crate) fn bare_file(&self) -> std::path::PathBuf {
        self.file(self.runs.fetch_add(1, Ordering::Relaxed))
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

    /// A connection of its own, which bare scripts are sent over.
    pub(crate) async fn bare_redis(&self) -> Result<BareRedis, Failure> {
        BareRedis::connect(&self.redis_url()?).await
    }
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
        let options = StoreOptions {
            namespace: Namespace::new(self.namespace)?,
            ..StoreOptions::default()
        };
        Ok(TaskSubmitService::new(
            open_store(&self.url, options).await?,
        ))
    }
}

/// Ends a plugin whose tasks are all done or not due.
pub(crate) async fn end(plugin: DelayQueuePlugin) {
    plugin.shutdown(Duration::from_secs(5)).await;
}
