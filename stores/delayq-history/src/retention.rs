//! How long lives are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use delayq_core::TaskType;

/// How long the lives of a namespace are kept after their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryRetention {
    /// The retention of all types that have none of their own; `None`: for ever.
    pub all: Option<Duration>,
    /// The retention of single types.
    pub types: BTreeMap<TaskType, Duration>,
}

impl HistoryRetention {
    /// Keeps all lives for this long; `None`: for ever.
    #[must_use]
    pub fn of_all(all: Option<Duration>) -> Self {
        Self {
            all,
            types: BTreeMap::new(),
        }
    }

    /// The longest retention; `None`: for ever.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        let of_types = self.types.values().copied();
        of_types
            .chain(self.all)
            .max()
            .filter(|_| self.all.is_some())
    }

    /// The retention of a type; `None`: for ever.
    #[must_use]
    pub fn of(&self, task_type: &TaskType) -> Option<Duration> {
        self.types.get(task_type).copied().or(self.all)
    }
}
