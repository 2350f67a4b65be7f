//! A folder of documents: kept in the store for all servers, with a copy in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use delayq_core::documents::{Document, Expected, Folder, WriteOutcome};
use delayq_plugin::{Error, Result, Store};
use serde::Serialize;
use tracing::{error, warn};

/// How often a followed cache checks for changes by other servers.
const REFRESH: Duration = Duration::from_millis(400);

/// The parsed content of a folder.
pub trait Contents: Default + Send + Sync {
    /// Parses the documents. An unusable document is skipped, or fails the whole read.
    ///
    /// # Errors
    /// A document that must not be skipped is unusable; the copy stays unchanged.
    fn read(documents: Vec<Document>) -> Result<Self>;
}

/// A folder of a store, with a parsed copy in memory.
#[derive(Debug)]
pub struct FolderCache<T> {
    store: Arc<dyn Store>,
    folder: &'static str,
    /// The number of reads begun so far.
    begun: AtomicU64,
    copy: RwLock<Copy<T>>,
    /// The folder never moves to another store, so that its revision only grows.
    stays: bool,
    /// The store has lost the content of the folder.
    is_lost: AtomicBool,
}

#[derive(Debug, Default)]
struct Copy<T> {
    /// The number of the read that made this copy.
    number: u64,
    /// The revision of the folder.
    revision: u64,
    contents: Arc<T>,
}

impl<T: Contents> FolderCache<T> {
    /// An empty cache; call [`read`](Self::read) to fill it.
    pub fn new(store: Arc<dyn Store>, folder: &'static str) -> Self {
        Self {
            store,
            folder,
            begun: AtomicU64::new(0),
            copy: RwLock::default(),
            stays: false,
            is_lost: AtomicBool::new(false),
        }
    }

    /// The same for a folder that never moves to another store.
    #[must_use]
    pub fn staying(self) -> Self {
        Self {
            stays: true,
            ..self
        }
    }

    /// True from the moment when the store has lost the content of a folder that never moves, until
    /// it has content again.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// The content as of the last read.
    pub fn get(&self) -> Arc<T> {
        let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&copy.contents)
    }

    /// Reads the folder if it has changed; returns true if it had.
    ///
    /// # Errors
    /// Those of the store, and of a document that must not be skipped.
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

    /// The number of a new read.
    fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps the result of a read, unless a later read has already finished. Revisions cannot be
    /// compared: a namespace may have moved to a store with a lower revision.
    fn take_in(&self, number: u64, folder: Folder) -> Result<()> {
        let is_empty = folder.documents.is_empty();
        let contents = Arc::new(T::read(folder.documents)?);
        let mut copy = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        if number > copy.number {
            let (known, found) = (copy.revision, folder.revision);
            if self.stays && found < known {
                error!(
                    folder = self.folder,
                    known,
                    found,
                    "the store has lost data: its revision has gone back, as that of an emptied \
                     store or of an older copy would"
                );
            }
            let is_lost = is_empty && (self.is_lost() || self.stays && found < known);
            self.is_lost.store(is_lost, Ordering::Relaxed);
            *copy = Copy {
                number,
                revision: folder.revision,
                contents,
            };
        }
        Ok(())
    }

    /// Writes a document and reads the folder again.
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

    /// Removes a document and reads the folder again; returns true if the document existed.
    ///
    /// # Errors
    /// As of [`refresh`](Self::refresh).
    pub async fn remove(&self, name: &str) -> Result<bool> {
        let removed = self.store.remove_document(self.folder, name).await?;
        self.read().await?;
        Ok(removed)
    }

    /// Follows changes by other servers; never returns.
    pub async fn follow(&self) {
        let mut is_lost = false;
        loop {
            let refreshed = self.refresh().await;
            match &refreshed {
                Err(error) if !is_lost => {
                    warn!(
                        %error,
                        folder = self.folder,
                        "cannot reload a folder; changes by other servers have no effect yet"
                    );
                }
                _ => {}
            }
            is_lost = refreshed.is_err();
            tokio::time::sleep(REFRESH).await;
        }
    }
}

/// Writes a document unless it exists, and returns its body, which another server may have written.
///
/// # Errors
/// Those of the store; `Corrupt` if the document is removed meanwhile.
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
