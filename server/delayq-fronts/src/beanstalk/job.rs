//! A job that is not gone.

use delayq_plugin::{TaskInfo, TaskState};

use super::hub::Hub;
use super::lane::Lane;
use super::tube_name::TubeName;

/// A job that is not gone.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) tube: TubeName,
    pub(super) lane: Lane,
    pub(super) info: TaskInfo,
}

impl Job {
    /// Whether it waits for its time.
    pub(super) fn is_delayed(&self) -> bool {
        self.info.state == TaskState::Scheduled && self.info.at > Hub::now()
    }
}
