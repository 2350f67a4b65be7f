//! The model: it keeps its promises under faults, and each planted bug is found by the promise that
//! it breaks.

use clap::ValueEnum;
use delayq_chaos::sim::{Bug, Plan, exhaust, run};

/// Enough for every fault and branch, and for every planted bug.
const LIFECYCLES: u64 = 200_000;

#[test]
fn without_a_bug_no_promise_is_broken_and_everything_is_tried() {
    let report = run(Plan {
        lifecycles: 3_000_000,
        seed: 1,
        bug: None,
    });
    assert!(report.is_good(), "{report}");
}

fn assert_found(bug: Bug) {
    let report = run(Plan {
        lifecycles: LIFECYCLES,
        seed: 1,
        bug: Some(bug),
    });
    let promise = bug.breaks();
    assert!(
        report.names(promise),
        "{bug:?} must break {promise}: {report}"
    );
}

/// One test a bug.
macro_rules! bugs {
    ($($name:ident: $bug:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                assert_found(Bug::$bug);
            }
        )*

        #[test]
        fn every_bug_has_its_test() {
            assert_eq!(Bug::value_variants(), [$(Bug::$bug),*]);
        }
    };
}

bugs! {
    a_task_that_is_removed_before_it_runs_is_found: RemovedBeforeRun,
    a_settlement_whatever_its_fence_is_found: SettleIgnoresFence,
    a_settlement_after_a_takeover_is_found: SettleAfterTakeover,
    an_extension_whatever_its_fence_is_found: ExtendIgnoresFence,
    a_lock_that_is_never_extended_is_found: LockNeverExtended,
    a_lock_reckoned_from_the_answer_is_found: LockReckonedFromAnswer,
    a_start_after_the_lock_ran_out_is_found: StartsRunOutClaim,
    a_claim_without_expired_locks_is_found: ClaimIgnoresExpiredLocks,
    a_claim_of_running_tasks_is_found: ClaimTakesRunning,
    the_callers_clock_is_found: CallersClock,
    a_claim_without_the_guard_is_found: NoGuard,
    due_times_in_whole_seconds_are_found: WholeSeconds,
    a_retry_at_once_is_found: RetryAtOnce,
    a_requeued_task_among_the_dead_is_found: RequeueLeavesDead,
    a_requeue_that_keeps_the_attempts_is_found: RequeueKeepsAttempts,
    a_reschedule_that_leaves_its_entry_is_found: RescheduleLeavesEntry,
    a_second_entry_by_a_repeated_submit_is_found: RepeatedSubmitMakesEntry,
    a_second_life_by_a_repeated_submit_is_found: RepeatedSubmitRunsAgain,
    an_answer_before_the_task_is_stored_is_found: AnswerBeforeStored,
    a_blind_cancel_is_found: BlindCancel,
    a_cancel_that_removes_a_running_task_is_found: CancelRemovesRunning,
    a_retry_of_a_cancelled_task_is_found: RetryForgetsCancel,
    a_takeover_of_a_cancelled_task_is_found: ExpiryForgetsCancel,
    a_fence_that_is_only_counted_is_found: FenceFromCountOnly,
    a_fence_that_is_only_the_time_is_found: FenceFromClockOnly,
    an_expired_lock_that_is_not_counted_is_found: ExpiryNotCounted,
    a_release_that_is_counted_is_found: ReleaseCounted,
    an_expired_lock_that_drops_its_task_is_found: ExpiryDropsTask,
    a_second_end_by_a_repeated_settlement_is_found: RepeatedSettleEndsAgain,
    an_at_most_once_start_before_its_settlement_is_found: OnceStartsUnsettled,
    an_error_that_ends_the_handler_is_found: ErrorEndsHandler,
}

#[test]
fn no_interleaving_of_a_small_scope_breaks_a_promise() {
    let exhausted = exhaust(None);
    assert!(exhausted.finding.is_none(), "{exhausted}");
    // A search that finds nothing because it goes nowhere would be green, too.
    assert!(exhausted.states > 1_000_000, "{exhausted}");
}

#[test]
fn bugs_are_found_in_the_small_scope_too() {
    for bug in [
        Bug::RemovedBeforeRun,
        Bug::SettleIgnoresFence,
        Bug::ClaimTakesRunning,
        Bug::ClaimIgnoresExpiredLocks,
        Bug::ExpiryNotCounted,
        Bug::LockNeverExtended,
    ] {
        let found = exhaust(Some(bug)).finding;
        let promise = found.as_ref().map(|finding| finding.violation.promise);
        assert_eq!(promise, Some(bug.breaks()), "{bug:?}: {found:?}");
    }
}
