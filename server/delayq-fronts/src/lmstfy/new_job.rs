//! A job that is to be.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a new job is to be.
#[derive(Clone, Debug)]
pub(super) struct NewJob {
    pub(super) delay: Duration,
    /// Zero: for ever.
    pub(super) ttl: Duration,
    pub(super) tries: u32,
    pub(super) attributes: BTreeMap<String, String>,
}
