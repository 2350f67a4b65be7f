//! The places of all namespaces: in the store of the server, for all servers on it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use delayq_plugin::store::{Expected, WriteOutcome};
use delayq_plugin::{Error, Namespace, Result, Store};

use super::record::{Phase, PlaceRecord};

/// The folder of documents that holds the places, each under the name of its namespace.
const FOLDER: &str = "places";

/// The places as they were read last.
#[derive(Debug)]
pub(crate) struct PlaceBook {
    store: Arc<dyn Store>,
    pages: RwLock<Pages>,
}

#[derive(Clone, Debug, Default)]
struct Pages {
    revision: u64,
    places: HashMap<Namespace, Written>,
}

/// A place, and the revision that wrote it.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) place: PlaceRecord,
    pub(super) revision: u64,
}

impl PlaceBook {
    /// Reads the places.
    pub(crate) async fn open(store: Arc<dyn Store>) -> Result<Arc<Self>> {
        let book = Arc::new(Self {
            store,
            pages: RwLock::default(),
        });
        book.read().await?;
        Ok(book)
    }

    /// Reads what was changed by anybody; whether there was something.
    pub(crate) async fn refresh(&self) -> Result<bool> {
        let revision = self.store.folder_revision(FOLDER).await?;
        if revision == self.pages().revision {
            return Ok(false);
        }
        self.read().await?;
        Ok(true)
    }

    async fn read(&self) -> Result<()> {
        let folder = self.store.folder(FOLDER).await?;
        let mut places = HashMap::new();
        for document in folder.documents {
            let place: Result<PlaceRecord, _> = serde_json::from_str(&document.body);
            let place = place.ok().filter(|place| place.v <= PlaceRecord::VERSION);
            let Some(place) = place else {
                // Without it this server would use the wrong store.
                let name = document.name;
                let detail = "it is of a newer release, or damaged: start the newer release";
                return Err(Error::corrupt(format!("document {FOLDER}/{name}"), detail));
            };
            let written = Written {
                place,
                revision: document.revision,
            };
            places.insert(Namespace::new(document.name)?, written);
        }
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        // A read that took longer than a later one must not undo it.
        if folder.revision >= pages.revision {
            *pages = Pages {
                revision: folder.revision,
                places,
            };
        }
        Ok(())
    }

    fn pages(&self) -> std::sync::RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The namespaces that are being moved.
    pub(crate) fn moving(&self) -> Vec<Namespace> {
        let pages = self.pages();
        let moving = pages.places.iter();
        let moving = moving.filter(|(_, one)| one.place.phase != Phase::Done);
        moving.map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Where a namespace is, if it was ever moved.
    pub(super) fn place(&self, namespace: &Namespace) -> Option<Written> {
        self.pages().places.get(namespace).cloned()
    }

    /// Writes where a namespace is, unless somebody else did since `before`; whether it was.
    pub(super) async fn write(
        &self,
        namespace: &Namespace,
        place: &PlaceRecord,
        before: Option<u64>,
    ) -> Result<bool> {
        let body = serde_json::to_string(place).map_err(Error::serialize)?;
        let expected = before.map_or(Expected::Absent, Expected::Revision);
        let store = &self.store;
        let written = store.write_document(FOLDER, namespace.as_str(), &body, expected);
        let outcome = written.await?;
        self.read().await?;
        Ok(matches!(outcome, WriteOutcome::Written(_)))
    }
}
