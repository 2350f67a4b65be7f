//! What happened in a run: so that a fault that never fired is seen.

/// What is done to the processes, the connections and the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    RequestLost,
    ReplyLost,
    RequestLate,
    DeliveredTwice,
    SlowCall,
    HandlerCrashed,
    SubmitterCrashed,
    PausedShorterThanLock,
    PausedLongerThanLock,
    StoreCrashed,
    StoreRolledBack,
    StoreUnreachable,
    StoreClockAhead,
    StoreClockBack,
    CallerClockAhead,
    CallerClockBehind,
}

impl Fault {
    pub(super) const ALL: [Self; 16] = [
        Self::RequestLost,
        Self::ReplyLost,
        Self::RequestLate,
        Self::DeliveredTwice,
        Self::SlowCall,
        Self::HandlerCrashed,
        Self::SubmitterCrashed,
        Self::PausedShorterThanLock,
        Self::PausedLongerThanLock,
        Self::StoreCrashed,
        Self::StoreRolledBack,
        Self::StoreUnreachable,
        Self::StoreClockAhead,
        Self::StoreClockBack,
        Self::CallerClockAhead,
        Self::CallerClockBehind,
    ];
}

/// A way that a lifecycle takes, most of them because of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branch {
    Done,
    Dead,
    Cancelled,
    Expired,
    Retried,
    Released,
    Extended,
    LockTakenOver,
    Poison,
    CancelledAtExpiry,
    CancelledAtSettle,
    CancelSeenByExtend,
    SettleRepeated,
    SettleRefused,
    SettledAfterExpiry,
    ExtendRefused,
    LockRanOut,
    LateClaimGivenBack,
    LastAttemptRefused,
    SubmitRepeatedLive,
    SubmitRepeatedEnded,
    SubmitAfterForgotten,
    CancelRunning,
    CancelFinished,
    CancelUnknown,
    Rescheduled,
    RescheduleRefused,
    Requeued,
    HeldBackByPause,
    HeldBackByGuard,
    FenceAboveHighWater,
    RollbackUndidSubmit,
    RollbackUndidClaim,
    RollbackUndidEnd,
    OnceConfirmed,
    OnceUnconfirmed,
    HandlerRestarted,
    StrayApplied,
}

impl Branch {
    pub(super) const ALL: [Self; 38] = [
        Self::Done,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
        Self::Retried,
        Self::Released,
        Self::Extended,
        Self::LockTakenOver,
        Self::Poison,
        Self::CancelledAtExpiry,
        Self::CancelledAtSettle,
        Self::CancelSeenByExtend,
        Self::SettleRepeated,
        Self::SettleRefused,
        Self::SettledAfterExpiry,
        Self::ExtendRefused,
        Self::LockRanOut,
        Self::LateClaimGivenBack,
        Self::LastAttemptRefused,
        Self::SubmitRepeatedLive,
        Self::SubmitRepeatedEnded,
        Self::SubmitAfterForgotten,
        Self::CancelRunning,
        Self::CancelFinished,
        Self::CancelUnknown,
        Self::Rescheduled,
        Self::RescheduleRefused,
        Self::Requeued,
        Self::HeldBackByPause,
        Self::HeldBackByGuard,
        Self::FenceAboveHighWater,
        Self::RollbackUndidSubmit,
        Self::RollbackUndidClaim,
        Self::RollbackUndidEnd,
        Self::OnceConfirmed,
        Self::OnceUnconfirmed,
        Self::HandlerRestarted,
        Self::StrayApplied,
    ];
}

/// Something that looks like a broken promise, and lies outside of what is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excuse {
    /// An acknowledged submit of the class `process` was undone by a power loss.
    LostInWindow,
    /// A fence was given twice: its first lock was undone by a power loss, and the store's clock was
    /// set back below it.
    FenceTwice,
}

impl Excuse {
    pub(super) const ALL: [Self; 2] = [Self::LostInWindow, Self::FenceTwice];
}

/// Counts by fault, branch and excuse.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    faults: [u64; Fault::ALL.len()],
    branches: Counts,
    excuses: [u64; Excuse::ALL.len()],
}

/// As an array of this length has no `Default`.
#[derive(Clone, Debug)]
struct Counts([u64; Branch::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; Branch::ALL.len()])
    }
}

impl Tally {
    pub(super) fn fired(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    pub(super) fn took(&mut self, branch: Branch) {
        self.branches.0[branch as usize] += 1;
    }

    pub(super) fn excused(&mut self, excuse: Excuse) {
        self.excuses[excuse as usize] += 1;
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL
            .map(|fault| (fault, self.faults[fault as usize]))
            .into_iter()
    }

    pub(super) fn branches(&self) -> impl Iterator<Item = (Branch, u64)> {
        Branch::ALL
            .map(|branch| (branch, self.branches.0[branch as usize]))
            .into_iter()
    }

    pub(super) fn excuses(&self) -> impl Iterator<Item = (Excuse, u64)> {
        Excuse::ALL
            .map(|excuse| (excuse, self.excuses[excuse as usize]))
            .into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_and_branch_is_listed_at_its_own_place() {
        for (place, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, place, "{fault:?}");
        }
        for (place, branch) in Branch::ALL.into_iter().enumerate() {
            assert_eq!(branch as usize, place, "{branch:?}");
        }
    }
}
