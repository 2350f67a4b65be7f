//! A client that waits for a job.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::reserved::Reserved;
use super::tube_name::TubeName;

/// A client that waits for a job.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Its connection.
    pub(super) holder: u64,
    /// The tubes that it watches.
    pub(super) tubes: Arc<[TubeName]>,
    /// Where the job goes.
    pub(super) job: oneshot::Sender<Reserved>,
}
