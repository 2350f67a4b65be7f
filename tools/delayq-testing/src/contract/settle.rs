//! Settlements: the ends of attempts.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, MAX_ERROR_BYTES, SettleOutcome, Settlement};
use delayq_core::{AttemptHistory, Bucket, Lock, TaskState, TaskType, Timestamp, hours, millis};

use super::micros::micros;
use super::rig::{LONG, Rig, SHORT, dead, id, job, release, retry, usual_type};

pub async fn a_done_task_is_remembered_without_its_message(rig: &Rig) {
    let task = rig.run("1").await;
    let before = rig.now().await;
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
    let info = rig.info("1").await;
    assert_eq!((info.state, info.attempt), (TaskState::Done, 1));
    assert!(info.at >= before && info.at <= rig.now().await);
    assert_eq!(
        (info.message, info.submitted_at, info.expires_at),
        (None, None, None)
    );
    assert!(info.headers.is_empty());
    assert_eq!(info.history, AttemptHistory::default());
    rig.claims_nothing().await;
}

pub async fn an_expired_settlement_ends_the_task(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settle(&task.lock, AttemptEnd::Expired).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Expired));
    rig.claims_nothing().await;
}

/// Settles a new task and returns its new due time: exactly `after` from the store's present time.
async fn due_again(rig: &Rig, end: AttemptEnd, after: Duration) -> Timestamp {
    let task = rig.run("1").await;
    let before = rig.now().await;
    assert_eq!(rig.settle(&task.lock, end).await, SettleOutcome::Settled);
    let info = rig.info("1").await;
    assert_eq!(info.state, TaskState::Scheduled);
    assert!(info.at >= before.plus(after) && info.at <= rig.now().await.plus(after + millis(1)));
    info.at
}

pub async fn a_retry_is_due_after_its_wait_and_counts_a_failure(rig: &Rig) {
    let end = AttemptEnd::Retry {
        after: SHORT,
        error: "the shop is closed".to_owned(),
        succeeded: vec!["mailer".to_owned(), "stock ü".to_owned()],
    };
    let due_at = due_again(rig, end, SHORT).await;
    let history = rig.info("1").await.history;
    assert_eq!(
        (history.failures, history.lock_expiries, history.releases),
        (1, 0, 0)
    );
    assert_eq!(history.last_error.as_deref(), Some("the shop is closed"));
    assert_eq!(history.succeeded, ["mailer", "stock ü"]);
    rig.reach(due_at).await;
    let task = rig.claim_one().await;
    assert_eq!((task.attempt, task.due_at), (2, due_at));
    assert_eq!(task.history, history);
}

pub async fn a_release_is_due_after_its_wait_and_burns_no_attempt(rig: &Rig) {
    let end = AttemptEnd::Release {
        after: SHORT,
        succeeded: vec!["mailer".to_owned()],
    };
    let due_at = due_again(rig, end, SHORT).await;
    assert_eq!(rig.info("1").await.attempt, 0);
    rig.reach(due_at).await;
    let task = rig.claim_one().await;
    assert_eq!((task.attempt, task.due_at), (1, due_at));
    assert_eq!((task.history.failures, task.history.releases), (0, 1));
    assert_eq!(task.history.succeeded, ["mailer"]);
    assert_eq!(task.history.last_error, None);
}

pub async fn a_retry_without_a_wait_can_be_claimed_at_once(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settle(&task.lock, retry(Duration::ZERO)).await;
    assert_eq!(rig.claim_one().await.attempt, 2);
}

pub async fn a_wait_counts_from_the_end_of_the_present_millisecond(rig: &Rig) {
    for n in 0..50 {
        let id = n.to_string();
        let task = rig.run(&id).await;
        let before = micros(rig).await;
        rig.settled(&task.lock, release(millis(1))).await;
        assert!(rig.info(&id).await.at.as_millis() * 1_000 >= before + 1_000);
        let _ = rig.cancel(&id).await;
    }
}

pub async fn a_dead_task_is_parked_with_its_error_and_message(rig: &Rig) {
    let task = rig.run("1").await;
    let before = rig.now().await;
    rig.settle(&task.lock, dead("no such order")).await;
    let info = rig.info("1").await;
    assert_eq!((info.state, info.attempt), (TaskState::Dead, 1));
    assert!(info.at >= before && info.at <= rig.now().await);
    assert_eq!(info.message, Some(task.message));
    assert_eq!(info.history.failures, 1);
    assert_eq!(info.history.last_error.as_deref(), Some("no such order"));
    rig.claims_nothing().await;
}

pub async fn succeeded_workers_survive_a_lost_lock_and_a_death(rig: &Rig) {
    let task = rig.run("1").await;
    let end = AttemptEnd::Retry {
        after: Duration::ZERO,
        error: "e".to_owned(),
        succeeded: vec!["mailer".to_owned()],
    };
    rig.settle(&task.lock, end).await;
    let task = rig.claim_one().await;
    rig.expire(&task.lock).await;
    let task = rig.claim_one().await;
    assert_eq!(task.history.succeeded, ["mailer"]);
    let end = AttemptEnd::Dead {
        error: "gone".to_owned(),
        succeeded: vec!["mailer".to_owned(), "stock".to_owned()],
    };
    rig.settle(&task.lock, end).await;
    assert_eq!(rig.info("1").await.history.succeeded, ["mailer", "stock"]);
}

pub async fn attempts_are_explained_by_failures_and_lost_locks(rig: &Rig) {
    rig.accept(job("1")).await;
    for expected in [1, 2, 2, 3] {
        let task = rig.claim_one().await;
        assert_eq!(task.attempt, expected);
        match (expected, task.history.releases) {
            (1, _) => rig.settled(&task.lock, retry(Duration::ZERO)).await,
            (2, 0) => rig.settled(&task.lock, release(Duration::ZERO)).await,
            _ => rig.expire(&task.lock).await,
        }
    }
    let history = rig.claim_one().await.history;
    assert_eq!(
        (history.failures, history.lock_expiries, history.releases),
        (1, 2, 1)
    );
}

pub async fn an_ended_task_is_remembered_with_all_its_attempts(rig: &Rig) {
    for end in [AttemptEnd::Done, AttemptEnd::Expired, retry(LONG)] {
        let first = rig.run("1").await;
        rig.settled(&first.lock, retry(Duration::ZERO)).await;
        let second = rig.claim_one().await;
        rig.expire(&second.lock).await;
        let third = rig.claim_one().await;
        rig.settled(&third.lock, end).await;
        let _ = rig.cancel("1").await;
        let info = rig.info("1").await;
        assert_eq!(info.attempt, 3, "{:?}", info.state);
        rig.free("1").await;
    }
}

pub async fn a_batch_of_settlements_has_one_outcome_each_in_order(rig: &Rig) {
    rig.accept(job("other")).await;
    let stale = rig.claim_one().await;
    rig.expire(&stale.lock).await;
    let mut batch = Vec::new();
    let running = rig.run_more((0..4).map(|n| n.to_string())).await;
    let ends = [
        AttemptEnd::Done,
        retry(LONG),
        release(LONG),
        dead("gone"),
        AttemptEnd::Done,
    ];
    for (task, end) in running.iter().zip(ends) {
        batch.push(Settlement::new(task.lock.clone(), end));
    }
    let stale = Settlement::new(stale.lock.clone(), AttemptEnd::Done);
    batch.insert(2, stale);
    let outcomes = rig.settle_all(batch).await;
    let mut expected = [SettleOutcome::Settled; 6];
    expected[2] = SettleOutcome::LockLost;
    assert_eq!(outcomes, expected);
    let mut states = Vec::new();
    for task in &running {
        states.push(rig.state(task.lock.id.as_str()).await.unwrap());
    }
    let (done, waits) = (TaskState::Done, TaskState::Scheduled);
    assert_eq!(states, [done, waits, waits, TaskState::Dead, done]);
}

pub async fn batches_above_the_cap_are_settled_and_extended_whole(rig: &Rig) {
    let ids: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let running = rig.run_more(ids).await;
    assert_eq!(running.len(), 300);
    let locks: Vec<Lock> = running.into_iter().map(|task| task.lock).collect();
    let extended = rig.extend_all(locks.clone(), hours(2)).await;
    assert_eq!(extended.len(), 300);
    let settlement = |lock| Settlement::new(lock, AttemptEnd::Done);
    let batch = locks.into_iter().map(settlement).collect();
    let outcomes = rig.settle_all(batch).await;
    assert_eq!(outcomes, vec![SettleOutcome::Settled; 300]);
    assert_eq!(rig.store().stats(&usual_type()).await.unwrap().running, 0);
}

pub async fn a_lock_twice_in_one_batch_is_settled_once(rig: &Rig) {
    let task = rig.run("1").await;
    let locks = vec![task.lock.clone(), task.lock.clone()];
    let extended = rig.extend_all(locks.clone(), LONG).await;
    assert_eq!(extended.len(), 2);
    let ends = [retry(Duration::ZERO), AttemptEnd::Done];
    let batch = locks
        .into_iter()
        .zip(ends)
        .map(|(lock, end)| Settlement::new(lock, end));
    let outcomes = rig.settle_all(batch.collect()).await;
    assert_eq!(outcomes, [SettleOutcome::Settled, SettleOutcome::LockLost]);
    assert_eq!(rig.claim_one().await.history.failures, 1);
}

pub async fn empty_batches_are_answered_with_nothing(rig: &Rig) {
    for bucket in rig.buckets(&usual_type()).await {
        let settled = rig.store().settle(&bucket, Vec::new()).await;
        assert_eq!(settled, Ok(Vec::new()));
        let extended = rig.store().extend(&bucket, Vec::new(), LONG).await;
        assert_eq!(extended, Ok(Vec::new()));
    }
}

pub async fn a_long_error_is_cut_at_a_character(rig: &Rig) {
    for end in [
        retry_with(&"ä".repeat(2_000)),
        dead(&format!("x{}", "ä".repeat(2_000))),
    ] {
        let task = rig.run("1").await;
        rig.settle(&task.lock, end).await;
        let error = rig.info("1").await.history.last_error.unwrap();
        assert!(error.len() >= MAX_ERROR_BYTES - 1 && error.len() <= MAX_ERROR_BYTES);
        assert!(error.ends_with('ä'));
        rig.free("1").await;
    }
}

fn retry_with(error: &str) -> AttemptEnd {
    AttemptEnd::Retry {
        after: LONG,
        error: error.to_owned(),
        succeeded: Vec::new(),
    }
}

pub async fn an_error_of_any_text_is_kept(rig: &Rig) {
    for error in [
        "",
        "\0\"\\\n\r\t'",
        "{\"cjson\":null}",
        "%s %d",
        "日本語 🎉",
        "nil",
    ] {
        let task = rig.run("1").await;
        rig.settle(&task.lock, dead(error)).await;
        assert_eq!(
            rig.info("1").await.history.last_error.as_deref(),
            Some(error)
        );
        rig.free("1").await;
    }
}

pub async fn a_lock_of_one_type_settles_nothing_in_another(rig: &Rig) {
    let task = rig.run("1").await;
    let other = Bucket::whole(TaskType::new("gift.refund").unwrap());
    let settlement = Settlement::new(task.lock.clone(), AttemptEnd::Done);
    let outcomes = rig.store().settle(&other, vec![settlement]).await.unwrap();
    assert_eq!(outcomes, [SettleOutcome::LockLost]);
    assert_eq!(rig.state("1").await, Some(TaskState::Running));
    assert_eq!(task.lock.id, id("1"));
}
