//! Settlements and extensions, and their outcomes.

use delayq_core::store::{AttemptEnd, ExtendOutcome, SettleOutcome, Settlement};
use delayq_core::{Error, Result};

use crate::field::{required, unknown};
use crate::pb;
use crate::pb::attempt_end::{Dead, Done, End, Expired, Release, Retry};
use crate::time::{read_span_or_zero, read_time, span, time};

impl From<AttemptEnd> for pb::AttemptEnd {
    fn from(end: AttemptEnd) -> Self {
        let end = match end {
            AttemptEnd::Done => Some(End::Done(Done::default())),
            AttemptEnd::Retry {
                after,
                error,
                succeeded,
            } => Some(End::Retry(Retry {
                after: Some(span(after)),
                error,
                succeeded,
            })),
            AttemptEnd::Release { after, succeeded } => Some(End::Release(Release {
                after: Some(span(after)),
                succeeded,
            })),
            AttemptEnd::Dead { error, succeeded } => Some(End::Dead(Dead { error, succeeded })),
            AttemptEnd::Expired => Some(End::Expired(Expired {})),
            _ => None,
        };
        Self { end }
    }
}

impl TryFrom<pb::AttemptEnd> for AttemptEnd {
    type Error = Error;

    fn try_from(end: pb::AttemptEnd) -> Result<Self> {
        Ok(match required("end", end.end)? {
            End::Done(done) if done.then.is_empty() => Self::Done,
            End::Done(_) => return Err(of_server("end.done.then")),
            End::Fail(_) => return Err(of_server("end.fail")),
            End::Retry(retry) => Self::Retry {
                after: read_span_or_zero("end.retry.after", retry.after)?,
                error: retry.error,
                succeeded: retry.succeeded,
            },
            End::Release(release) => Self::Release {
                after: read_span_or_zero("end.release.after", release.after)?,
                succeeded: release.succeeded,
            },
            End::Dead(dead) => Self::Dead {
                error: dead.error,
                succeeded: dead.succeeded,
            },
            End::Expired(_) => Self::Expired,
        })
    }
}

/// The error for what a server does beside its store.
fn of_server(field: &'static str) -> Error {
    Error::invalid(field, "a store knows no such end")
}

impl From<Settlement> for pb::Settlement {
    fn from(settlement: Settlement) -> Self {
        Self {
            lock: Some(settlement.lock.into()),
            end: Some(settlement.end.into()),
            note: settlement.note,
        }
    }
}

impl TryFrom<pb::Settlement> for Settlement {
    type Error = Error;

    fn try_from(sent: pb::Settlement) -> Result<Self> {
        let lock = required("lock", sent.lock)?.try_into()?;
        let mut settlement = Self::new(lock, required("end", sent.end)?.try_into()?);
        settlement.note = sent.note;
        Ok(settlement)
    }
}

impl From<SettleOutcome> for pb::SettleOutcome {
    fn from(outcome: SettleOutcome) -> Self {
        match outcome {
            SettleOutcome::Settled => Self::Settled,
            SettleOutcome::LockLost => Self::LockLost,
            _ => Self::Unspecified,
        }
    }
}

/// The outcome of a settlement in a message.
///
/// # Errors
/// `InvalidInput` if it is absent or unknown.
pub fn read_settled(value: i32) -> Result<SettleOutcome> {
    match pb::SettleOutcome::try_from(value) {
        Ok(pb::SettleOutcome::Settled) => Ok(SettleOutcome::Settled),
        Ok(pb::SettleOutcome::LockLost) => Ok(SettleOutcome::LockLost),
        Ok(pb::SettleOutcome::Unspecified) | Err(_) => Err(unknown("outcome", value)),
    }
}

impl From<ExtendOutcome> for pb::ExtendOutcome {
    fn from(outcome: ExtendOutcome) -> Self {
        use pb::extend_outcome::{LockLost, Outcome};
        let outcome = match outcome {
            ExtendOutcome::Extended(until) => Some(Outcome::ExtendedUntil(time(until))),
            ExtendOutcome::CancelRequested(until) => {
                Some(Outcome::CancelRequestedUntil(time(until)))
            }
            ExtendOutcome::LockLost => Some(Outcome::LockLost(LockLost {})),
            _ => None,
        };
        Self { outcome }
    }
}

impl TryFrom<pb::ExtendOutcome> for ExtendOutcome {
    type Error = Error;

    fn try_from(outcome: pb::ExtendOutcome) -> Result<Self> {
        use pb::extend_outcome::Outcome;
        Ok(match required("outcome", outcome.outcome)? {
            Outcome::ExtendedUntil(until) => Self::Extended(read_time("extended_until", until)?),
            Outcome::CancelRequestedUntil(until) => {
                Self::CancelRequested(read_time("cancel_requested_until", until)?)
            }
            Outcome::LockLost(_) => Self::LockLost,
        })
    }
}
