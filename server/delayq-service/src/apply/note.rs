//! Notes of what a state has made. They are in the store of the server, and tell what a later apply
//! of the same state may remove.

use std::collections::BTreeMap;
use std::sync::Arc;

use delayq_core::documents::{Expected, MAX_DOCUMENTS, WriteOutcome};
use delayq_plugin::{Error, Store};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::content::digest;
use super::item::{Deed, Item, TokenDeed};
use super::{Change, Key, Kind, Refusal};

/// The folder of notes.
const FOLDER: &str = "applied";
/// The version of the stored form, and the newest that this release reads.
const VERSION: u32 = 1;

/// A note of one thing. It is written before the thing is made, and again once it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    v: u32,
    /// The name of the state that made it.
    owner: String,
    pub(super) key: Key,
    /// The digest of its value as it is made. Somebody else may have changed it since.
    value: String,
    /// The id of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// The digest of the secret that was written to a file for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// What was begun, and is not known to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun: Option<Begun>,
}

/// What an apply has begun to do with a thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Begun {
    /// It gets its value. `before` is the print of what it had.
    Making { before: Option<String> },
    /// It is removed, in several steps.
    Removing,
}

impl Note {
    /// True if a value with this print is one that the state made. What was begun may have ended
    /// anywhere.
    pub(super) fn is_of(&self, print: &str) -> bool {
        match &self.begun {
            Some(Begun::Removing) => true,
            Some(Begun::Making { before }) if before.as_deref() == Some(print) => true,
            _ => self.value == print,
        }
    }

    /// True if this is the secret that was written to a file for it.
    pub(super) fn has_secret(&self, text: &str) -> bool {
        self.secret.as_deref() == Some(digest(text).as_str())
    }

    /// The digest of the secret that was written to a file for it.
    pub(super) fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }
}

/// The notes of one state.
#[derive(Debug)]
pub(super) struct Notes {
    store: Arc<dyn Store>,
    owner: String,
    known: BTreeMap<Key, (Note, u64)>,
    /// The owners of things that other states made.
    others: BTreeMap<Key, String>,
    /// The number of all notes.
    count: usize,
}

impl Notes {
    /// Reads the notes of a state.
    pub(super) async fn read(store: &Arc<dyn Store>, owner: &str) -> Result<Self, Refusal> {
        let folder = store.folder(FOLDER).await?;
        let (mut known, mut others) = (BTreeMap::new(), BTreeMap::new());
        let count = folder.documents.len();
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
                Ok(note) => drop(others.insert(note.key, note.owner)),
                Err(error) => warn!(name, %error, "cannot read a note of an apply; left alone"),
            }
        }
        Ok(Self {
            store: Arc::clone(store),
            owner: owner.to_owned(),
            known,
            others,
            count,
        })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Note> {
        self.known.values().map(|(note, _)| note)
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Note> {
        self.known.get(key).map(|(note, _)| note)
    }

    /// Refuses things that another state has made, and more things than there is room for.
    pub(super) fn check(&self, items: &[Item]) -> Result<(), Refusal> {
        for item in items {
            if let Some(owner) = self.others.get(&item.key) {
                let text = format!(
                    "the state {owner:?} has made it, and would change it back: declare it in one \
                     of both, and apply the other with --prune first"
                );
                return Err(Refusal::at(&item.key, text));
            }
        }
        let is_new = |item: &&Item| self.is_own(item) && self.get(&item.key).is_none();
        if self.count + items.iter().filter(is_new).count() > MAX_DOCUMENTS {
            return Err(too_many());
        }
        Ok(())
    }

    /// True if what is done makes or changes a thing of the state. A number of shards is never
    /// lowered, and so has no note.
    pub(super) fn is_own(&self, item: &Item) -> bool {
        let is_made = item.change == Change::Created || self.known.contains_key(&item.key);
        item.key.kind != Kind::Shards && is_made
    }

    fn name(&self, key: &Key) -> String {
        let kind = serde_json::to_string(&key.kind).unwrap_or_default();
        let parts = [&self.owner, &kind, &key.namespace, &key.name];
        digest(parts.map(String::as_str).join("\n"))
    }

    /// Writes the note of a thing before it is made, changed or removed. Of two that apply the same
    /// state at once, one is refused.
    pub(super) async fn begin(&mut self, item: &Item) -> Result<(), Refusal> {
        let known = self.get(&item.key);
        let id = match &item.deed {
            Deed::Token(TokenDeed::Create { id, .. } | TokenDeed::Change { id, .. }) => {
                Some(id.clone())
            }
            _ => known.and_then(|known| known.id.clone()),
        };
        let secret = item.secret.as_ref().map(|secret| digest(&secret.text));
        let secret = secret.or_else(|| known.and_then(|known| known.secret.clone()));
        let (value, begun) = match &item.after {
            Some(after) => {
                let before = item.before.clone();
                (after.clone(), Begun::Making { before })
            }
            None => (
                known.map(|known| known.value.clone()).unwrap_or_default(),
                Begun::Removing,
            ),
        };
        self.write(Note {
            v: VERSION,
            owner: self.owner.clone(),
            key: item.key.clone(),
            value,
            id,
            secret,
            begun: Some(begun),
        })
        .await
    }

    /// Writes down that a thing is as its note says.
    pub(super) async fn end(&mut self, key: &Key) -> Result<(), Refusal> {
        match self.get(key).cloned() {
            Some(note) if note.begun.is_some() => {
                self.write(Note {
                    begun: None,
                    ..note
                })
                .await
            }
            _ => Ok(()),
        }
    }

    /// The same, if it was not known and the thing has this print.
    pub(super) async fn end_if(&mut self, key: &Key, print: Option<&str>) -> Result<(), Refusal> {
        let is_so = self
            .get(key)
            .is_some_and(|note| Some(note.value.as_str()) == print);
        if is_so { self.end(key).await } else { Ok(()) }
    }

    async fn write(&mut self, note: Note) -> Result<(), Refusal> {
        let expected = match self.known.get(&note.key) {
            Some((known, _)) if *known == note => return Ok(()),
            Some((_, revision)) => Expected::Revision(*revision),
            None => Expected::Absent,
        };
        let body = serde_json::to_string(&note).map_err(Error::serialize)?;
        let name = self.name(&note.key);
        let written = self.store.write_document(FOLDER, &name, &body, expected);
        match written.await? {
            WriteOutcome::Written(revision) => {
                self.known.insert(note.key.clone(), (note, revision));
                Ok(())
            }
            WriteOutcome::Conflict(_) => {
                let text = "the same state is applied by somebody else now: wait, then repeat it";
                Err(Refusal::new(text))
            }
            WriteOutcome::FolderFull => Err(too_many()),
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

fn too_many() -> Refusal {
    let text = "the store has notes of 10,000 things made by apply: use patterns, or remove some \
                with --prune";
    Refusal::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::Kind;

    fn note(begun: Option<Begun>) -> Note {
        let (namespace, name) = ("default".to_owned(), "mail".to_owned());
        let kind = Kind::Policy;
        Note {
            v: VERSION,
            owner: "shop".to_owned(),
            key: Key {
                kind,
                namespace,
                name,
            },
            value: "new".to_owned(),
            id: None,
            secret: Some(digest("told")),
            begun,
        }
    }

    #[test]
    fn what_was_begun_is_of_the_state_wherever_it_ended() {
        let making = |before: &str| {
            let before = Some(before.to_owned());
            note(Some(Begun::Making { before }))
        };
        assert!(note(None).is_of("new") && !note(None).is_of("old"));
        assert!(making("old").is_of("new") && making("old").is_of("old"));
        assert!(!making("old").is_of("other"));
        assert!(note(Some(Begun::Removing)).is_of("other"));
        assert!(note(None).has_secret("told") && !note(None).has_secret("other"));
    }

    #[test]
    fn the_stored_form_stays_readable() {
        let text = r#"{"v":1,"owner":"shop","key":{"kind":"policy","namespace":"default","name":"mail"},"value":"new","secret":"SECRET","begun":{"making":{"before":"old"}}}"#;
        let text = text.replace("SECRET", &digest("told"));
        let before = Some("old".to_owned());
        let written = note(Some(Begun::Making { before }));
        assert_eq!(serde_json::to_string(&written).unwrap(), text);
        assert_eq!(serde_json::from_str::<Note>(&text).unwrap(), written);
        let least = r#"{"v":1,"owner":"shop","key":{"kind":"policy","namespace":"default","name":"mail"},"value":"new"}"#;
        let read: Note = serde_json::from_str(least).unwrap();
        assert!(read.is_of("new") && read.begun.is_none());
    }
}
