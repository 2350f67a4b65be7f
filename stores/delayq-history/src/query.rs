//! A search in the history.

use std::time::Duration;

use delayq_core::error::{Error, Result};
use delayq_core::history::LifeOutcome;
use delayq_core::{TaskId, TaskType, Timestamp};

use crate::page::HistoryCursor;

/// Maximum number of lives on a page.
pub const MAX_HISTORY_PAGE: usize = 1_000;

/// The number of lives on a page if a search names none.
const DEFAULT_PAGE: usize = 100;

/// A search in the history: the lives that fulfil all given conditions, latest end first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryQuery {
    /// Lives of this type.
    pub task_type: Option<TaskType>,
    /// Lives of the tasks with this id.
    pub id: Option<TaskId>,
    /// Lives with this group.
    pub group: Option<String>,
    /// Lives with this project.
    pub project: Option<String>,
    /// Lives that ended in one of these ways; empty: in any.
    pub outcomes: Vec<LifeOutcome>,
    /// Lives that ended at this time or later.
    pub since: Option<Timestamp>,
    /// Lives that ended before this time.
    pub until: Option<Timestamp>,
    /// Lives whose last error contains this text.
    pub error: Option<String>,
    /// Lives whose first known attempt started more than this after it was due.
    pub late_by: Option<Duration>,
    /// Lives whose last attempt took longer than this.
    pub longer_than: Option<Duration>,
    /// Maximum number of lives on the page, 1 to [`MAX_HISTORY_PAGE`]; default 100.
    pub limit: usize,
    /// The end of the page before.
    pub after: Option<HistoryCursor>,
}

impl Default for HistoryQuery {
    fn default() -> Self {
        Self {
            task_type: None,
            id: None,
            group: None,
            project: None,
            outcomes: Vec::new(),
            since: None,
            until: None,
            error: None,
            late_by: None,
            longer_than: None,
            limit: DEFAULT_PAGE,
            after: None,
        }
    }
}

impl HistoryQuery {
    /// Refuses a search that finds nothing by its form.
    ///
    /// # Errors
    /// `InvalidInput`, naming the condition.
    pub fn check(&self) -> Result<()> {
        if !(1..=MAX_HISTORY_PAGE).contains(&self.limit) {
            let reason = format!("limit {}: give 1 to {MAX_HISTORY_PAGE}", self.limit);
            return Err(Error::invalid("search in the history", reason));
        }
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            let reason = format!("until {until} is not after since {since}");
            return Err(Error::invalid("search in the history", reason));
        }
        let texts = [
            ("group", &self.group),
            ("project", &self.project),
            ("error", &self.error),
        ];
        for (name, text) in texts {
            if text.as_ref().is_some_and(|text| text.contains('\0')) {
                let reason = format!("the {name} has a zero character, which no life has");
                return Err(Error::invalid("search in the history", reason));
            }
            if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                let reason = format!("the {name} is empty: leave it out to find all");
                return Err(Error::invalid("search in the history", reason));
            }
        }
        Ok(())
    }

    /// True if an index of its own leads to what it finds, so that no range of time is needed.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "PostgreSQL's"))]
    pub(crate) fn is_narrow(&self) -> bool {
        self.id.is_some() || self.group.is_some()
    }
}
