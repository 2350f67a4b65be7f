//! Claiming: what is due, in which order, never early, and when to call again.

use std::collections::BTreeSet;

use delayq_core::store::{AttemptEnd, CLOCK_GUARD, Claimed, EndCause, MAX_BATCH};
use delayq_core::task::Headers;
use delayq_core::{TaskState, TaskType, Timestamp, Trail, When, hours, millis, minutes};

use super::rig::{LONG, Rig, SHORT, claimed_ids, job, retry, usual_type};

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
        // None is due before the last one has been moved, on a slow machine too.
        let due_at = rig.info(id).await.at.minus(LONG).plus(50 * SHORT);
        rig.reschedule(id, When::At(due_at)).await;
    }
    rig.pass(51 * SHORT).await;
    let claimed = rig.claim().await;
    assert_eq!(
        claimed_ids(&claimed),
        ["c", "~", "10", "9", "Z", "a", "b", "!"]
    );
}

pub async fn a_task_is_never_claimed_before_it_is_due(rig: &Rig) {
    let base = rig.now().await;
    let due = |n: u64| base.plus(millis(n * 3 % 50));
    schedule(rig, (0..50).map(|n| (n.to_string(), due(n)))).await;
    let mut taken = 0;
    while taken < 50 {
        let claimed = rig.claim().await;
        for task in &claimed.tasks {
            assert!(task.due_at <= claimed.now, "{task:?} at {}", claimed.now);
            assert!(claimed.now <= claimed.store_now);
        }
        taken += claimed.tasks.len();
        let stats = rig.store().stats(&usual_type()).await.unwrap();
        let next_due = claimed.next_due.unwrap();
        // The partitions of a split type are looked at one after the other.
        if !rig.is_split() {
            assert!(next_due > claimed.now, "everything that was due is claimed");
            assert!(stats.next_due.is_none_or(|due_at| due_at == next_due));
        }
        rig.reach(next_due.min(claimed.now.plus(SHORT))).await;
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
    assert_eq!(task.lock_until, claimed.store_now.plus(LONG));
    assert_eq!(task.attempt, 1);
    assert_eq!(task.due_at, due_at);
    assert_eq!(task.submitted_at, due_at);
    assert_eq!(task.expires_at, Some(due_at.plus(LONG)));
    assert_eq!(task.message, b"message");
    let headers = Headers::from([("shop".to_owned(), "berlin".to_owned())]);
    assert_eq!(task.headers, headers);
    assert_eq!(task.trail, Trail::default());
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
    let found: BTreeSet<&str> = claimed_ids(&claimed).into_iter().collect();
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
        assert!(rig.is_split() || claimed_ids(&claimed) == expected);
        let more_is_due = claimed.next_due.is_some_and(|due_at| due_at <= claimed.now);
        assert_eq!(more_is_due, expected != ["4"]);
    }
}

pub async fn a_claim_of_nothing_still_says_when_to_call_again(rig: &Rig) {
    let due_at = rig.accept(job("1")).await;
    let mut request = rig.request().await;
    request.limit = 0;
    let claimed = rig.claim_as(&request).await;
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (0, 0));
    assert_eq!(claimed.next_due, Some(due_at));
    assert!(claimed.past < millis(1), "{:?}", claimed.past);
    rig.claim_one().await;
}

pub async fn a_claim_without_a_limit_is_capped(rig: &Rig) {
    let now = rig.now().await;
    schedule(rig, (0..300).map(|n| (n.to_string(), now))).await;
    let mut request = rig.request().await;
    request.limit = usize::MAX;
    let mut sizes = Vec::new();
    for _ in 0..4 {
        sizes.push(rig.claim_as(&request).await.tasks.len());
    }
    if rig.is_split() {
        // Each partition has a cap of its own.
        assert_eq!(sizes.iter().sum::<usize>(), 300, "{sizes:?}");
    } else {
        assert_eq!(sizes, [MAX_BATCH, MAX_BATCH, 300 - 2 * MAX_BATCH, 0]);
    }
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
    let claimed = rig
        .store()
        .claim(&unknown, &rig.request().await)
        .await
        .unwrap();
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (0, 0));
    assert_eq!(claimed.next_due, None);
}

pub async fn next_due_is_none_when_nothing_is_scheduled_or_running(rig: &Rig) {
    assert_eq!(rig.claim().await.next_due, None);
    rig.bring("done", TaskState::Done).await;
    rig.bring("dead", TaskState::Dead).await;
    assert_eq!(rig.claim().await.next_due, None);
}

pub async fn next_due_is_the_first_due_time_or_end_of_a_lock(rig: &Rig) {
    let due_at = rig.accept(job("2").after(hours(3))).await;
    rig.accept(job("3").after(hours(4))).await;
    assert_eq!(rig.claim().await.next_due, Some(due_at));
    let running = rig.run("1").await;
    assert!(running.lock_until < due_at);
    assert_eq!(rig.claim().await.next_due, Some(running.lock_until));
    rig.extend(&running.lock, hours(9)).await;
    assert_eq!(rig.claim().await.next_due, Some(due_at));
    rig.cancel("2").await;
    rig.cancel("3").await;
    let lock_until = rig.info("1").await.at;
    assert_eq!(rig.claim().await.next_due, Some(lock_until));
    rig.settle(&running.lock, retry(hours(5))).await;
    let due_at = rig.info("1").await.at;
    assert_eq!(rig.claim().await.next_due, Some(due_at));
}

pub async fn next_due_counts_the_locks_just_taken(rig: &Rig) {
    rig.accept(job("1")).await;
    let claimed = rig.claim().await;
    assert_eq!(claimed.next_due, Some(claimed.tasks[0].lock_until));
}

pub async fn every_lock_has_a_larger_fence(rig: &Rig) {
    let now = rig.now().await;
    schedule(rig, (0..200).map(|n| (n.to_string(), now))).await;
    let mut last = 0;
    for _ in 0..2 {
        for task in rig.claim().await.tasks {
            let is_larger = task.lock.fence > last || rig.is_split();
            assert!(is_larger, "{} after {last}", task.lock.fence);
            assert!(task.lock.fence < 1 << 53);
            last = task.lock.fence;
        }
    }
}

pub async fn a_claim_tells_the_largest_fence_given_before_it(rig: &Rig) {
    assert_eq!(rig.claim().await.high_water, 0);
    rig.accept(job("waits").after(LONG)).await;
    assert_eq!(rig.claim().await.high_water, 0);
    let mut given = 0;
    for id in ["1", "2"] {
        rig.accept(job(id)).await;
        let claimed = rig.claim().await;
        assert_eq!(claimed.high_water, given);
        given = claimed.tasks[0].lock.fence;
        assert_eq!(rig.claim().await.high_water, given);
    }
    rig.store().pause(&usual_type(), None).await.unwrap();
    assert_eq!(rig.claim().await.high_water, given);
}

async fn claim_behind(rig: &Rig) -> Claimed {
    let mut request = rig.request().await;
    request.caller_now = request.caller_now.minus(LONG);
    let claimed = rig.claim_as(&request).await;
    assert_eq!(claimed.now, request.caller_now.plus(CLOCK_GUARD));
    assert!(claimed.store_now.since(claimed.now) >= minutes(59));
    claimed
}

pub async fn a_store_clock_far_ahead_of_the_caller_starts_nothing_early(rig: &Rig) {
    let due_at = rig.accept(job("1")).await;
    let claimed = claim_behind(rig).await;
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (0, 0));
    assert_eq!(claimed.next_due, Some(due_at));
    rig.claim_one().await;
}

pub async fn a_caller_far_ahead_of_the_store_starts_nothing_early(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    let mut request = rig.request().await;
    request.caller_now = request.caller_now.plus(LONG + LONG);
    let claimed = rig.claim_as(&request).await;
    assert_eq!(claimed.tasks, []);
    assert_eq!(claimed.now, claimed.store_now);
}

pub async fn locks_live_on_the_stores_clock_alone(rig: &Rig) {
    let first = rig.run("1").await;
    assert_eq!(claim_behind(rig).await.tasks, []);
    rig.expire(&first.lock).await;
    let claimed = claim_behind(rig).await;
    assert_eq!(claimed_ids(&claimed), ["1"]);
    assert_eq!(claimed.tasks[0].lock_until, claimed.store_now.plus(LONG));
}

pub async fn an_expiry_is_not_judged_by_a_store_clock_far_ahead(rig: &Rig) {
    rig.accept(job("1").expires_after(SHORT)).await;
    // A slow machine may have let it expire before the first claim: then there is nothing to see.
    let claimed = rig.claim().await;
    if let Some(first) = claimed.tasks.first() {
        rig.expire(&first.lock).await;
        assert_eq!(claimed_ids(&claim_behind(rig).await), ["1"]);
    } else {
        assert_eq!(claimed.ended[0].cause, EndCause::Expired);
    }
}
