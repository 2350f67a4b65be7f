//! A job that a client has reserved.

use delayq_plugin::Lock;
use delayq_plugin::store::Bucket;
use tokio::time::Instant;

use super::lane::Lane;
use super::past::Past;
use super::tube_name::TubeName;

/// A job that a client of this server has reserved.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) number: u64,
    pub(super) tube: TubeName,
    pub(super) lane: Lane,
    /// The bucket that it was claimed from.
    pub(super) bucket: Bucket,
    pub(super) lock: Lock,
    pub(super) past: Past,
    /// When its time to run is over.
    pub(super) deadline: Instant,
    /// The connection that has reserved it.
    pub(super) holder: u64,
}
