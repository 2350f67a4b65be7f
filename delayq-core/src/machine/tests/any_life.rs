//! All decisions in any order.

use proptest::prelude::*;

use super::*;
use crate::presence::InstanceId;
use crate::store::MAX_UNCOUNTED;

/// One step of a random life.
#[derive(Clone, Debug)]
enum Step {
    Claim,
    Settle(AttemptEnd),
    SettleStale,
    /// The lock of the claimer itself, or of another one, which does not count.
    ExpireLock {
        is_own: bool,
    },
    CancelRequest,
    Reschedule,
    Requeue,
}

fn any_step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        Just(retry(5)),
        Just(release()),
        Just(dead()),
        Just(AttemptEnd::Done),
        Just(AttemptEnd::Expired)
    ];
    prop_oneof![
        3 => Just(Step::Claim),
        3 => end.prop_map(Step::Settle),
        1 => Just(Step::SettleStale),
        1 => any::<bool>().prop_map(|is_own| Step::ExpireLock { is_own }),
        1 => Just(Step::CancelRequest),
        1 => Just(Step::Reschedule),
        1 => Just(Step::Requeue),
    ]
}

/// Takes an expired lock over, of the claimer itself or of another one.
fn expire(task: &Bookkeeping, is_own: bool) -> Result<Bookkeeping, Claiming> {
    let claimer = InstanceId::generate();
    let claim = ClaimRequest::new(1, Duration::ZERO, at(60));
    let claim = claim.holder(&claimer).counting_own_only();
    let holder = is_own.then(|| claimer.short());
    lock_expired(task, holder, &claim, at(60))
}

proptest! {
    /// I4 and I5: one end, and each start but the first has its own cause in the counts.
    #[test]
    fn any_life_has_one_end_and_explained_starts(steps in prop::collection::vec(any_step(), 0..60)) {
        let (mut task, mut fence, mut starts) = (scheduled(), 0, 0_u32);
        for step in steps {
            match (step, task.state) {
                (Step::Claim, TaskState::Scheduled) => {
                    fence += 1;
                    starts += 1;
                    task = task.locked(fence, at(50));
                    prop_assert_eq!(task.attempt(), starts - task.releases);
                }
                (Step::Settle(end), _) => match settle_at_20(&task, fence, &end) {
                    Settling::NotHeld(outcome) => {
                        let by_it = task.settled.by == Some(end.kind());
                        let was_settled = fence > 0 && task.settled.fence == fence && by_it;
                        prop_assert_eq!(outcome == SettleOutcome::Settled, was_settled);
                    }
                    Settling::Ended(ended) => {
                        prop_assert!(ended.state.is_ended());
                        prop_assert_eq!(ended.settled, Settled { fence, by: Some(end.kind()) });
                        prop_assert_eq!(ended.attempt, starts - task.releases);
                        let again = settle_ended(&ended, fence, end.kind());
                        prop_assert_eq!(again, SettleOutcome::Settled);
                        return Ok(());
                    }
                    Settling::Changed { task: next, .. } => {
                        prop_assert!(next.state != TaskState::Running && !next.cancel_requested);
                        prop_assert_eq!((next.fence, next.settled.fence), (0, fence));
                        task = next;
                    }
                },
                (Step::SettleStale, _) => {
                    let settling = settle_at_20(&task, fence + 1, &AttemptEnd::Done);
                    prop_assert_eq!(settling, Settling::NotHeld(SettleOutcome::LockLost));
                }
                (Step::ExpireLock { is_own }, TaskState::Running) => match expire(&task, is_own) {
                    Ok(next) | Err(Claiming::Dead(next, EndCause::Poison, _)) => {
                        prop_assert!(!task.cancel_requested);
                        let counts = is_own || task.releases >= MAX_UNCOUNTED;
                        let is_poison = counts && next.lock_expiries >= 3;
                        prop_assert_eq!(next.state == TaskState::Dead, is_poison);
                        let (expiries, releases) = (u32::from(counts), u32::from(!counts));
                        prop_assert_eq!(next.lock_expiries, task.lock_expiries + expiries);
                        prop_assert_eq!(next.releases, task.releases + releases);
                        task = next;
                    }
                    Err(end) => {
                        let is_cancelled = matches!(end, Claiming::Ended(_, EndCause::Cancelled));
                        prop_assert!(task.cancel_requested && is_cancelled);
                        return Ok(());
                    }
                },
                (Step::CancelRequest, TaskState::Running) => task = task.with_cancel_request(),
                (Step::Reschedule, TaskState::Scheduled) => task = task.rescheduled(at(70)),
                (Step::Requeue, TaskState::Dead) => {
                    task = task.requeued(at(80));
                    starts = 0;
                }
                _ => {}
            }
            let explained = task.failures + task.lock_expiries + task.releases;
            prop_assert_eq!(starts, explained + u32::from(task.state == TaskState::Running));
        }
    }
}
