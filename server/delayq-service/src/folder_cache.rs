//! A folder of documents: in a store, for all servers on it, and a copy here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use delayq_core::documents::{Document, Expected, Folder, WriteOutcome};
use delayq_plugin::{Error, Result, Store};
use serde::Serialize;
use tracing::warn;

/// How often a cache that is followed looks for changes by other servers.
const REFRESH: Duration = Duration::from_millis(400);

/// What the documents of a folder say.
pub trait Contents: Default + Send + Sync {
    /// Reads the documents. One that cannot be used is left out, or fails all.
    ///
    /// # Errors
    /// Those of a document that must not be left out: the copy stays as it is.
    fn read(documents: Vec<Document>) -> Result<Self>;
}

/// A folder of a store, with a copy of what it says.
#[derive(Debug)]
pub struct FolderCache<T> {
    store: Arc<dyn Store>,
    folder: &'static str,
    /// Reads that have begun.
    begun: AtomicU64,
    copy: RwLock<Copy<T>>,
}

#[derive(Debug, Default)]
struct Copy<T> {
    /// The number of the read that it is of.
    number: u64,
    /// The revision of the folder.
    revision: u64,
    contents: Arc<T>,
}

impl<T: Contents> FolderCache<T> {
    /// A cache that is empty until it is read.
    pub fn new(store: Arc<dyn Store>, folder: &'static str) -> Self {
        Self {
            store,
            folder,
            begun: AtomicU64::new(0),
            copy: RwLock::default(),
        }
    }

    /// What the folder said when it was last read.
    pub fn get(&self) -> Arc<T> {
        let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&copy.contents)
    }

    /// Reads the folder if it has changed; whether it has.
    ///
    /// # Errors
    /// Those of the store, and of a document that must not be left out.
    pub async fn refresh(&self) -> Result<bool> {
        let revision = self.store.folder_revision(self.folder).await?;
        let known = {
            let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
            copy.revision
        };
        if revision == known {
            return Ok(false);
        }
        self.read().await?;
        Ok(true)
    }

    /// Reads the folder.
    ///
    /// # Errors
    /// As of [`refresh`](Self::refresh).
    pub async fn read(&self) -> Result<()> {
        let number = self.begin();
        let folder = self.store.folder(self.folder).await?;
        self.take_in(number, folder)
    }

    /// The number of a read that begins now.
    fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps what a read has found, unless one that began later has ended. Its revision says
    /// nothing: that of the store that a namespace was moved to may be lower.
    fn take_in(&self, number: u64, folder: Folder) -> Result<()> {
        let contents = Arc::new(T::read(folder.documents)?);
        let mut copy = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        if number > copy.number {
            *copy = Copy {
                number,
                revision: folder.revision,
                contents,
            };
        }
        Ok(())
    }

    /// Writes a document, and reads the folder.
    ///
    /// # Errors
    /// As of [`refresh`](Self::refresh).
    pub async fn write(
        &self,
        name: &str,
        document: &impl Serialize,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        let body = serde_json::to_string(document).map_err(Error::serialize)?;
        let written = self
            .store
            .write_document(self.folder, name, &body, expected)
            .await?;
        self.read().await?;
        Ok(written)
    }

    /// Removes a document, and reads the folder; whether there was one.
    ///
    /// # Errors
    /// As of [`refresh`](Self::refresh).
    pub async fn remove(&self, name: &str) -> Result<bool> {
        let removed = self.store.remove_document(self.folder, name).await?;
        self.read().await?;
        Ok(removed)
    }

    /// Follows the changes that other servers make, for ever.
    pub async fn follow(&self) {
        let mut is_lost = false;
        loop {
            let refreshed = self.refresh().await;
            match &refreshed {
                Err(error) if !is_lost => {
                    warn!(%error, folder = self.folder, "cannot read changes by other servers");
                }
                _ => {}
            }
            is_lost = refreshed.is_err();
            tokio::time::sleep(REFRESH).await;
        }
    }
}

/// What a document says, which is `body` unless it was written before: by another server, perhaps.
///
/// # Errors
/// Those of the store; `Corrupt` if somebody removes the document meanwhile.
pub async fn kept(store: &dyn Store, folder: &str, name: &str, body: String) -> Result<String> {
    let written = store.write_document(folder, name, &body, Expected::Absent);
    if let WriteOutcome::Written(_) = written.await? {
        return Ok(body);
    }
    let documents = store.folder(folder).await?.documents;
    let found = documents.into_iter().find(|document| document.name == name);
    let gone = || Error::corrupt(format!("{folder}/{name}"), "it has gone");
    found.map(|document| document.body).ok_or_else(gone)
}

#[cfg(test)]
mod tests {
    use delayq_core::Documents as _;
    use delayq_plugin::store::MemoryStore;

    use super::*;

    /// The names of the documents.
    #[derive(Debug, Default)]
    struct Names(Vec<String>);

    impl Contents for Names {
        fn read(documents: Vec<Document>) -> Result<Self> {
            let names = documents.into_iter().map(|document| document.name);
            Ok(Self(names.collect()))
        }
    }

    #[tokio::test]
    async fn a_read_that_ends_late_does_not_undo_a_later_one() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let cache: FolderCache<Names> = FolderCache::new(Arc::clone(&store), "tokens");
        let any = Expected::Any;
        let _ = cache.write("revoked", &(), any).await.unwrap();
        let slow = cache.begin();
        let seen_by_slow = store.folder("tokens").await.unwrap();
        assert!(cache.remove("revoked").await.unwrap());
        cache.take_in(slow, seen_by_slow).unwrap();
        assert_eq!(cache.get().0, [""; 0], "it is revoked");
        assert!(!cache.refresh().await.unwrap());
    }

    #[tokio::test]
    async fn a_folder_that_begins_anew_in_another_store_is_taken_in() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let cache: FolderCache<Names> = FolderCache::new(Arc::clone(&store), "targets");
        for name in ["a", "b", "c"] {
            let _ = cache.write(name, &(), Expected::Any).await.unwrap();
        }
        let other = MemoryStore::default();
        let written = other.write_document("targets", "d", "null", Expected::Any);
        let _ = written.await.unwrap();
        let moved = other.folder("targets").await.unwrap();
        let number = cache.begin();
        cache.take_in(number, moved).unwrap();
        assert_eq!(cache.get().0, ["d"]);
    }
}
