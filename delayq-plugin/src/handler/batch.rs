//! Answer of a claim, sorted.

use std::time::Duration;

use delayq_core::ClaimedTask;
use delayq_core::store::{BucketState, ClaimEnd};

use crate::clock_skew::ClockSkew;
use crate::ending::Ending;
use crate::slots::Reserved;

/// What one claim brought.
#[derive(Debug)]
pub(crate) struct Batch {
    /// To start now.
    pub(crate) start: Vec<ClaimedTask>,
    /// To settle without a start.
    pub(crate) settle: Vec<Ending>,
    /// Ended by the claim itself.
    pub(crate) ended: Vec<ClaimEnd>,
    /// The slots that were reserved for the claim.
    pub(crate) slots: Option<Reserved>,
    /// `Clock::elapsed` before the claim was sent.
    pub(crate) sent_at: Duration,
    /// After which span, from when it was sent, the next claim can find something.
    pub(crate) next_in: Option<Duration>,
    pub(crate) clock_skew: Option<ClockSkew>,
    /// The largest fence given before the claim.
    pub(crate) high_water: u64,
    pub(crate) bucket: BucketState,
}

impl Batch {
    /// Whether the claim found any task.
    pub(super) fn is_fruitful(&self) -> bool {
        !(self.start.is_empty() && self.settle.is_empty() && self.ended.is_empty())
    }
}
