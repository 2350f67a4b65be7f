//! Notes of settlements.

use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{AttemptEnd, MAX_NOTE_BYTES, SettleOutcome, Settlement};
use delayq_core::{AttemptHistory, Lock, TaskState, When};

use super::rig::{LONG, Rig, dead, job, release, retry, usual_type};

/// Settles with a note, and returns the outcome.
async fn settle(rig: &Rig, lock: &Lock, end: AttemptEnd, note: &str) -> SettleOutcome {
    let settlement = Settlement::new(lock.clone(), end).with_note(note);
    rig.settle_all(vec![settlement]).await[0]
}

/// A task that was given back with a note, and is due.
async fn noted(rig: &Rig, id: &str, note: &str) {
    let task = rig.run(id).await;
    assert_eq!(task.history.note, None);
    let outcome = settle(rig, &task.lock, release(Duration::ZERO), note).await;
    assert_eq!(outcome, SettleOutcome::Settled);
}

async fn note_of(rig: &Rig, id: &str) -> Option<String> {
    rig.info(id).await.history.note
}

async fn requeue(rig: &Rig) {
    let (task_type, all) = (usual_type(), DeadFilter::all());
    let requeued = rig.store().requeue_dead(&task_type, &all, Duration::ZERO);
    assert_eq!(requeued.await.unwrap().len(), 1);
}

pub async fn a_note_is_shown_to_whoever_claims_the_task_next_or_looks_at_it(rig: &Rig) {
    let ends = [retry(Duration::ZERO), release(Duration::ZERO), dead("gone")];
    for (end, note) in ends.into_iter().zip(["a", "b", "c"]) {
        let task = rig.run("1").await;
        let (due, is_dead) = (end.due_again_in(), end.due_again_in().is_none());
        let outcome = settle(rig, &task.lock, end, note).await;
        assert_eq!(outcome, SettleOutcome::Settled);
        let info = rig.info("1").await;
        assert_eq!(info.history.note.as_deref(), Some(note), "{due:?}");
        let task_type = usual_type();
        let list = rig.store().list(&task_type, info.state, None, 9);
        let listed = &list.await.unwrap().tasks[0];
        assert_eq!(listed.history, info.history);
        assert_eq!(listed.errors, info.errors);
        if is_dead {
            requeue(rig).await;
        }
        let next = rig.claim_one().await;
        assert_eq!(next.history.note.as_deref(), Some(note));
        assert_eq!(next.history.last_error, info.history.last_error);
        assert_eq!(note_of(rig, "1").await.as_deref(), Some(note), "it runs");
        rig.settled(&next.lock, AttemptEnd::Done).await;
        rig.free("1").await;
    }
}

pub async fn a_note_stays_until_another_settlement_has_one(rig: &Rig) {
    noted(rig, "1", "first").await;
    for end in [retry(Duration::ZERO), release(Duration::ZERO)] {
        let task = rig.claim_one().await;
        rig.expire(&task.lock).await;
        let task = rig.claim_one().await;
        assert_eq!(task.history.note.as_deref(), Some("first"));
        rig.settled(&task.lock, end).await;
        assert_eq!(note_of(rig, "1").await.as_deref(), Some("first"));
    }
    let _ = rig.reschedule("1", When::After(LONG)).await;
    let _ = rig.update("1", "other").await;
    assert_eq!(note_of(rig, "1").await.as_deref(), Some("first"));
    rig.run_now("1").await;
    let task = rig.claim_one().await;
    assert_eq!(task.message, b"other");
    settle(rig, &task.lock, retry(Duration::ZERO), "second").await;
    let task = rig.claim_one().await;
    assert_eq!(task.history.note.as_deref(), Some("second"));
    let history = rig.info("1").await.history;
    assert_eq!(
        (history.failures, history.lock_expiries, history.releases),
        (2, 2, 2)
    );
}

/// More errors than are kept of a task do not push it out.
pub async fn a_note_outlives_every_error_and_a_requeue(rig: &Rig) {
    noted(rig, "1", "kept").await;
    for _ in 0..7 {
        let task = rig.claim_one().await;
        rig.settled(&task.lock, retry(Duration::ZERO)).await;
    }
    let task = rig.claim_one().await;
    rig.settled(&task.lock, dead("gone")).await;
    let info = rig.info("1").await;
    assert_eq!((info.state, info.errors.len()), (TaskState::Dead, 5));
    assert_eq!(info.history.note.as_deref(), Some("kept"));
    requeue(rig).await;
    let task = rig.claim_one().await;
    assert_eq!((task.attempt, task.history.requeues), (1, 1));
    assert_eq!(task.history.note.as_deref(), Some("kept"));
    assert_eq!(task.history.last_error.as_deref(), Some("gone"));
}

pub async fn a_note_is_gone_with_its_task(rig: &Rig) {
    // It ends, and is submitted anew.
    noted(rig, "1", "old").await;
    let task = rig.claim_one().await;
    settle(rig, &task.lock, AttemptEnd::Done, "the end").await;
    assert_eq!(rig.info("1").await.history, AttemptHistory::default());
    rig.accept(job("1").header("n", "2").replace()).await;
    assert_eq!(rig.info("1").await.history, AttemptHistory::default());
    assert_eq!(rig.claim_one().await.history, AttemptHistory::default());
    // Another task takes its place while it waits, or is dead.
    for end in [release(LONG), dead("gone")] {
        rig.pass(Duration::from_millis(1)).await;
        let task = rig.run("2").await;
        settle(rig, &task.lock, end, "old").await;
        rig.submit(job("2").header("n", "2").replace()).await;
        let task = rig.claim_one().await;
        assert_eq!((&*task.headers["n"], task.history.note), ("2", None));
        rig.settled(&task.lock, AttemptEnd::Done).await;
        rig.free("2").await;
    }
    // It is to run again, which is a task of its own.
    for end in [AttemptEnd::Done, dead("gone")] {
        noted(rig, "3", "old").await;
        let task = rig.claim_one().await;
        rig.submit(job("3").header("n", "2").again_if_running())
            .await;
        assert_eq!(note_of(rig, "3").await.as_deref(), Some("old"));
        settle(rig, &task.lock, end, "older").await;
        assert_eq!(rig.info("3").await.history, AttemptHistory::default());
        let task = rig.claim_one().await;
        rig.settled(&task.lock, AttemptEnd::Done).await;
        rig.free("3").await;
    }
}

pub async fn a_note_of_any_text_is_kept_and_a_long_one_cut_at_a_character(rig: &Rig) {
    for note in [
        "",
        "\0\"\\\n\r\t'",
        "{\"cjson\":null}",
        "%s %d",
        "\u{1d}\"a\"\n\u{1e}1 2 3 x\n\u{1f}",
        "日本語 🎉",
    ] {
        let task = rig.run("1").await;
        settle(rig, &task.lock, dead(note), note).await;
        let history = rig.info("1").await.history;
        assert_eq!(history.note.as_deref(), Some(note));
        assert_eq!(history.last_error.as_deref(), Some(note));
        rig.free("1").await;
    }
    for long in ["ä".repeat(600), format!("x{}", "ä".repeat(600))] {
        let task = rig.run("1").await;
        settle(rig, &task.lock, release(LONG), &long).await;
        let note = note_of(rig, "1").await.unwrap();
        assert!(note.len() >= MAX_NOTE_BYTES - 1 && note.len() <= MAX_NOTE_BYTES);
        assert!(long.starts_with(&note));
        rig.free("1").await;
    }
}

/// Each of a batch has its own; what is not applied leaves none.
pub async fn a_settlement_that_changes_nothing_leaves_the_note_as_it_is(rig: &Rig) {
    let tasks = rig.run_more((0..3).map(|n| n.to_string())).await;
    let batch = tasks.iter().map(|task| {
        let settlement = Settlement::new(task.lock.clone(), release(LONG));
        settlement.with_note(format!("of {}", task.lock.id))
    });
    let mut batch: Vec<_> = batch.collect();
    batch[1].note = None;
    rig.settle_all(batch).await;
    for task in &tasks {
        let repeated = settle(rig, &task.lock, release(LONG), "again").await;
        assert_eq!(repeated, SettleOutcome::Settled);
        let lost = settle(rig, &task.lock, retry(LONG), "lost").await;
        assert_eq!(lost, SettleOutcome::LockLost);
    }
    let mut notes = Vec::new();
    for task in &tasks {
        notes.push(note_of(rig, task.lock.id.as_str()).await);
    }
    let own = |nth: usize| Some(format!("of {}", tasks[nth].lock.id));
    assert_eq!(notes, [own(0), None, own(2)]);
}
