//! Effects on the store behind the faults.

use delayq_core::Bucket;
use delayq_core::store::{CancelOutcome, Claimed, SettleOutcome, Settlement};

/// A call and its effect on the store, whether or not the answer arrives.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A claim was applied.
    Claim {
        /// The bucket.
        bucket: &'a Bucket,
        /// The answer.
        claimed: &'a Claimed,
    },
    /// Settlements were applied.
    Settle {
        /// The bucket.
        bucket: &'a Bucket,
        /// The settlements.
        settlements: &'a [Settlement],
        /// Their outcomes.
        outcomes: &'a [SettleOutcome],
    },
    /// A cancel was applied.
    Cancel(CancelOutcome),
}
