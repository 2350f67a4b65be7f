//! Faults of a call.

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// No fault: the call goes through.
    None,
    /// The call fails and is not applied.
    NotApplied,
    /// The call is applied and its answer is lost.
    AnswerLost,
    /// The call is refused: the store takes no writes now.
    ReadOnly,
    /// The call is applied late, after the store's [delay](super::FaultyStore::with_delay).
    Late,
    /// The call is applied, and its answer is late by that delay.
    AnswerLate,
    /// The call is not applied, and fails as in doubt after the delay, as with a node that hangs.
    Hang,
    /// The process crashes before the call is sent.
    CrashBefore,
    /// The process crashes after the call was applied, before the answer arrives.
    CrashAfter,
}
