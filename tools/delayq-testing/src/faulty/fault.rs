//! What happens to one call.

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: it goes through.
    None,
    /// It fails and is not applied.
    NotApplied,
    /// It is applied and its answer is lost.
    AnswerLost,
    /// It is refused: the store takes no writes now.
    ReadOnly,
    /// It is applied late, after the store's [delay](super::FaultyStore::with_delay).
    Late,
    /// It is applied, and its answer is as late.
    AnswerLate,
    /// It is not applied, and fails as in doubt after the delay: a node that hangs.
    Hang,
    /// The process ends before the call is sent.
    CrashBefore,
    /// The process ends when the call has been applied, before the answer arrives.
    CrashAfter,
}
