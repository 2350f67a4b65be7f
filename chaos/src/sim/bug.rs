//! Planted bugs: each switches one rule of the model off, and must be found.

use crate::check::Promise;

/// A rule of the model that is broken on purpose, to prove that the judge would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
#[non_exhaustive]
pub enum Bug {
    /// A claim removes the task from the store: a crash of its holder loses it.
    RemovedBeforeRun,
    /// A settlement counts whatever its fence, while anybody holds the task.
    SettleIgnoresFence,
    /// A settlement counts with a fence that was good once, after somebody took the task over.
    SettleAfterTakeover,
    /// A lock is extended whatever its fence.
    ExtendIgnoresFence,
    /// A handler never extends its locks.
    LockNeverExtended,
    /// A handler reckons its locks from the answer, not from when the call was sent.
    LockReckonedFromAnswer,
    /// A worker starts although the claim's answer came after its lock had run out.
    StartsRunOutClaim,
    /// A claim leaves tasks whose lock has expired where they are.
    ClaimIgnoresExpiredLocks,
    /// A claim takes tasks that somebody else holds.
    ClaimTakesRunning,
    /// Due times are compared with the claimer's clock.
    CallersClock,
    /// Due times are compared with the store's clock alone, without the guard.
    NoGuard,
    /// Due times are compared in whole seconds, rounded down.
    WholeSeconds,
    /// A retry is due when the task was, at once.
    RetryAtOnce,
    /// A requeued task stays among the dead, too.
    RequeueLeavesDead,
    /// A requeue does not count the attempts anew.
    RequeueKeepsAttempts,
    /// A reschedule leaves the old entry of the due index.
    RescheduleLeavesEntry,
    /// A submit that is repeated for a scheduled task makes a second entry.
    RepeatedSubmitMakesEntry,
    /// A submit that is repeated after the end is accepted as a new task.
    RepeatedSubmitRunsAgain,
    /// A submit is answered before the task is stored: a crash of the store loses it.
    AnswerBeforeStored,
    /// A cancel answers `Cancelled` without looking or doing anything.
    BlindCancel,
    /// A cancel removes a running task and answers `Cancelled`.
    CancelRemovesRunning,
    /// A failed attempt is repeated although a cancel was asked for.
    RetryForgetsCancel,
    /// An expired lock is followed by another start although a cancel was asked for.
    ExpiryForgetsCancel,
    /// Fences are counted, without the time: a store that lost its last writes gives one twice.
    FenceFromCountOnly,
    /// Fences are the time, without the high-water mark: a clock set back gives smaller ones.
    FenceFromClockOnly,
    /// An expired lock is not counted as an attempt.
    ExpiryNotCounted,
    /// A release is counted as an attempt.
    ReleaseCounted,
    /// An expired lock ends its task, as if it had been done.
    ExpiryDropsTask,
    /// A settlement that is repeated ends the task a second time.
    RepeatedSettleEndsAgain,
    /// An at-most-once task starts before it is settled.
    OnceStartsUnsettled,
    /// A claim's error ends the handler's loop.
    ErrorEndsHandler,
}

impl Bug {
    /// The promise that the judge must name.
    #[must_use]
    pub fn breaks(self) -> Promise {
        match self {
            Self::CallersClock | Self::NoGuard | Self::WholeSeconds | Self::RetryAtOnce => {
                Promise::NeverEarly
            }
            Self::RemovedBeforeRun | Self::AnswerBeforeStored | Self::ExpiryDropsTask => {
                Promise::NeverLost
            }
            Self::LockReckonedFromAnswer
            | Self::StartsRunOutClaim
            | Self::ClaimTakesRunning
            | Self::FenceFromCountOnly
            | Self::FenceFromClockOnly => Promise::OneHolder,
            Self::SettleIgnoresFence
            | Self::SettleAfterTakeover
            | Self::ExtendIgnoresFence
            | Self::RepeatedSettleEndsAgain => Promise::OneEnd,
            Self::LockNeverExtended
            | Self::RequeueKeepsAttempts
            | Self::RepeatedSubmitRunsAgain
            | Self::ExpiryNotCounted
            | Self::ReleaseCounted
            | Self::OnceStartsUnsettled => Promise::ExplainedRepeats,
            Self::BlindCancel
            | Self::CancelRemovesRunning
            | Self::RetryForgetsCancel
            | Self::ExpiryForgetsCancel => Promise::CancelIsFinal,
            Self::ClaimIgnoresExpiredLocks | Self::ErrorEndsHandler => Promise::ComesBack,
            Self::RequeueLeavesDead
            | Self::RescheduleLeavesEntry
            | Self::RepeatedSubmitMakesEntry => Promise::Structure,
        }
    }
}
