//! State shared by all requests of the API and of its admin API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::http::StatusCode;
use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_plugin::{Error, Namespace, Result, Store};
use delayq_service::app::App;
use delayq_service::brake::Brake;
use delayq_service::folder_cache::{Contents, FolderCache};
use delayq_service::problem::Problem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::engine::Engine;
use super::figures::Figures;
use super::limits::{Limit, Throttle};
use super::names::{JobIds, QueueName, TokenKey};
use super::wire::{Refused, failed, refused};

/// The folders of tokens, of their limits, and of names of queues that are too long for a type.
const TOKENS: &str = "lmstfy-tokens";
const LIMITS: &str = "lmstfy-limits";
const QUEUES: &str = "lmstfy-queues";
/// The version of the stored form.
const VERSION: u32 = 1;

/// The lmstfy API of one server.
#[derive(Debug)]
pub struct Lmstfy {
    pub(super) app: App,
    /// The pools, with the namespace of each.
    pub(super) pools: BTreeMap<String, String>,
    /// Tokens with their descriptions.
    pub(super) tokens: Book<String>,
    pub(super) limits: Book<Limit>,
    /// Queues whose names cannot be read from their types.
    pub(super) queues: Book<()>,
    pub(super) throttle: Throttle,
    pub(super) figures: Figures,
    pub(super) ids: JobIds,
    pub(super) logs_access: AtomicBool,
    /// Slows down the guessing of passwords of the admin API.
    pub(super) brake: Brake,
}

impl Lmstfy {
    /// The API with the options of the configuration.
    pub fn new(app: App) -> Arc<Self> {
        let own = || Arc::clone(&app.own);
        Arc::new(Self {
            pools: app.config.lmstfy.all_pools(),
            tokens: Book::new(own(), TOKENS),
            limits: Book::new(own(), LIMITS),
            queues: Book::new(own(), QUEUES),
            throttle: Throttle::default(),
            figures: Figures::default(),
            ids: JobIds::default(),
            logs_access: AtomicBool::new(false),
            brake: Brake::default(),
            app,
        })
    }

    /// Follows changes by other servers; never returns.
    pub async fn follow(self: Arc<Self>) {
        tokio::join!(
            self.tokens.follow(),
            self.limits.follow(),
            self.queues.follow()
        );
    }

    /// The jobs of a pool; `None` if there is no such pool.
    pub(super) async fn engine(&self, pool: &str) -> Option<Result<Engine, Problem>> {
        let namespace = self.pools.get(pool)?;
        let namespace = match Namespace::new(namespace) {
            Ok(namespace) => namespace,
            Err(error) => return Some(Err(error.into())),
        };
        let space = self.app.spaces.of(&namespace).await;
        Some(space.map(|space| Engine { space }))
    }

    /// Refuses a token that does not exist or was deleted.
    pub(super) async fn check_token(&self, key: &TokenKey) -> Result<(), Refused> {
        if key.token.is_empty() {
            return Err(refused(StatusCode::UNAUTHORIZED, "token not found"));
        }
        match self.tokens.find(key).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(refused(StatusCode::UNAUTHORIZED, "invalid token")),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Stores the name of a queue that cannot be read from its type.
    pub(super) async fn remember(&self, pool: &str, queue: &QueueName) {
        let key = TokenKey::new(pool, &queue.namespace, &queue.queue);
        if !queue.is_hashed() || self.queues.get(&key).is_some() {
            return;
        }
        if let Err(error) = self.queues.put(&key, &()).await {
            tracing::warn!(%error, "cannot store the long name of a queue; it is not listed");
        }
    }

    /// The queues of a pool.
    pub(super) async fn queues(&self, pool: &str) -> Result<Vec<QueueName>, Problem> {
        let Some(engine) = self.engine(pool).await else {
            return Ok(Vec::new());
        };
        let types = engine?.queues().await?;
        let mut queues: Vec<_> = types
            .iter()
            .filter_map(|one| QueueName::read(one.as_str()))
            .collect();
        let long = self.queues.all(|key| key.pool == pool).into_iter();
        let long = long.map(|(key, ())| QueueName::new(&key.namespace, &key.token));
        queues.extend(long.filter(|one| one.task_type().is_ok_and(|one| types.contains(&one))));
        Ok(queues)
    }
}

/// Records of one kind, one for each token. Every server forgets a removed record within a second.
#[derive(Debug)]
pub(super) struct Book<T>(FolderCache<Records<T>>);

/// The value of a record.
pub(super) trait Value: Clone + Serialize + DeserializeOwned + Send + Sync {}

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync> Value for T {}

#[derive(Debug)]
struct Records<T>(BTreeMap<TokenKey, T>);

impl<T> Default for Records<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// The stored form of a record.
#[derive(Debug, Serialize, Deserialize)]
struct StoredRecord<T> {
    v: u32,
    key: TokenKey,
    value: T,
}

impl<T: Value> Contents for Records<T> {
    fn read(documents: Vec<Document>) -> Result<Self> {
        let mut records = BTreeMap::new();
        for document in documents {
            match serde_json::from_str::<StoredRecord<T>>(&document.body) {
                Ok(record) if record.v <= VERSION => {
                    records.insert(record.key, record.value);
                }
                Ok(_) => warn!(
                    name = document.name,
                    "a newer release wrote this record; ignored"
                ),
                Err(error) => error!(name = document.name, %error, "cannot read a record; ignored"),
            }
        }
        Ok(Self(records))
    }
}

impl<T: Value> Book<T> {
    /// The records of a folder, read on first use.
    fn new(store: Arc<dyn Store>, folder: &'static str) -> Self {
        Self(FolderCache::new(store, folder))
    }

    /// Follows changes by other servers; never returns.
    async fn follow(&self) {
        self.0.follow().await;
    }

    /// Reads changes by other servers.
    pub(super) async fn refresh(&self) -> Result<()> {
        self.0.refresh().await.map(drop)
    }

    /// The record of a token, as of the last read.
    pub(super) fn get(&self, key: &TokenKey) -> Option<T> {
        self.0.get().0.get(key).cloned()
    }

    /// The record of a token. An unknown one is looked up in the store, because another server may
    /// just have made it.
    pub(super) async fn find(&self, key: &TokenKey) -> Result<Option<T>> {
        let known = self.get(key);
        if known.is_some() {
            return Ok(known);
        }
        self.refresh().await?;
        Ok(self.get(key))
    }

    /// All records that meet a condition.
    pub(super) fn all(&self, is_wanted: impl Fn(&TokenKey) -> bool) -> Vec<(TokenKey, T)> {
        let records = self.0.get();
        let wanted = records.0.iter().filter(|(key, _)| is_wanted(key));
        wanted
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Stores a record; replaces an earlier one.
    pub(super) async fn put(&self, key: &TokenKey, value: &T) -> Result<()> {
        let record = StoredRecord {
            v: VERSION,
            key: key.clone(),
            value,
        };
        let name = key.document();
        let written = self.0.write(&name, &record, Expected::Any).await?;
        if written == WriteOutcome::FolderFull {
            return Err(Error::invalid("token", "there are 10,000: remove some"));
        }
        Ok(())
    }

    /// Removes a record, if it exists.
    pub(super) async fn remove(&self, key: &TokenKey) -> Result<()> {
        self.0.remove(&key.document()).await.map(drop)
    }
}
