//! What is kept of tokens, for all servers: in the store, and a copy here.

use std::collections::BTreeMap;
use std::sync::Arc;

use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_plugin::{Error, Result, Store};
use delayq_service::folder_cache::{Contents, FolderCache};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::token_key::TokenKey;

/// The version of the stored form.
const VERSION: u32 = 1;

/// Records of one kind, each of one token. One that is removed is gone everywhere within a second.
#[derive(Debug)]
pub(super) struct Book<T>(FolderCache<Records<T>>);

/// What a value of a record is.
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
struct Record<T> {
    v: u32,
    key: TokenKey,
    value: T,
}

impl<T: Value> Contents for Records<T> {
    fn read(documents: Vec<Document>) -> Result<Self> {
        let mut records = BTreeMap::new();
        for document in documents {
            match serde_json::from_str::<Record<T>>(&document.body) {
                Ok(record) if record.v <= VERSION => {
                    records.insert(record.key, record.value);
                }
                Ok(_) => warn!(name = document.name, "a record of a newer release: ignored"),
                Err(error) => error!(name = document.name, %error, "a record is unreadable"),
            }
        }
        Ok(Self(records))
    }
}

impl<T: Value> Book<T> {
    /// The records of a folder; they are read when they are first asked for.
    pub(super) fn new(store: Arc<dyn Store>, folder: &'static str) -> Self {
        Self(FolderCache::new(store, folder))
    }

    /// Looks for changes, for ever.
    pub(super) async fn follow(&self) {
        self.0.follow().await;
    }

    /// Reads what was changed by anybody.
    pub(super) async fn refresh(&self) -> Result<()> {
        self.0.refresh().await.map(drop)
    }

    /// The record of a token, as it was read last.
    pub(super) fn get(&self, key: &TokenKey) -> Option<T> {
        self.0.get().0.get(key).cloned()
    }

    /// The record of a token; one that is not known here may have been made elsewhere just now.
    pub(super) async fn find(&self, key: &TokenKey) -> Result<Option<T>> {
        let known = self.get(key);
        if known.is_some() {
            return Ok(known);
        }
        self.refresh().await?;
        Ok(self.get(key))
    }

    /// All records that fulfil a condition.
    pub(super) fn all(&self, is_wanted: impl Fn(&TokenKey) -> bool) -> Vec<(TokenKey, T)> {
        let records = self.0.get();
        let wanted = records.0.iter().filter(|(key, _)| is_wanted(key));
        wanted
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Keeps a record in the place of an earlier one.
    pub(super) async fn put(&self, key: &TokenKey, value: &T) -> Result<()> {
        let record = Record {
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

    /// Removes a record, if there is one.
    pub(super) async fn remove(&self, key: &TokenKey) -> Result<()> {
        self.0.remove(&key.document()).await.map(drop)
    }
}
