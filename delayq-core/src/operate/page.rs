//! Pages of a listing.

use serde::{Deserialize, Serialize};

use crate::name::TaskId;
use crate::task::TaskInfo;
use crate::time::Timestamp;

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// The tasks, by their `at` and id; ended ones the other way round, the latest first.
    pub tasks: Vec<TaskInfo>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor>,
}

/// A place in a listing: after this task. It stays valid while tasks come and go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cursor {
    /// The `at` of the last task of the page before.
    pub at: Timestamp,
    /// Its id.
    pub id: TaskId,
}

impl Cursor {
    /// After the task `id`, whose `at` this is.
    #[must_use]
    pub fn new(at: Timestamp, id: TaskId) -> Self {
        Self { at, id }
    }
}
