//! Claims: the tasks claimed, their order, never early, and the time of the next call.

use std::collections::{BTreeMap, BTreeSet};

use delayq_core::store::{AttemptEnd, CLOCK_GUARD, EndCause, MAX_BATCH};
use delayq_core::task::Headers;
use delayq_core::{AttemptHistory, TaskState, TaskType, Timestamp, When, hours, millis, minutes};

use super::rig::{LONG, Rig, Round, SHORT, job, retry, usual_type};

/// Submits tasks in one step: `(id, due time)`.
async fn schedule(rig: &Rig, tasks: impl IntoIterator<Item = (String, Timestamp)>) {
    let mut batch = Vec::new();
    for (id, due_at) in tasks {
        batch.push(rig.task(job(&id).at(due_at)).await);
    }
    for outcome in rig.store().submit(batch).await {
        outcome.unwrap();
    }
}

pub async fn a_claim_takes_tasks_by_due_time_then_by_id(rig: &Rig) {
    let base = rig.now().await.plus(LONG);
    let tasks = [
        ("b", 2),
        ("c", 1),
        ("a", 2),
        ("~", 1),
        ("!", 3),
        ("Z", 2),
        ("10", 2),
        ("9", 2),
    ];
    let tasks = tasks.map(|(id, ms)| (id.to_owned(), base.plus(millis(ms))));
    schedule(rig, tasks).await;
    for id in ["b", "c", "a", "~", "!", "Z", "10", "9"] {
        // No task is due before the last one has been moved, even on a slow machine.
        let due_at = rig.info(id).await.at.minus(LONG).plus(50 * SHORT);
        let _ = rig.reschedule(id, When::At(due_at)).await;
    }
    rig.pass(51 * SHORT).await;
    let claimed = rig.claim().await;
    claimed.assert_order(&["c", "~", "10", "9", "Z", "a", "b", "!"]);
}

pub async fn a_task_is_never_claimed_before_it_is_due(rig: &Rig) {
    let base = rig.now().await;
    let due = |n: u64| base.plus(millis(n * 3 % 50));
    schedule(rig, (0..50).map(|n| (n.to_string(), due(n)))).await;
    let mut taken = 0;
    while taken < 50 {
        let round = rig.claim().await;
        for (_, claimed) in &round.parts {
            for task in &claimed.tasks {
                assert!(task.due_at <= claimed.now, "{task:?} at {}", claimed.now);
            }
            assert!(claimed.now <= claimed.store_now);
        }
        assert!(!round.is_more_due(), "everything that was due is claimed");
        taken += round.tasks.len();
        let next = round.next_at().unwrap();
        rig.reach(next.min(round.now().plus(SHORT))).await;
    }
    rig.claims_nothing().await;
}

pub async fn a_task_is_claimed_at_its_very_millisecond(rig: &Rig) {
    let due_at = rig.accept(job("1").after(SHORT)).await;
    rig.reach(due_at).await;
    assert_eq!(rig.claim_one().await.due_at, due_at);
}

pub async fn a_claimed_task_has_all_that_was_sent(rig: &Rig) {
    let job = job("1").header("shop", "berlin").expires_after(LONG);
    let due_at = rig.accept(job).await;
    let claimed = rig.claim().await;
    assert_eq!(claimed.tasks.len(), 1);
    let task = &claimed.tasks[0];
    assert_eq!(task.lock.id.as_str(), "1");
    assert_eq!(task.lock_until, claimed.store_now().plus(LONG));
    assert_eq!(task.attempt, 1);
    assert_eq!(task.due_at, due_at);
    assert_eq!(task.submitted_at, due_at);
    assert_eq!(task.expires_at, Some(due_at.plus(LONG)));
    assert_eq!(task.message, b"message");
    let headers = Headers::from([("shop".to_owned(), "berlin".to_owned())]);
    assert_eq!(task.headers, headers);
    assert_eq!(task.history, AttemptHistory::default());
}

pub async fn a_claimed_task_is_running_until_its_lock_expires(rig: &Rig) {
    let task = rig.run("1").await;
    let info = rig.info("1").await;
    assert_eq!((info.state, info.at), (TaskState::Running, task.lock_until));
    assert_eq!(info.attempt, 1);
    assert_eq!(info.message, Some(task.message));
}

pub async fn ids_of_one_letter_and_any_length_are_claimed_together(rig: &Rig) {
    let now = rig.now().await;
    let ids: BTreeSet<String> = (1..=128).map(|length| "-".repeat(length)).collect();
    schedule(rig, ids.iter().map(|id| (id.clone(), now))).await;
    rig.pass(SHORT).await;
    let claimed = rig.claim().await;
    let found: BTreeSet<&str> = claimed.ids().into_iter().collect();
    assert_eq!(found, ids.iter().map(String::as_str).collect());
    for lock in claimed.tasks.into_iter().map(|task| task.lock) {
        rig.settled(&lock, AttemptEnd::Done).await;
    }
    rig.claims_nothing().await;
}

pub async fn a_claim_takes_no_more_than_its_limit(rig: &Rig) {
    let now = rig.now().await;
    schedule(rig, (0..5).map(|n| (n.to_string(), now))).await;
    let mut request = rig.request().await;
    request.limit = 2;
    for expected in [&["0", "1"][..], &["2", "3"], &["4"]] {
        let claimed = rig.claim_as(&request).await;
        assert_eq!(claimed.tasks.len(), expected.len());
        if claimed.parts.len() == 1 {
            claimed.assert_order(expected);
        }
        assert_eq!(claimed.is_more_due(), expected != ["4"]);
    }
}

pub async fn a_claim_of_nothing_still_says_when_to_call_again(rig: &Rig) {
    let later = rig.accept(job("later").after(LONG)).await;
    let mut request = rig.request().await;
    request.limit = 0;
    assert_eq!(rig.claim_as(&request).await.next_at(), Some(later));
    rig.accept(job("1")).await;
    let claimed = rig.claim_as(&request).await;
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (0, 0));
    assert!(claimed.is_more_due());
    rig.claim_one().await;
}

pub async fn a_claim_without_a_limit_is_capped(rig: &Rig) {
    let now = rig.now().await;
    schedule(rig, (0..300).map(|n| (n.to_string(), now))).await;
    let mut request = rig.request().await;
    request.limit = usize::MAX;
    let mut taken = 0;
    for _ in 0..4 {
        let round = rig.claim_as(&request).await;
        for (bucket, claimed) in &round.parts {
            assert!(claimed.tasks.len() <= MAX_BATCH);
            let is_rest = claimed.next_in.is_none_or(|next_in| !next_in.is_zero());
            assert!(is_rest || claimed.tasks.len() == MAX_BATCH, "{bucket}");
        }
        taken += round.tasks.len();
    }
    assert_eq!(taken, 300);
}

pub async fn claims_at_the_same_time_share_the_tasks(rig: &Rig) {
    let now = rig.now().await;
    schedule(rig, (0..100).map(|n| (n.to_string(), now))).await;
    let mut request = rig.request().await;
    request.limit = 30;
    let (a, b, c, d) = tokio::join!(
        rig.claim_as(&request),
        rig.claim_as(&request),
        rig.claim_as(&request),
        rig.claim_as(&request),
    );
    let all = [a, b, c, d].into_iter().flat_map(|claimed| claimed.tasks);
    let all: Vec<_> = all.map(|task| task.lock.id).collect();
    assert_eq!(all.len(), 100);
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 100);
}

pub async fn a_claim_of_an_unknown_type_finds_nothing(rig: &Rig) {
    let unknown = TaskType::new("gift.refund").unwrap();
    let claimed = rig.claim_of(&unknown, &rig.request().await).await;
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (0, 0));
    assert_eq!(claimed.next_at(), None);
}

pub async fn the_next_claim_is_none_when_nothing_is_scheduled_or_running(rig: &Rig) {
    assert_eq!(rig.claim().await.next_at(), None);
    rig.bring("done", TaskState::Done).await;
    rig.bring("dead", TaskState::Dead).await;
    assert_eq!(rig.claim().await.next_at(), None);
}

pub async fn the_next_claim_is_the_first_due_time_or_end_of_a_lock(rig: &Rig) {
    let due_at = rig.accept(job("2").after(hours(3))).await;
    rig.accept(job("3").after(hours(4))).await;
    assert_eq!(rig.claim().await.next_at(), Some(due_at));
    let running = rig.run("1").await;
    assert!(running.lock_until < due_at);
    assert_eq!(rig.claim().await.next_at(), Some(running.lock_until));
    rig.extend(&running.lock, hours(9)).await;
    assert_eq!(rig.claim().await.next_at(), Some(due_at));
    let _ = rig.cancel("2").await;
    let _ = rig.cancel("3").await;
    let lock_until = rig.info("1").await.at;
    assert_eq!(rig.claim().await.next_at(), Some(lock_until));
    rig.settle(&running.lock, retry(hours(5))).await;
    let due_at = rig.info("1").await.at;
    assert_eq!(rig.claim().await.next_at(), Some(due_at));
}

pub async fn the_next_claim_counts_the_locks_just_taken(rig: &Rig) {
    rig.accept(job("1")).await;
    let claimed = rig.claim().await;
    assert_eq!(claimed.next_at(), Some(claimed.tasks[0].lock_until));
}

pub async fn every_lock_has_a_larger_fence(rig: &Rig) {
    let now = rig.now().await;
    schedule(rig, (0..200).map(|n| (n.to_string(), now))).await;
    let mut last = BTreeMap::new();
    for _ in 0..2 {
        for (bucket, claimed) in rig.claim().await.parts {
            let last = last.entry(bucket).or_insert(0);
            for task in claimed.tasks {
                assert!(task.lock.fence > *last, "{} after {last}", task.lock.fence);
                assert!(task.lock.fence < 1 << 53);
                *last = task.lock.fence;
            }
        }
    }
    assert!(last.values().any(|fence| *fence > 0));
}

pub async fn a_claim_tells_the_largest_fence_given_before_it(rig: &Rig) {
    let mut given = BTreeMap::new();
    let mut claim = async || {
        for (bucket, claimed) in rig.claim().await.parts {
            let given = given.entry(bucket).or_insert(0);
            assert_eq!(claimed.high_water, *given);
            let fences = claimed.tasks.iter().map(|task| task.lock.fence);
            *given = fences.max().unwrap_or(*given);
        }
    };
    claim().await;
    rig.accept(job("waits").after(LONG)).await;
    claim().await;
    for id in ["1", "2", "3", "4"] {
        rig.accept(job(id)).await;
        claim().await;
        claim().await;
    }
    rig.store().pause(&usual_type(), None).await.unwrap();
    claim().await;
}

async fn claim_behind(rig: &Rig) -> Round {
    let mut request = rig.request().await;
    request.caller_now = request.caller_now.minus(LONG);
    let claimed = rig.claim_as(&request).await;
    assert_eq!(claimed.now(), request.caller_now.plus(CLOCK_GUARD));
    assert!(claimed.store_now().since(claimed.now()) >= minutes(59));
    claimed
}

pub async fn a_store_clock_far_ahead_of_the_caller_starts_nothing_early(rig: &Rig) {
    let due_at = rig.accept(job("1")).await;
    let claimed = claim_behind(rig).await;
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (0, 0));
    assert_eq!(claimed.next_at(), Some(due_at));
    rig.claim_one().await;
}

pub async fn a_task_is_claimed_at_its_time_and_not_a_moment_before(rig: &Rig) {
    let due_at = rig.accept(job("1").after(millis(150))).await;
    let mut claimed = rig.claim().await;
    while claimed.tasks.is_empty() {
        rig.pass(millis(1)).await;
        claimed = rig.claim().await;
    }
    assert!(claimed.now() >= due_at, "{:?} at {due_at:?}", claimed.now());
}

pub async fn a_caller_far_ahead_of_the_store_starts_nothing_early(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    let mut request = rig.request().await;
    request.caller_now = request.caller_now.plus(LONG + LONG);
    let claimed = rig.claim_as(&request).await;
    assert_eq!(claimed.tasks, []);
    assert_eq!(claimed.now(), claimed.store_now());
}

pub async fn locks_live_on_the_stores_clock_alone(rig: &Rig) {
    let first = rig.run("1").await;
    assert_eq!(claim_behind(rig).await.tasks, []);
    rig.expire(&first.lock).await;
    let claimed = claim_behind(rig).await;
    assert_eq!(claimed.ids(), ["1"]);
    assert_eq!(claimed.tasks[0].lock_until, claimed.store_now().plus(LONG));
}

pub async fn an_expiry_is_not_judged_by_a_store_clock_far_ahead(rig: &Rig) {
    rig.accept(job("1").expires_after(SHORT)).await;
    // On a slow machine it may have expired before the first claim; then there is nothing to check.
    let claimed = rig.claim().await;
    if let Some(first) = claimed.tasks.first() {
        rig.expire(&first.lock).await;
        assert_eq!(claim_behind(rig).await.ids(), ["1"]);
    } else {
        assert_eq!(claimed.ended[0].cause, EndCause::Expired);
    }
}
