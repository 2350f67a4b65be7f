//! Applications that announced themselves to a server, stored with their namespace.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_plugin::{Clock, Error, Result, Store, SystemClock, TaskType, Timestamp};
use serde::{Deserialize, Serialize};
use tracing::error;

use super::secret::shown_url;
use crate::discovery::{Form, Index, Instance, Trust};
use crate::folder_cache::{Contents, FolderCache};

/// The folder of announcements.
const FOLDER: &str = "callees";
/// The version of the stored form, and the newest that this release reads.
const VERSION: u32 = 1;
/// The number of expired announcements that a new one removes.
const FORGOTTEN_AT_ONCE: usize = 8;

/// An announced application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    v: u32,
    /// The URL to call.
    pub url: String,
    /// The types that it serves.
    pub types: Vec<TaskType>,
    /// The end of the announcement in milliseconds since the epoch, by the clock of the server that
    /// took it.
    pub until_ms: i64,
}

impl Announced {
    pub fn new(url: String, types: Vec<TaskType>, lease: Duration) -> Self {
        let until = SystemClock.now().plus(lease);
        Self {
            v: VERSION,
            url,
            types,
            until_ms: until.as_millis(),
        }
    }

    /// The announcement as it is shown, without the query of its URL.
    pub(super) fn shown(mut self) -> Self {
        self.url = shown_url(&self.url);
        self
    }

    fn holds(&self, now: Timestamp) -> bool {
        self.until_ms > now.as_millis()
    }

    fn instance(&self) -> Instance {
        Instance {
            url: self.url.clone(),
            form: Form::Own,
            types: self.types.iter().cloned().collect(),
            trust: Trust::Announced,
        }
    }
}

/// All announcements, by application name.
#[derive(Debug, Default)]
struct All(Vec<(String, Announced)>);

impl Contents for All {
    fn read(documents: Vec<Document>) -> Result<Self> {
        let mut all = Vec::new();
        for document in documents {
            match serde_json::from_str::<Announced>(&document.body) {
                Ok(announced) if announced.v <= VERSION => all.push((document.name, announced)),
                Ok(_) => {}
                Err(error) => {
                    error!(name = document.name, %error, "cannot read an announcement");
                }
            }
        }
        Ok(Self(all))
    }
}

impl All {
    fn holding(&self, now: Timestamp) -> impl Iterator<Item = &(String, Announced)> {
        self.0.iter().filter(move |(_, one)| one.holds(now))
    }
}

/// The instances whose announcements have not expired.
#[derive(Debug, Default)]
struct Holding {
    index: Arc<Index>,
    /// The earliest end of their announcements.
    ends_ms: i64,
}

/// The announced applications of a namespace, with a copy that is at most a second old.
#[derive(Debug)]
pub(super) struct Callees {
    all: FolderCache<All>,
    holding: RwLock<Holding>,
}

impl Callees {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            all: FolderCache::new(store, FOLDER),
            holding: RwLock::default(),
        }
    }

    fn holding(&self) -> RwLockReadGuard<'_, Holding> {
        self.holding.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads announcements again if one has changed, and drops expired ones.
    pub(super) async fn refresh(&self) -> Result<()> {
        let is_new = self.all.refresh().await?;
        let now = SystemClock.now();
        if is_new || self.holding().ends_ms <= now.as_millis() {
            self.sort_out(now);
        }
        Ok(())
    }

    fn sort_out(&self, now: Timestamp) {
        let all = self.all.get();
        let instances = all.holding(now).map(|(_, one)| Arc::new(one.instance()));
        let index = Arc::new(Index::new(instances));
        let ends = all.holding(now).map(|(_, one)| one.until_ms).min();
        let ends_ms = ends.unwrap_or(i64::MAX);
        let mut holding = self.holding.write().unwrap_or_else(PoisonError::into_inner);
        *holding = Holding { index, ends_ms };
    }

    /// The instances by type.
    pub(super) fn index(&self) -> Arc<Index> {
        Arc::clone(&self.holding().index)
    }

    /// Announcements that have not expired, by name.
    pub(super) async fn all(&self) -> Result<Vec<(String, Announced)>> {
        self.refresh().await?;
        let all = self.all.get();
        Ok(all.holding(SystemClock.now()).cloned().collect())
    }

    /// Stores an announcement, and removes some that expired long ago.
    pub(super) async fn put(&self, name: &str, announced: &Announced) -> Result<()> {
        let written = self.all.write(name, announced, Expected::Any).await?;
        if written == WriteOutcome::FolderFull {
            let reason = "10,000 applications have announced themselves in this namespace";
            return Err(Error::invalid("announcement", reason));
        }
        let now = SystemClock.now();
        self.sort_out(now);
        let all = self.all.get();
        let over = all.0.iter().filter(|(_, one)| !one.holds(now));
        for (name, _) in over.take(FORGOTTEN_AT_ONCE) {
            self.all.remove(name).await?;
        }
        Ok(())
    }

    /// Withdraws an announcement; returns true if it existed.
    pub(super) async fn remove(&self, name: &str) -> Result<bool> {
        let removed = self.all.remove(name).await?;
        self.sort_out(SystemClock.now());
        Ok(removed)
    }
}
