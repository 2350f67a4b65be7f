//! Locks: one holder at a time, take-over after expiry, fences, poison.

use std::time::Duration;

use delayq_core::presence::InstanceId;
use delayq_core::store::{
    AttemptEnd, ChangeOutcome, ClaimEnd, EndCause, ExtendOutcome, MAX_UNCOUNTED, SettleOutcome,
    SubmitOutcome,
};
use delayq_core::time::MAX_DELAY;
use delayq_core::{Bucket, Lock, TaskState, TaskType, Timestamp, When, hours, millis, minutes};

use super::rig::{LONG, Rig, SHORT, dead, every_end, id, job, release, retry, usual_type};

pub async fn a_task_is_claimed_again_only_after_its_lock_has_expired(rig: &Rig) {
    let first = rig.run("1").await;
    rig.claims_nothing().await;
    rig.expire(&first.lock).await;
    let second = rig.claim_one().await;
    assert_eq!(second.lock.id, first.lock.id);
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!((first.is_taken_over, second.is_taken_over), (false, true));
    assert!(second.lock.fence > first.lock.fence);
    assert_eq!(second.history.lock_expiries, 1);
    assert_eq!(second.history.failures, 0);
    assert_eq!(second.message, first.message);
    rig.claims_nothing().await;
}

pub async fn a_lock_is_taken_over_at_its_very_millisecond(rig: &Rig) {
    let first = rig.run("1").await;
    rig.extend(&first.lock, SHORT).await;
    let lock_until = rig.info("1").await.at;
    let early = rig.claim().await;
    let taken = if let Some(taken) = early.tasks.first() {
        // On a busy machine with a real clock the lock may already have expired.
        assert!(early.store_now() >= lock_until, "{early:?}");
        taken.clone()
    } else {
        assert_eq!(early.next_at(), Some(lock_until));
        rig.reach(lock_until).await;
        rig.claim_one().await
    };
    assert_eq!(taken.attempt, 2);
}

pub async fn tasks_with_expired_locks_are_claimed_before_due_ones(rig: &Rig) {
    rig.accept(job("a")).await;
    let mut running = rig.run_more(["b", "c"]).await;
    assert_eq!(running.len(), 3);
    running.sort_unstable_by(|one, other| one.lock.id.cmp(&other.lock.id));
    rig.accept(job("0")).await;
    // The lock of `c` ends first, then those of `a` and `b` together.
    rig.extend(&running[2].lock, SHORT).await;
    rig.pass(SHORT).await;
    let both = running[..2].iter().map(|task| task.lock.clone()).collect();
    rig.extend_all(both, SHORT).await;
    rig.pass(SHORT).await;
    rig.claim().await.assert_order(&["c", "a", "b", "0"]);
}

pub async fn expired_locks_count_to_the_limit_of_a_claim(rig: &Rig) {
    let first = rig.run("a").await;
    rig.expire(&first.lock).await;
    rig.accept(job("b")).await;
    let mut request = rig.request().await;
    request.limit = 1;
    let (first, second) = (rig.claim_as(&request).await, rig.claim_as(&request).await);
    assert_eq!((first.tasks.len(), second.tasks.len()), (1, 1));
    if first.parts.len() == 1 {
        assert_eq!([first.ids(), second.ids()], [["a"], ["b"]]);
    }
}

pub async fn what_a_claim_has_no_room_for_beside_expired_locks_stays_due(rig: &Rig) {
    let first = rig.run("a").await;
    rig.expire(&first.lock).await;
    for id in ["b", "c", "d"] {
        rig.accept(job(id)).await;
    }
    let mut request = rig.request().await;
    request.limit = 2;
    let (some, rest) = (rig.claim_as(&request).await, rig.claim().await);
    assert_eq!(some.tasks.len(), 2);
    let mut ids = [some.ids(), rest.ids()].concat();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b", "c", "d"]);
}

pub async fn a_repeat_after_a_lost_lock_was_due_when_the_submit_said(rig: &Rig) {
    let due_at = rig.accept(job("1")).await;
    let task = rig.claim_one().await;
    rig.settle(&task.lock, retry(SHORT)).await;
    rig.pass(SHORT).await;
    let second = rig.claim_one().await;
    assert!(second.due_at > due_at, "a retry has a due time of its own");
    assert!(!second.is_taken_over, "a failure is no expired lock");
    rig.expire(&second.lock).await;
    let third = rig.claim_one().await;
    assert_eq!((third.due_at, third.is_taken_over), (due_at, true));
}

pub async fn an_extended_lock_lasts_from_the_stores_now(rig: &Rig) {
    let task = rig.run("1").await;
    for lock_for in [hours(2), minutes(1)] {
        let before = rig.now().await;
        let outcome = rig.extend(&task.lock, lock_for).await;
        let after = rig.now().await;
        let ExtendOutcome::Extended(until) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(until >= before.plus(lock_for) && until <= after.plus(lock_for));
        assert_eq!(rig.info("1").await.at, until);
    }
    rig.claims_nothing().await;
}

pub async fn a_lock_is_never_cut_short_by_rounding(rig: &Rig) {
    rig.accept(job("1")).await;
    let mut request = rig.request().await;
    request.lock_for = Duration::from_nanos(1_000_001);
    let claimed = rig.claim_as(&request).await;
    let lock_until = claimed.tasks[0].lock_until;
    assert_eq!(lock_until.since(claimed.store_now()), millis(2));
}

pub async fn locks_stop_at_the_last_time_and_waits_at_ten_years(rig: &Rig) {
    let for_ever = Duration::MAX;
    rig.accept(job("1").expires_at(Timestamp::MAX)).await;
    let mut request = rig.request().await;
    request.lock_for = for_ever;
    let mut task = rig.claim_as(&request).await.tasks.remove(0);
    assert_eq!(task.lock_until, Timestamp::MAX);
    let extended = rig.extend(&task.lock, for_ever).await;
    assert_eq!(extended, ExtendOutcome::Extended(Timestamp::MAX));
    for end in [retry(for_ever), release(for_ever)] {
        let before = rig.now().await.plus(MAX_DELAY);
        rig.settled(&task.lock, end).await;
        let due_at = rig.info("1").await.at;
        assert!(due_at >= before && due_at <= rig.now().await.plus(MAX_DELAY + millis(1)));
        assert_eq!(rig.claim().await.next_at(), Some(due_at));
        let _ = rig.reschedule("1", When::After(Duration::ZERO)).await;
        task = rig.claim_one().await;
    }
    rig.settled(&task.lock, retry(millis(0))).await;
    let before = rig.now().await.plus(MAX_DELAY);
    let moved = rig.reschedule("1", When::After(for_ever)).await;
    let due_at = rig.info("1").await.at;
    assert_eq!(moved, ChangeOutcome::Changed { due_at });
    assert!(due_at >= before && due_at <= rig.now().await.plus(MAX_DELAY + millis(1)));
}

pub async fn an_expired_lock_that_nobody_took_over_still_settles(rig: &Rig) {
    for end in every_end() {
        let task = rig.run("1").await;
        rig.expire(&task.lock).await;
        assert_eq!(rig.settle(&task.lock, end).await, SettleOutcome::Settled);
        assert_ne!(rig.state("1").await, Some(TaskState::Running));
        rig.free("1").await;
    }
}

pub async fn an_expired_lock_that_nobody_took_over_can_be_extended(rig: &Rig) {
    let task = rig.run("1").await;
    rig.expire(&task.lock).await;
    assert!(matches!(
        rig.extend(&task.lock, LONG).await,
        ExtendOutcome::Extended(_)
    ));
    rig.claims_nothing().await;
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}

async fn lock_can_do_nothing(rig: &Rig, lock: &Lock) {
    let before = rig.find(lock.id.as_str()).await;
    assert_eq!(rig.extend(lock, hours(9)).await, ExtendOutcome::LockLost);
    for end in every_end() {
        assert_eq!(rig.settle(lock, end).await, SettleOutcome::LockLost);
    }
    assert_eq!(rig.find(lock.id.as_str()).await, before);
}

pub async fn an_old_fence_can_settle_extend_or_release_nothing(rig: &Rig) {
    let first = rig.run("1").await;
    rig.expire(&first.lock).await;
    let second = rig.claim_one().await;
    lock_can_do_nothing(rig, &first.lock).await;
    assert_eq!(
        rig.settle(&second.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
    lock_can_do_nothing(rig, &first.lock).await;
}

pub async fn an_old_fence_can_do_nothing_to_a_task_that_waits_or_died(rig: &Rig) {
    for end in [
        retry(LONG),
        release(LONG),
        dead("gone"),
        AttemptEnd::Expired,
    ] {
        let first = rig.run("1").await;
        rig.expire(&first.lock).await;
        let second = rig.claim_one().await;
        rig.settle(&second.lock, end).await;
        lock_can_do_nothing(rig, &first.lock).await;
        rig.free("1").await;
    }
}

pub async fn a_lock_that_never_was_can_do_nothing(rig: &Rig) {
    let task = rig.run("1").await;
    for fence in [
        0,
        1,
        task.lock.fence - 1,
        task.lock.fence + 1,
        (1 << 53) - 1,
    ] {
        let id = task.lock.id.clone();
        lock_can_do_nothing(rig, &Lock { id, fence }).await;
    }
    let fence = task.lock.fence;
    lock_can_do_nothing(rig, &Lock { id: id("2"), fence }).await;
    let other = Bucket::whole(TaskType::new("gift.refund").unwrap());
    let locks = vec![task.lock.clone()];
    let outcomes = rig.store().extend(&other, locks, LONG).await.unwrap();
    assert_eq!(outcomes, [ExtendOutcome::LockLost]);
}

pub async fn fences_grow_over_the_whole_life_of_an_id(rig: &Rig) {
    let first = rig.run("1").await.lock;
    rig.settle(&first, retry(SHORT)).await;
    rig.pass(SHORT).await;
    let second = rig.claim_one().await.lock;
    rig.settle(&second, dead("gone")).await;
    rig.submit(job("1").header("shop", "bonn").replace()).await;
    let third = rig.claim_one().await.lock;
    rig.settle(&third, AttemptEnd::Done).await;
    rig.store()
        .purge(&usual_type(), TaskState::Done)
        .await
        .unwrap();
    let fourth = rig.run("1").await.lock;
    let fences = [first, second, third, fourth].map(|lock| lock.fence);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

pub async fn a_task_whose_lock_expires_too_often_is_poison(rig: &Rig) {
    rig.accept(job("1")).await;
    rig.accept(job("2").after(LONG)).await;
    let mut request = rig.request().await;
    request.max_lock_expiries = 3;
    for attempt in 1..=3 {
        let claimed = rig.claim_as(&request).await;
        assert_eq!(claimed.tasks[0].attempt, attempt);
        rig.expire(&claimed.tasks[0].lock).await;
    }
    let claimed = rig.claim_as(&request).await;
    assert_eq!(claimed.tasks, []);
    let (id, cause) = (id("1"), EndCause::Poison);
    assert_eq!(claimed.ended, [ClaimEnd::new(id, cause)]);
    let info = rig.info("1").await;
    assert_eq!((info.state, info.attempt), (TaskState::Dead, 3));
    assert_eq!(info.history.lock_expiries, 3);
    let error = info.history.last_error.unwrap();
    let expected = "poison: its lock expired 3 times; its process may have crashed";
    assert_eq!(error, expected);
    assert_eq!(rig.state("2").await, Some(TaskState::Scheduled));
}

pub async fn a_task_is_poison_earlier_if_its_lock_expires_while_it_runs_alone(rig: &Rig) {
    rig.accept(job("1")).await;
    let request = rig
        .request()
        .await
        .max_lock_expiries(4)
        .max_alone_expiries(2);
    for is_alone in [true, false, true] {
        let claimed = rig.claim_as(&request).await;
        let lock = &claimed.tasks[0].lock;
        rig.extend_alone(lock, LONG).await;
        let outcome = if is_alone {
            rig.extend_alone(lock, SHORT).await
        } else {
            rig.extend(lock, SHORT).await
        };
        assert!(matches!(outcome, ExtendOutcome::Extended(_)));
        rig.pass(SHORT).await;
    }
    let ended = rig.claim_as(&request).await.ended;
    assert_eq!(ended, [ClaimEnd::new(id("1"), EndCause::Poison)]);
    let error = rig.info("1").await.history.last_error.unwrap();
    let expected = "poison: its lock expired 3 times, at last while it ran alone; its process may \
                    have crashed";
    assert_eq!(error, expected);
}

pub async fn a_mark_of_a_lock_goes_with_the_lock(rig: &Rig) {
    let lost = Lock {
        id: id("1"),
        fence: 1,
    };
    let first = rig.run("1").await.lock;
    assert_eq!(rig.extend_alone(&lost, LONG).await, ExtendOutcome::LockLost);
    rig.extend_alone(&first, LONG).await;
    let held = rig.info("1").await;
    rig.settled(&first, retry(Duration::ZERO)).await;
    rig.settled(&first, retry(Duration::ZERO)).await;
    let second = rig.claim_one().await.lock;
    assert_eq!(rig.info("1").await.holder, held.holder);
    rig.expire(&second).await;
    let request = rig.request().await.max_alone_expiries(1);
    let third = &rig.claim_as(&request).await.tasks[0].lock;
    rig.extend_alone(third, LONG).await;
    let _ = rig.cancel("1").await;
    let outcome = rig.extend_alone(third, LONG).await;
    assert!(matches!(outcome, ExtendOutcome::CancelRequested(_)));
    rig.settled(third, release(LONG)).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Cancelled));
    let state = TaskState::Cancelled;
    let again = rig.submit(job("1")).await;
    assert_eq!(again, SubmitOutcome::AlreadyExists { state });
}

pub async fn a_lock_of_another_holder_need_not_count(rig: &Rig) {
    rig.accept(job("1")).await;
    let (own, other) = (InstanceId::generate(), InstanceId::generate());
    let request = rig.request().await.max_lock_expiries(2).counting_own_only();
    let mut told = Vec::new();
    for holder in [&other, &own, &own] {
        let claimed = rig.claim_as(&request.clone().holder(holder)).await;
        let task = &claimed.tasks[0];
        let history = &task.history;
        told.push((task.attempt, history.lock_expiries, history.releases));
        rig.expire(&task.lock).await;
    }
    assert_eq!(told, [(1, 0, 0), (1, 0, 1), (2, 1, 1)]);
    let error = &rig.info("1").await.errors[1];
    assert_eq!(
        (error.attempt, error.holder.as_deref()),
        (1, Some(other.short()))
    );
    let claimed = rig.claim_as(&request.holder(&own)).await;
    assert_eq!(claimed.ended, [ClaimEnd::new(id("1"), EndCause::Poison)]);
}

pub async fn a_task_that_no_holder_survives_is_found_though_none_counts_for_another(rig: &Rig) {
    rig.accept(job("1")).await;
    let request = rig.request().await.max_lock_expiries(2).counting_own_only();
    let mut starts = 0;
    let ended = loop {
        let request = request.clone().holder(&InstanceId::generate());
        let claimed = rig.claim_as(&request).await;
        let Some(task) = claimed.tasks.first() else {
            break claimed.ended;
        };
        starts += 1;
        assert!(starts < 50, "none of these locks counts");
        rig.expire(&task.lock).await;
    };
    assert_eq!(ended, [ClaimEnd::new(id("1"), EndCause::Poison)]);
    assert_eq!(starts, MAX_UNCOUNTED + 2);
}

pub async fn no_lock_expiry_allowed_is_read_as_one(rig: &Rig) {
    let task = rig.run("1").await;
    let mut request = rig.request().await;
    request.max_lock_expiries = 0;
    assert_eq!(rig.claim_as(&request).await.ended, []);
    rig.expire(&task.lock).await;
    assert_eq!(rig.claim_as(&request).await.ended.len(), 1);
    assert_eq!(rig.state("1").await, Some(TaskState::Dead));
}

pub async fn failures_and_releases_are_not_poison(rig: &Rig) {
    rig.accept(job("1")).await;
    let mut request = rig.request().await;
    request.max_lock_expiries = 2;
    for end in [
        retry(Duration::ZERO),
        release(Duration::ZERO),
        retry(Duration::ZERO),
    ] {
        let claimed = rig.claim_as(&request).await;
        rig.settle(&claimed.tasks[0].lock, end).await;
    }
    let claimed = rig.claim_as(&request).await;
    rig.expire(&claimed.tasks[0].lock).await;
    let task = &rig.claim_as(&request).await.tasks[0];
    assert_eq!(task.attempt, 4);
    assert_eq!(
        (
            task.history.failures,
            task.history.lock_expiries,
            task.history.releases
        ),
        (2, 1, 1)
    );
}

pub async fn an_old_lock_cannot_touch_the_task_that_took_its_id(rig: &Rig) {
    let first = rig.run("1").await;
    rig.settle(&first.lock, AttemptEnd::Done).await;
    let outcome = rig.submit(job("1").header("shop", "bonn")).await;
    assert!(matches!(outcome, SubmitOutcome::Accepted { .. }));
    let second = rig.claim_one().await;
    let before = rig.find("1").await;
    assert_eq!(rig.extend(&first.lock, LONG).await, ExtendOutcome::LockLost);
    rig.settle(&first.lock, retry(LONG)).await;
    assert_eq!(rig.find("1").await, before);
    assert_eq!(
        rig.settle(&second.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}
