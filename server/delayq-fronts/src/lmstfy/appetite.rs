//! What a consumer asks for.

use std::time::Duration;

/// What is asked for jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appetite {
    pub(super) count: usize,
    pub(super) ttr: Duration,
    /// Whether the attempt does not count.
    pub(super) is_frozen: bool,
}
