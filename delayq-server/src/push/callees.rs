//! Applications that announced themselves to a server, in the store of their namespace.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use delayq_plugin::store::{Expected, WriteOutcome};
use delayq_plugin::{Clock, Error, Result, Store, SystemClock, TaskType, Timestamp};
use serde::{Deserialize, Serialize};
use tracing::error;

use crate::discovery::{Form, Index, Instance, Trust};

/// The folder of documents that holds them.
const FOLDER: &str = "callees";
/// The version of the stored form, and the newest that is read.
const VERSION: u32 = 1;

/// An application as it announced itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announced {
    v: u32,
    /// Where it is called.
    pub(crate) url: String,
    /// The types that it serves.
    pub(crate) types: Vec<TaskType>,
    /// When the announcement ends, by the clock of the server that took it.
    pub(crate) until_ms: i64,
}

impl Announced {
    pub(crate) fn new(url: String, types: Vec<TaskType>, lease: Duration) -> Self {
        let until = SystemClock.now().plus(lease);
        Self {
            v: VERSION,
            url,
            types,
            until_ms: until.as_millis(),
        }
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

#[derive(Debug, Default)]
struct Copy {
    revision: u64,
    all: Vec<(String, Announced)>,
    index: Arc<Index>,
    /// When the first announcement ends of those in the index.
    ends_ms: i64,
}

/// The applications of a namespace, with a copy that is never older than a second.
#[derive(Debug)]
pub(super) struct Callees {
    store: Arc<dyn Store>,
    copy: RwLock<Copy>,
}

impl Callees {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            copy: RwLock::default(),
        }
    }

    /// Reads them again if one has changed, and leaves out those whose time is over.
    pub(super) async fn refresh(&self) -> Result<()> {
        let revision = self.store.folder_revision(FOLDER).await?;
        let now = SystemClock.now();
        let (is_new, has_ended) = {
            let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
            (revision != copy.revision, copy.ends_ms <= now.as_millis())
        };
        if is_new {
            self.read().await?;
        } else if has_ended {
            let mut copy = self.copy.write().unwrap_or_else(PoisonError::into_inner);
            copy.sort_out(now);
        }
        Ok(())
    }

    async fn read(&self) -> Result<()> {
        let folder = self.store.folder(FOLDER).await?;
        let mut all = Vec::new();
        for document in folder.documents {
            match serde_json::from_str::<Announced>(&document.body) {
                Ok(announced) if announced.v <= VERSION => all.push((document.name, announced)),
                Ok(_) => {}
                Err(error) => error!(name = document.name, %error, "an application is unreadable"),
            }
        }
        let mut copy = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        copy.revision = folder.revision;
        copy.all = all;
        copy.sort_out(SystemClock.now());
        Ok(())
    }

    /// The instances of each type.
    pub(super) fn index(&self) -> Arc<Index> {
        let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&copy.index)
    }

    /// Those whose time is not over, by name.
    pub(super) async fn all(&self) -> Result<Vec<(String, Announced)>> {
        self.refresh().await?;
        let now = SystemClock.now();
        let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
        let all = copy.all.iter().filter(|(_, one)| one.holds(now));
        Ok(all.cloned().collect())
    }

    /// Stores an announcement, and forgets those that have long been over.
    pub(super) async fn put(&self, name: &str, announced: &Announced) -> Result<()> {
        let body = serde_json::to_string(announced).map_err(|error| Error::Serialize {
            reason: error.to_string(),
        })?;
        let written = self
            .store
            .write_document(FOLDER, name, &body, Expected::Any);
        if matches!(written.await?, WriteOutcome::FolderFull) {
            let reason = "10,000 applications have announced themselves in this namespace";
            return Err(Error::invalid("announcement", reason));
        }
        self.read().await?;
        let now = SystemClock.now();
        let over: Vec<_> = {
            let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
            let over = copy.all.iter().filter(|(_, one)| !one.holds(now));
            over.take(8).map(|(name, _)| name.clone()).collect()
        };
        for name in over {
            self.store.remove_document(FOLDER, &name).await?;
        }
        Ok(())
    }

    /// Takes an announcement back; whether there was one.
    pub(super) async fn remove(&self, name: &str) -> Result<bool> {
        let removed = self.store.remove_document(FOLDER, name).await?;
        self.read().await?;
        Ok(removed)
    }
}

impl Copy {
    fn sort_out(&mut self, now: Timestamp) {
        let holding = || self.all.iter().filter(|(_, one)| one.holds(now));
        let index = Index::new(holding().map(|(_, one)| Arc::new(one.instance())));
        let ends = holding().map(|(_, one)| one.until_ms).min();
        self.ends_ms = ends.unwrap_or(i64::MAX);
        self.index = Arc::new(index);
    }
}
