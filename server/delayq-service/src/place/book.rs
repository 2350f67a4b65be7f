//! The places of all namespaces: kept in the server's own store for all servers, with a copy in
//! memory.

use std::collections::HashMap;
use std::sync::Arc;

use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_plugin::{Error, Namespace, Result, Store};

use super::record::{Phase, PlaceRecord};
use crate::folder_cache::{Contents, FolderCache};

/// The folder of place documents; each is named after its namespace.
const FOLDER: &str = "places";

/// The places as of the last read.
#[derive(Debug)]
pub struct PlaceBook(FolderCache<Places>);

#[derive(Debug, Default)]
struct Places(HashMap<Namespace, Written>);

/// A place, and the revision of its document.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) place: PlaceRecord,
    pub(super) revision: u64,
}

impl Contents for Places {
    fn read(documents: Vec<Document>) -> Result<Self> {
        let mut places = HashMap::new();
        for document in documents {
            let place: Result<PlaceRecord, _> = serde_json::from_str(&document.body);
            let place = place.ok().filter(|place| place.v <= PlaceRecord::VERSION);
            let Some(place) = place else {
                // Without this record the server would use the wrong store.
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
        Ok(Self(places))
    }
}

impl PlaceBook {
    /// Opens the book and reads all places.
    pub async fn open(store: Arc<dyn Store>) -> Result<Arc<Self>> {
        let places = FolderCache::new(store, FOLDER);
        places.read().await?;
        Ok(Arc::new(Self(places)))
    }

    /// Reads changes by other servers; returns true if there were any.
    pub async fn refresh(&self) -> Result<bool> {
        self.0.refresh().await
    }

    /// The namespaces that are being moved.
    pub fn moving(&self) -> Vec<Namespace> {
        let places = self.0.get();
        let moving = places.0.iter();
        let moving = moving.filter(|(_, one)| one.place.phase != Phase::Done);
        moving.map(|(namespace, _)| namespace.clone()).collect()
    }

    /// The place of a namespace, if it was ever moved.
    pub(super) fn place(&self, namespace: &Namespace) -> Option<Written> {
        self.0.get().0.get(namespace).cloned()
    }

    /// Writes the place of a namespace, unless another server has changed it since `before`;
    /// returns true if written.
    pub(super) async fn write(
        &self,
        namespace: &Namespace,
        place: &PlaceRecord,
        before: Option<u64>,
    ) -> Result<bool> {
        let expected = before.map_or(Expected::Absent, Expected::Revision);
        let outcome = self.0.write(namespace.as_str(), place, expected).await?;
        Ok(matches!(outcome, WriteOutcome::Written(_)))
    }
}
