//! What is kept of tokens, for all servers: in the store, and a copy here.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use delayq_plugin::store::{Expected, WriteOutcome};
use delayq_plugin::{Error, Result, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::token_key::TokenKey;

/// The version of the stored form.
const VERSION: u32 = 1;
/// How often a change by others is looked for. With it a revoked token is refused everywhere within
/// a second.
const REFRESH: Duration = Duration::from_millis(400);

/// Records of one kind, each of one token.
#[derive(Debug)]
pub(super) struct Book<T> {
    store: Arc<dyn Store>,
    folder: &'static str,
    pages: RwLock<Pages<T>>,
}

#[derive(Debug)]
struct Pages<T> {
    revision: u64,
    records: BTreeMap<TokenKey, T>,
}

/// The stored form of a record.
#[derive(Debug, Serialize, Deserialize)]
struct Record<T> {
    v: u32,
    key: TokenKey,
    value: T,
}

impl<T: Clone + Serialize + DeserializeOwned> Book<T> {
    /// The records of a folder; they are read when they are first asked for.
    pub(super) fn new(store: Arc<dyn Store>, folder: &'static str) -> Self {
        let pages = Pages {
            revision: 0,
            records: BTreeMap::new(),
        };
        Self {
            store,
            folder,
            pages: RwLock::new(pages),
        }
    }

    fn pages(&self) -> RwLockReadGuard<'_, Pages<T>> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for changes, for ever.
    pub(super) async fn follow(&self) {
        let mut is_lost = false;
        loop {
            let refreshed = self.refresh().await;
            match &refreshed {
                Err(error) if !is_lost => {
                    warn!(%error, folder = self.folder, "changes of tokens are not heard");
                }
                _ => {}
            }
            is_lost = refreshed.is_err();
            tokio::time::sleep(REFRESH).await;
        }
    }

    /// Reads what was changed by anybody.
    pub(super) async fn refresh(&self) -> Result<()> {
        let revision = self.store.folder_revision(self.folder).await?;
        if revision == self.pages().revision {
            return Ok(());
        }
        let folder = self.store.folder(self.folder).await?;
        let mut records = BTreeMap::new();
        for document in folder.documents {
            match serde_json::from_str::<Record<T>>(&document.body) {
                Ok(record) if record.v <= VERSION => {
                    records.insert(record.key, record.value);
                }
                Ok(_) => warn!(name = document.name, "a record of a newer release: ignored"),
                Err(error) => error!(name = document.name, %error, "a record is unreadable"),
            }
        }
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        *pages = Pages {
            revision: folder.revision,
            records,
        };
        Ok(())
    }

    /// The record of a token, as it was read last.
    pub(super) fn get(&self, key: &TokenKey) -> Option<T> {
        self.pages().records.get(key).cloned()
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
        let pages = self.pages();
        let wanted = pages.records.iter().filter(|(key, _)| is_wanted(key));
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
        let body = serde_json::to_string(&record).map_err(|error| Error::Serialize {
            reason: error.to_string(),
        })?;
        let (name, any) = (key.document(), Expected::Any);
        let written = self.store.write_document(self.folder, &name, &body, any);
        if written.await? == WriteOutcome::FolderFull {
            let reason = "there are 10,000: remove some".to_owned();
            return Err(Error::InvalidInput {
                what: "token",
                reason,
            });
        }
        self.refresh().await
    }

    /// Removes a record, if there is one.
    pub(super) async fn remove(&self, key: &TokenKey) -> Result<()> {
        let name = key.document();
        self.store.remove_document(self.folder, &name).await?;
        self.refresh().await
    }
}
