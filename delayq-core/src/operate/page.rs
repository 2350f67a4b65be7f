//! Pages of a listing.

use serde::{Deserialize, Serialize};

use crate::name::TaskId;
use crate::task::TaskInfo;
use crate::time::Timestamp;

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// The tasks, by their `at` and id; ended ones in reverse order, latest first.
    pub tasks: Vec<TaskInfo>,
    /// The start of the next page; `None` after the last one.
    pub next: Option<Cursor>,
}

/// A position in a listing: after this task. It stays valid while tasks come and go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cursor {
    /// The `at` of the last task of the previous page.
    pub at: Timestamp,
    /// Its id.
    pub id: TaskId,
}

impl Cursor {
    /// The position after the task `id` with this `at`.
    #[must_use]
    pub fn new(at: Timestamp, id: TaskId) -> Self {
        Self { at, id }
    }
}
