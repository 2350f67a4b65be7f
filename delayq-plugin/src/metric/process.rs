//! Metrics of one process, and the types with labels of their own.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use delayq_core::{Namespace, TaskType};
use metrics::{SharedString, gauge};

use super::run_counts::RunCounts;
use super::samples::TypeSample;
use super::send_counts::SendCounts;
use super::table::{BUILD_INFO, NAMESPACE, describe_all};
use super::type_labels::TypeLabels;

/// Maximum number of types with labels of their own. Otherwise an application that invents types at
/// run time would fill the memory of its Prometheus.
const MAX_TYPES: usize = 1_000;
/// The `type` label of all others. No type has this name.
const OTHERS: &str = "(other)";
/// The namespace label of a store without one.
const NO_NAMESPACE: &str = "default";

/// The metrics of one plugin, or of one submit service. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    shared: Arc<SharedCounts>,
}

#[derive(Debug)]
struct SharedCounts {
    namespace: SharedString,
    types: RwLock<HashMap<TaskType, Arc<SendCounts>>>,
    others: Arc<SendCounts>,
}

impl Metrics {
    /// Describes all metrics to the recorder installed at this moment.
    pub(crate) fn new(namespace: Option<&Namespace>) -> Self {
        describe_all();
        let namespace = namespace.map_or(NO_NAMESPACE, Namespace::as_str);
        let namespace = SharedString::from(namespace.to_owned());
        let version = env!("CARGO_PKG_VERSION");
        gauge!(BUILD_INFO, NAMESPACE => namespace.clone(), "version" => version).set(1);
        let others = TypeLabels {
            namespace: namespace.clone(),
            task_type: SharedString::const_str(OTHERS),
        };
        let shared = SharedCounts {
            namespace,
            types: RwLock::default(),
            others: Arc::new(SendCounts::new(others)),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(crate) fn namespace(&self) -> &SharedString {
        &self.shared.namespace
    }

    /// The send counts of a type, by a name that may not be valid.
    pub(crate) fn sends_of_name(&self, task_type: &str) -> Arc<SendCounts> {
        let task_type = TaskType::new(task_type).ok();
        let own = task_type.and_then(|task_type| self.own_sends(&task_type));
        own.unwrap_or_else(|| Arc::clone(&self.shared.others))
    }

    /// The counts of a type's sends.
    pub(crate) fn sends(&self, task_type: &TaskType) -> Arc<SendCounts> {
        let own = self.own_sends(task_type);
        own.unwrap_or_else(|| Arc::clone(&self.shared.others))
    }

    /// The counts of a type's runs.
    pub(crate) fn runs(&self, task_type: &TaskType) -> RunCounts {
        RunCounts::new(&match self.own_sends(task_type) {
            Some(_) => self.labels(task_type),
            None => TypeLabels {
                namespace: self.shared.namespace.clone(),
                task_type: SharedString::const_str(OTHERS),
            },
        })
    }

    /// Sets the gauges of a type, unless it shares its labels with others: the last of those would
    /// overwrite the rest.
    pub(super) fn set(&self, task_type: &TaskType, sample: &TypeSample) {
        if self.own_sends(task_type).is_some() {
            sample.set(&self.labels(task_type));
        }
    }

    fn labels(&self, task_type: &TaskType) -> TypeLabels {
        TypeLabels {
            namespace: self.shared.namespace.clone(),
            task_type: SharedString::from(task_type.as_str().to_owned()),
        }
    }

    /// `None` for a type without labels of its own.
    fn own_sends(&self, task_type: &TaskType) -> Option<Arc<SendCounts>> {
        let types = &self.shared.types;
        let known = types.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(task_type) {
            return Some(Arc::clone(counts));
        }
        drop(known);
        let mut known = types.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_TYPES && !known.contains_key(task_type) {
            return None;
        }
        let new = || Arc::new(SendCounts::new(self.labels(task_type)));
        Some(Arc::clone(
            known.entry(task_type.clone()).or_insert_with(new),
        ))
    }
}
