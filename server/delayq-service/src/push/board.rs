//! Targets of a namespace: in its store, with a copy in memory that is at most a second old.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use delayq_core::documents::{Document, Expected, WriteOutcome};
use delayq_plugin::{
    Error, Namespace, Result, RetryPolicy, Store, TaskType, TypePattern, WorkerOptions,
};
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::callees::Callees;
use super::seal::{Sealer, Seals};
use super::{Courier, Target};
use crate::discovery::Instance;
use crate::folder_cache::{Contents, FolderCache};
use crate::pattern_name::{name_of, pattern_of};
use crate::policy::Policies;

/// The folder of target documents.
const FOLDER: &str = "targets";
/// The name prefix of documents that mark a type whose tasks have their own targets.
const OWN: &str = "o:";
/// The version of the stored form, and the newest that this release reads.
const VERSION: u32 = 1;

/// The stored form of a target.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTarget {
    v: u32,
    /// `None` for a type whose tasks have their own targets.
    target: Option<Target>,
}

/// Targets by type or pattern.
pub(super) type Targets = BTreeMap<TypePattern, Arc<Target>>;

/// The content of the folder.
#[derive(Debug, Default)]
struct TargetFolder {
    targets: Arc<Targets>,
    /// Types whose tasks have their own targets, even if the type itself has a target too.
    own: Arc<BTreeSet<TaskType>>,
}

/// The targets of a namespace.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) namespace: Namespace,
    pub(super) courier: Arc<Courier>,
    pub(super) store: Arc<dyn Store>,
    pub(super) callees: Callees,
    stored: FolderCache<TargetFolder>,
    pub(super) seals: Arc<Seals>,
    /// The policies of types, for targets without a retry policy.
    pub(super) policies: Arc<Policies>,
}

impl Contents for TargetFolder {
    fn read(documents: Vec<Document>) -> Result<Self> {
        let (mut targets, mut own) = (Targets::new(), BTreeSet::new());
        for document in documents {
            let name = &document.name;
            if let Some(task_type) = name
                .strip_prefix(OWN)
                .and_then(|name| TaskType::new(name).ok())
            {
                own.insert(task_type);
                continue;
            }
            let Some(pattern) = pattern_of(name) else {
                error!(
                    name,
                    "the name of a target is invalid; its tasks are not pushed"
                );
                continue;
            };
            match serde_json::from_str::<StoredTarget>(&document.body) {
                Ok(record) if record.v <= VERSION => {
                    if let Some(target) = record.target {
                        targets.insert(pattern, Arc::new(target));
                    }
                }
                Ok(_) => warn!(%pattern, "a newer release wrote this target; not pushed here"),
                Err(error) => {
                    error!(%pattern, %error, "cannot read a target; its tasks are not pushed");
                }
            }
        }
        Ok(Self {
            targets: Arc::new(targets),
            own: Arc::new(own),
        })
    }
}

impl Board {
    pub(super) fn new(
        store: Arc<dyn Store>,
        namespace: Namespace,
        courier: Arc<Courier>,
        policies: Arc<Policies>,
    ) -> Self {
        let seals = Seals::new(Arc::clone(&store), namespace.clone());
        Self {
            namespace,
            courier,
            callees: Callees::new(Arc::clone(&store)),
            stored: FolderCache::new(Arc::clone(&store), FOLDER),
            store,
            seals: Arc::new(seals),
            policies,
        }
    }

    /// The instances that serve a type, in the order to try them.
    pub(super) fn instances(&self, task_type: &TaskType) -> Vec<Arc<Instance>> {
        let discovery = &self.courier.services.discovery;
        let mut instances = self.callees.index().of(task_type).to_vec();
        if discovery.is_for(&self.namespace) {
            instances.extend_from_slice(discovery.index().of(task_type));
        }
        discovery.ordered(instances)
    }

    /// The types that have at least one instance.
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
        self.stored.refresh().await.map(drop)
    }

    /// All targets.
    pub(super) fn all(&self) -> Arc<Targets> {
        Arc::clone(&self.stored.get().targets)
    }

    /// The types whose tasks have their own targets.
    pub(super) fn own(&self) -> Arc<BTreeSet<TaskType>> {
        Arc::clone(&self.stored.get().own)
    }

    /// The target of a type: its own, or that of the longest matching pattern.
    pub(super) fn of_type(&self, task_type: &TaskType) -> Option<Arc<Target>> {
        let targets = self.all();
        let matching = targets.iter().filter(|(one, _)| one.matches(task_type));
        let (_, target) = matching.max_by_key(|(pattern, _)| pattern.rank())?;
        Some(Arc::clone(target))
    }

    /// The options of the worker that serves a target.
    pub(super) fn options(target: &Target) -> WorkerOptions {
        let options = target.options();
        // A policy may be set while the worker runs.
        if target.retry.is_none() {
            return Target::of_policies(options);
        }
        options
    }

    /// The retry policy of a type whose target has none of its own; `None` if it has one, which is
    /// then among its options.
    pub(super) fn retry(&self, task_type: &TaskType, target: &Target) -> Option<RetryPolicy> {
        if target.retry.is_some() {
            return None;
        }
        let usual = target.options().retry;
        let set = self.policies.retry(task_type, usual.max_attempts);
        Some(set.unwrap_or(usual))
    }

    /// The stored target of a pattern, after a refresh.
    pub(super) async fn stored(&self, pattern: &TypePattern) -> Result<Option<Arc<Target>>> {
        self.refresh().await?;
        Ok(self.all().get(pattern).cloned())
    }

    /// Stores a target.
    pub(super) async fn write(&self, pattern: &TypePattern, target: Target) -> Result<()> {
        self.put(&name_of(pattern), Some(target), Expected::Any)
            .await
    }

    /// Pushes the tasks of a type that have their own targets, from now on and regardless of
    /// changes to the type's target.
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
            // While the type has a target, its tasks are pushed anyway.
            Err(Error::InvalidInput { .. }) if self.of_type(task_type).is_some() => Ok(()),
            put => put,
        }
    }

    async fn put(&self, name: &str, target: Option<Target>, expected: Expected) -> Result<()> {
        let record = StoredTarget { v: VERSION, target };
        match self.stored.write(name, &record, expected).await? {
            WriteOutcome::Written(_) | WriteOutcome::Conflict(_) => Ok(()),
            WriteOutcome::FolderFull => Err(Error::InvalidInput {
                what: "target",
                reason:
                    "there are 10,000 in this namespace, types with own targets among them: use \
                         a pattern"
                        .to_owned(),
            }),
        }
    }

    /// Removes a target; returns true if it existed.
    pub(super) async fn remove(&self, pattern: &TypePattern) -> Result<bool> {
        self.stored.remove(&name_of(pattern)).await
    }

    /// The sealer of task targets.
    pub(super) async fn sealer(&self) -> Result<&Sealer> {
        self.seals.sealer().await
    }
}
