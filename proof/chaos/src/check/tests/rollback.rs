//! What a rollback explains: losses within its window, and nothing about fences.

use delayq_core::TaskState;

use super::planted;
use super::scene::{LOCK, Scene, real};
use crate::check::{Outcome, Promise};
use crate::event::{Asked, ChangeAnswer, End};

#[test]
fn a_rollback_takes_only_what_was_accepted_within_its_window() {
    let rule = "lost before it started";
    planted(Promise::NeverLost, rule, |scene, bug| {
        scene.submit(if bug { 999 } else { 1_001 }, "a", 60_000);
        if bug {
            // What the window undoes is a change of it; the task itself is older.
            let due = real(61_500);
            let moved = Some(ChangeAnswer::Changed { due });
            scene.reschedule(1_500, "a", Asked::After(60_000), moved);
        }
        scene.roll_back(3_000, 2_000);
    });
}

#[test]
fn a_rollback_undoes_nothing_that_is_answered_after_it_struck() {
    let rule = "lost before it started";
    planted(Promise::NeverLost, rule, |scene, bug| {
        scene.begin_rollback(3_000, 2_000);
        scene.submit(if bug { 3_200 } else { 2_900 }, "a", 60_000);
        scene.end_rollback(3_100, 3_500);
    });
}

#[test]
fn what_a_rollback_took_is_counted_with_its_age() {
    let mut scene = Scene::new();
    scene.submit(2_000, "a", 60_000);
    scene.submit(2_900, "b", 60_000);
    scene.roll_back(3_000, 2_000);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    assert_eq!(verdict.figures.lost_with_cause, 2);
    let oldest = verdict.figures.lost_age.max_us() / 1_000;
    assert!((995..=1_005).contains(&oldest), "{oldest} ms");
    let text = verdict.to_string();
    assert!(
        text.contains("lost within a documented window: 2"),
        "{text}"
    );
    assert!(
        text.contains("before the store lost its last writes"),
        "{text}"
    );
}

#[test]
fn a_task_that_had_ended_before_a_rollback_took_it_is_not_lost() {
    let mut scene = Scene::new();
    scene.submit(2_000, "a", 0);
    scene.works(2_001, "w1", "a", (2, 1));
    scene.settle(2_010, "w1", "a", (2, End::Done));
    scene.roll_back(3_000, 2_000);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    assert_eq!(verdict.figures.lost_with_cause, 0);
}

/// The attempt that a rollback undid was due when the one before it said, and is so again.
#[test]
fn a_repeat_that_was_undone_is_due_when_it_was() {
    planted(
        Promise::NeverEarly,
        "due after the time set",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(1_000, "w1", "a", (2, 1));
            scene.settle(1_010, "w1", "a", (2, End::Retry { after: 900 }));
            scene.claim_due(1_950, "w1", "a", (3, 2, 1_910));
            scene.start(1_951, "w1", "a", (3, 2));
            scene.done(1_960, "w1", "a", 3);
            scene.roll_back(2_000, 100);
            scene.claim_due(2_200, "w1", "a", (4, 2, if bug { 2_100 } else { 1_910 }));
            scene.start(2_201, "w1", "a", (4, 2));
            scene.done(2_210, "w1", "a", 4);
        },
    );
}

/// An answered end that was undone is as old as the next loss finds it, however many come after
/// that.
#[test]
fn what_a_rollback_undid_is_counted_with_its_age() {
    let mut scene = Scene::new();
    scene.submit(10, "a", 0);
    scene.works(1_900, "w1", "a", (1, 1));
    scene.done(1_940, "w1", "a", 1);
    scene.roll_back(2_000, 500);
    scene.works(2_600, "w1", "a", (2, 1));
    scene.done(2_610, "w1", "a", 2);
    scene.roll_back(9_000, 500);
    scene.stored("a", TaskState::Done, (2_610, 1));
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    assert_eq!(verdict.figures.undone_age.count(), 1);
    let age = verdict.figures.undone_age.max_us() / 1_000;
    assert!((50..=70).contains(&age), "{age} ms");
    let text = verdict.to_string();
    assert!(text.contains("settlements undone: 1"), "{text}");
}

#[test]
fn a_rollback_allows_no_fence_that_is_smaller_or_given_twice() {
    for (fence, rule) in [
        (5, "two locks with one fence"),
        (4, "a later lock has a smaller fence"),
    ] {
        planted(Promise::OneHolder, rule, |scene, bug| {
            scene.submit(10, "a", 0);
            scene.claim(1_900, "w1", "a", (5, 1));
            scene.roll_back(2_000, 200);
            let fence = if bug { fence } else { 6 };
            scene.claim(2_100, "w2", "a", (fence, 1));
            scene.done(2_105, "w2", "a", fence);
        });
    }
}

/// Attempts begin anew after a rollback, and are counted on from there.
#[test]
fn a_rollback_explains_no_attempt_that_is_counted_wrong_long_after_it() {
    let rule = "attempts counted wrong";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(1_900, "w1", "a", (2, 1));
        scene.settle(1_905, "w1", "a", (2, End::Retry { after: 0 }));
        scene.roll_back(2_000, 98);
        scene.works(2_100, "w2", "a", (3, 2));
        scene.settle(2_105, "w2", "a", (3, End::Retry { after: 0 }));
        scene.works(2_110, "w2", "a", (4, if bug { 4 } else { 3 }));
        scene.done(2_120, "w2", "a", 4);
    });
}

/// It was not undone, its lock expired: so the next one is due when the record says, as after any
/// other expiry.
#[test]
fn a_lock_that_may_have_been_undone_and_expired_instead() {
    planted(
        Promise::NeverEarly,
        "due before the time set",
        |scene, bug| {
            scene.submit(10, "a", 500);
            scene.works(520, "w1", "a", (2, 1));
            scene.settle(530, "w1", "a", (2, End::Retry { after: 900 }));
            scene.claim_due(1_440, "w2", "a", (3, 2, 1_430));
            scene.roll_back(1_500, 500);
            let due = if bug { 509 } else { 510 };
            scene.claim_due(1_445 + LOCK, "w1", "a", (4, 3, due));
            scene.start(1_446 + LOCK, "w1", "a", (4, 3));
            scene.done(1_450 + LOCK, "w1", "a", 4);
        },
    );
}
