//! Notes of what a state has made. They are in the store of the server, and tell what a later apply
//! of the same state may remove.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq_core::documents::{Expected, WriteOutcome};
use delayq_plugin::{Error, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tracing::warn;

use super::{Key, Refusal};

/// The folder of notes.
const FOLDER: &str = "applied";
/// The version of the stored form, and the newest that this release reads.
const VERSION: u32 = 1;

/// A note of one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    v: u32,
    /// The name of the state that made it.
    owner: String,
    pub(super) key: Key,
    /// The digest of its value as it was made. Somebody else may have changed it since.
    value: String,
    /// The id of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
}

impl Note {
    /// True if a value is the one that was made.
    pub(super) fn is_of(&self, value: &Value) -> bool {
        self.value == digest(value.to_string())
    }
}

/// The notes of one state.
#[derive(Debug)]
pub(super) struct Notes {
    store: Arc<dyn Store>,
    owner: String,
    known: BTreeMap<Key, (Note, u64)>,
}

fn digest(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

impl Notes {
    /// Reads the notes of a state.
    pub(super) async fn read(store: &Arc<dyn Store>, owner: &str) -> Result<Self, Refusal> {
        let folder = store.folder(FOLDER).await?;
        let mut known = BTreeMap::new();
        for document in folder.documents {
            let name = &document.name;
            match serde_json::from_str::<Note>(&document.body) {
                Ok(note) if note.v > VERSION => {
                    warn!(
                        name,
                        "a newer release wrote this note of an apply; left alone"
                    );
                }
                Ok(note) if note.owner == owner => {
                    known.insert(note.key.clone(), (note, document.revision));
                }
                Ok(_) => {}
                Err(error) => warn!(name, %error, "cannot read a note of an apply; left alone"),
            }
        }
        Ok(Self {
            store: Arc::clone(store),
            owner: owner.to_owned(),
            known,
        })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Note> {
        self.known.values().map(|(note, _)| note)
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.known.contains_key(key)
    }

    fn name(&self, key: &Key) -> String {
        let kind = serde_json::to_string(&key.kind).unwrap_or_default();
        let parts = [&self.owner, &kind, &key.namespace, &key.name];
        digest(parts.map(String::as_str).join("\n"))
    }

    /// Writes the note of a thing before it is made. Of two that apply the same state at once, one
    /// is refused.
    pub(super) async fn write(
        &mut self,
        key: &Key,
        value: &Value,
        id: Option<String>,
    ) -> Result<(), Refusal> {
        let note = Note {
            v: VERSION,
            owner: self.owner.clone(),
            key: key.clone(),
            value: digest(value.to_string()),
            id,
        };
        let expected = match self.known.get(key) {
            Some((known, _)) if *known == note => return Ok(()),
            Some((_, revision)) => Expected::Revision(*revision),
            None => Expected::Absent,
        };
        let body = serde_json::to_string(&note).map_err(Error::serialize)?;
        let name = self.name(key);
        let written = self.store.write_document(FOLDER, &name, &body, expected);
        match written.await? {
            WriteOutcome::Written(revision) => {
                self.known.insert(key.clone(), (note, revision));
                Ok(())
            }
            WriteOutcome::Conflict(_) => {
                let text = "the same state is applied by somebody else now: wait, then repeat it";
                Err(Refusal::new(text))
            }
            WriteOutcome::FolderFull => {
                let text = "the store has notes of 10,000 things made by apply: use patterns, or \
                            remove some with --prune";
                Err(Refusal::new(text))
            }
        }
    }

    /// Removes the note of a thing that is gone.
    pub(super) async fn remove(&mut self, key: &Key) -> Result<(), Refusal> {
        if self.known.remove(key).is_some() {
            let name = self.name(key);
            self.store.remove_document(FOLDER, &name).await?;
        }
        Ok(())
    }
}
