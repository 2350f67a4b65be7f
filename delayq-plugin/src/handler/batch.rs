//! The answer of a claim, sorted.

use std::time::Duration;

use delayq_core::ClaimedTask;
use delayq_core::store::{BucketState, ClaimEnd};

use crate::clock_skew::ClockSkew;
use crate::company::Member;
use crate::ending::Ending;
use crate::slots::Reserved;

/// The result of one claim.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Tasks to start now.
    pub(crate) start: Vec<ClaimedTask>,
    /// Keeps suspects from running alone while at-most-once tasks are settled and started.
    pub(crate) member: Option<Member>,
    /// Tasks to settle without starting them.
    pub(crate) settle: Vec<Ending>,
    /// Tasks that the claim itself ended.
    pub(crate) ended: Vec<ClaimEnd>,
    /// The slots that were reserved for the claim.
    pub(crate) slots: Option<Reserved>,
    /// `Clock::elapsed` before the claim was sent.
    pub(crate) sent_at: Duration,
    /// Time from the sending of this claim after which the next one can find something.
    pub(crate) next_in: Option<Duration>,
    pub(crate) clock_skew: Option<ClockSkew>,
    /// The largest fence issued before the claim.
    pub(crate) high_water: u64,
    pub(crate) bucket: BucketState,
}

impl Batch {
    /// True if the claim found any task.
    pub(super) fn is_fruitful(&self) -> bool {
        !(self.start.is_empty() && self.settle.is_empty() && self.ended.is_empty())
    }
}
