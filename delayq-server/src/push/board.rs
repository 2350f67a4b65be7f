//! Targets of a namespace: in its store, and a copy here that is never older than a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use delayq_plugin::store::{Expected, WriteOutcome};
use delayq_plugin::{Error, Namespace, Result, Store, TaskType, TypePattern};
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::callees::Callees;
use super::seal::{Sealer, Seals};
use super::{Courier, Target};
use crate::discovery::Instance;

/// The folder of documents that holds the targets.
const FOLDER: &str = "targets";
/// What the names of documents begin with that say of a type that its tasks have own targets.
const OWN: &str = "o:";
/// The version of the stored form, and the newest that is read.
const VERSION: u32 = 1;

/// The stored form.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    v: u32,
    /// `None` of a type whose tasks have targets of their own.
    target: Option<Target>,
}

/// Types and patterns, each with its target.
pub(super) type Targets = BTreeMap<TypePattern, Arc<Target>>;

#[derive(Debug, Default)]
struct Copy {
    revision: u64,
    targets: Arc<Targets>,
    /// Types whose tasks have targets of their own, be there another one for the type or not.
    own: Arc<BTreeSet<TaskType>>,
}

/// The targets of a namespace.
#[derive(Debug)]
pub(crate) struct Board {
    pub(super) namespace: Namespace,
    pub(super) courier: Arc<Courier>,
    pub(super) store: Arc<dyn Store>,
    pub(super) callees: Callees,
    copy: RwLock<Copy>,
    pub(super) seals: Arc<Seals>,
}

impl Board {
    pub(super) fn new(store: Arc<dyn Store>, namespace: Namespace, courier: Arc<Courier>) -> Self {
        let seals = Seals::new(Arc::clone(&store), namespace.clone());
        Self {
            namespace,
            courier,
            callees: Callees::new(Arc::clone(&store)),
            store,
            copy: RwLock::default(),
            seals: Arc::new(seals),
        }
    }

    fn copy(&self) -> RwLockReadGuard<'_, Copy> {
        self.copy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instances that serve a type, in the order to ask them.
    pub(super) fn instances(&self, task_type: &TaskType) -> Vec<Arc<Instance>> {
        let discovery = &self.courier.services.discovery;
        let mut instances = self.callees.index().of(task_type).to_vec();
        if discovery.is_for(&self.namespace) {
            instances.extend_from_slice(discovery.index().of(task_type));
        }
        discovery.ordered(instances)
    }

    /// The types that there are instances for.
    pub(super) fn announced_types(&self) -> BTreeSet<TaskType> {
        let discovery = &self.courier.services.discovery;
        let mut types: BTreeSet<_> = self.callees.index().types().cloned().collect();
        if discovery.is_for(&self.namespace) {
            types.extend(discovery.types());
        }
        types
    }

    /// Reads the targets again if one has changed.
    pub(super) async fn refresh(&self) -> Result<()> {
        let revision = self.store.folder_revision(FOLDER).await?;
        if revision == self.copy().revision {
            return Ok(());
        }
        self.read().await
    }

    async fn read(&self) -> Result<()> {
        let folder = self.store.folder(FOLDER).await?;
        let (mut targets, mut own) = (Targets::new(), BTreeSet::new());
        for document in folder.documents {
            let name = &document.name;
            if let Some(task_type) = name
                .strip_prefix(OWN)
                .and_then(|name| TaskType::new(name).ok())
            {
                own.insert(task_type);
                continue;
            }
            let Some(pattern) = pattern_of(name) else {
                error!(name, "this is no name of a target: not pushed");
                continue;
            };
            match serde_json::from_str::<Stored>(&document.body) {
                Ok(stored) if stored.v <= VERSION => {
                    if let Some(target) = stored.target {
                        targets.insert(pattern, Arc::new(target));
                    }
                }
                Ok(_) => warn!(%pattern, "a target of a newer release: not pushed here"),
                Err(error) => error!(%pattern, %error, "a target is unreadable: not pushed"),
            }
        }
        let mut copy = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        // Also an older revision: that of the store that the namespace was moved to.
        *copy = Copy {
            revision: folder.revision,
            targets: Arc::new(targets),
            own: Arc::new(own),
        };
        Ok(())
    }

    /// All targets.
    pub(super) fn all(&self) -> Arc<Targets> {
        Arc::clone(&self.copy().targets)
    }

    /// The types whose tasks have targets of their own.
    pub(super) fn own(&self) -> Arc<BTreeSet<TaskType>> {
        Arc::clone(&self.copy().own)
    }

    /// The target of a type: its own, else that of the longest pattern.
    pub(super) fn of_type(&self, task_type: &TaskType) -> Option<Arc<Target>> {
        let targets = self.all();
        let matching = targets.iter().filter(|(one, _)| one.matches(task_type));
        let (_, target) = matching.max_by_key(|(pattern, _)| pattern.rank())?;
        Some(Arc::clone(target))
    }

    /// The target that is stored for a pattern, as of now.
    pub(super) async fn stored(&self, pattern: &TypePattern) -> Result<Option<Arc<Target>>> {
        self.refresh().await?;
        Ok(self.all().get(pattern).cloned())
    }

    /// Stores a target.
    pub(super) async fn write(&self, pattern: &TypePattern, target: Target) -> Result<()> {
        self.put(&name_of(pattern), Some(target), Expected::Any)
            .await
    }

    /// Has the tasks of a type pushed that have targets of their own, from now on and whatever
    /// becomes of the target of the type.
    pub(super) async fn push_own_of(&self, task_type: &TaskType) -> Result<()> {
        if self.own().contains(task_type) {
            return Ok(());
        }
        self.refresh().await?;
        if self.own().contains(task_type) {
            return Ok(());
        }
        let name = format!("{OWN}{task_type}");
        match self.put(&name, None, Expected::Absent).await {
            // As long as the type has a target its tasks are pushed.
            Err(Error::InvalidInput { .. }) if self.of_type(task_type).is_some() => Ok(()),
            put => put,
        }
    }

    async fn put(&self, name: &str, target: Option<Target>, expected: Expected) -> Result<()> {
        let stored = Stored { v: VERSION, target };
        let body = serde_json::to_string(&stored).map_err(|error| Error::Serialize {
            reason: error.to_string(),
        })?;
        let written = self.store.write_document(FOLDER, name, &body, expected);
        match written.await? {
            WriteOutcome::Written(_) | WriteOutcome::Conflict(_) => self.read().await,
            WriteOutcome::FolderFull => Err(Error::InvalidInput {
                what: "target",
                reason:
                    "there are 10,000 in this namespace, types with own targets among them: use \
                         a pattern"
                        .to_owned(),
            }),
        }
    }

    /// Removes a target; whether there was one.
    pub(super) async fn remove(&self, pattern: &TypePattern) -> Result<bool> {
        let removed = self
            .store
            .remove_document(FOLDER, &name_of(pattern))
            .await?;
        self.read().await?;
        Ok(removed)
    }

    /// What seals the targets of tasks.
    pub(super) async fn sealer(&self) -> Result<&Sealer> {
        self.seals.sealer().await
    }
}

/// The name of a document. A type may end as the beginning of a pattern does, so a letter tells
/// them apart.
fn name_of(pattern: &TypePattern) -> String {
    match pattern {
        TypePattern::Exact(task_type) => format!("t:{task_type}"),
        TypePattern::Prefix(prefix) => format!("p:{prefix}"),
    }
}

fn pattern_of(name: &str) -> Option<TypePattern> {
    match name.split_once(':')? {
        ("t", task_type) => TaskType::new(task_type).ok().map(TypePattern::Exact),
        ("p", prefix) => TypePattern::new(&format!("{prefix}*")).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_and_pattern_has_a_name_of_its_own() {
        for text in ["mail", "mail.", "mail.*", "*", "a:b", "p:mail.", "t:x"] {
            let pattern = TypePattern::new(text).unwrap();
            assert_eq!(pattern_of(&name_of(&pattern)), Some(pattern), "{text}");
        }
        assert_eq!(pattern_of("mail"), None);
    }
}
