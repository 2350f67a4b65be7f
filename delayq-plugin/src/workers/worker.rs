//! One worker, built and ready.

use std::fmt;
use std::sync::Arc;

use delayq_core::{TaskType, TaskWorker, TypePattern, WorkerOptions};

/// A worker with its stable name, its pattern and its options.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) name: Arc<str>,
    pub(crate) pattern: TypePattern,
    pub(crate) options: WorkerOptions,
    pub(crate) code: Arc<dyn TaskWorker>,
}

impl Worker {
    /// The type served by name; `None` for a pattern.
    pub(super) fn exact_type(&self) -> Option<&TaskType> {
        match &self.pattern {
            TypePattern::Exact(task_type) => Some(task_type),
            TypePattern::Prefix(_) => None,
        }
    }

    /// True if some type is served by both.
    pub(super) fn overlaps(&self, other: &TypePattern) -> bool {
        match (&self.pattern, other) {
            (TypePattern::Prefix(one), TypePattern::Prefix(other)) => {
                one.starts_with(other.as_str()) || other.starts_with(one.as_str())
            }
            (one, other) => one == other,
        }
    }

    /// True if this worker may serve a type that `pattern` matches.
    pub(super) fn may_serve(&self, pattern: &TypePattern) -> bool {
        overlap(&self.pattern, pattern)
    }
}

/// True if some type matches both.
pub(super) fn overlap(one: &TypePattern, other: &TypePattern) -> bool {
    match (one, other) {
        (TypePattern::Exact(task_type), _) => other.matches(task_type),
        (_, TypePattern::Exact(task_type)) => one.matches(task_type),
        (TypePattern::Prefix(one), TypePattern::Prefix(other)) => {
            one.starts_with(other.as_str()) || other.starts_with(one.as_str())
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name, self.pattern)
    }
}
