//! Bugs of pauses, purges, trails and expiries.

use delayq_core::TaskState;

use super::planted;
use super::scene::{LOCK, real};
use crate::check::Promise;
use crate::event::{Asked, End, TypeChange};

#[test]
fn a_task_of_a_paused_type_that_is_handed_out() {
    let rule = "handed out while its type was paused";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.change_type(20, TypeChange::Pause { until: None }, 0);
        if !bug {
            scene.change_type(30, TypeChange::Resume, 0);
        }
        scene.works(40, "w1", "a", (2, 1));
        scene.done(45, "w1", "a", 2);
    });
}

/// The pause has an end of its own, on the store's clock.
#[test]
fn a_task_that_is_handed_out_before_the_end_of_a_pause() {
    let rule = "handed out while its type was paused";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        let until = Some(real(100));
        scene.change_type(20, TypeChange::Pause { until }, 0);
        let at = if bug { 99 } else { 100 };
        scene.works(at, "w1", "a", (2, 1));
        scene.done(at + 5, "w1", "a", 2);
    });
}

/// Who is paused is not stuck.
#[test]
fn a_task_that_nobody_starts_after_its_type_was_resumed() {
    let rule = "due, and nobody starts it";
    planted(Promise::ComesBack, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.change_type(20, TypeChange::Pause { until: None }, 0);
        if bug {
            scene.change_type(1_000, TypeChange::Resume, 0);
        }
        scene.change_type(30_000, TypeChange::Pause { until: None }, 0);
        scene.stored("a", TaskState::Scheduled, (10, 0));
    });
}

#[test]
fn a_purge_that_takes_more_than_it_says() {
    let rule = "more are gone than were purged";
    planted(Promise::NeverLost, rule, |scene, bug| {
        for id in ["a", "b"] {
            scene.submit(10, id, 60_000);
        }
        let state = TaskState::Scheduled;
        scene.change_type(20, TypeChange::Purge { state }, if bug { 1 } else { 2 });
    });
}

/// Dead tasks are purged: a scheduled one is none of them.
#[test]
fn a_purge_that_takes_what_is_in_another_state() {
    let rule = "lost before it started";
    planted(Promise::NeverLost, rule, |scene, bug| {
        scene.submit(10, "a", 60_000);
        let state = if bug {
            TaskState::Dead
        } else {
            TaskState::Scheduled
        };
        scene.change_type(20, TypeChange::Purge { state }, 1);
    });
}

#[test]
fn a_trail_that_is_not_what_happened() {
    let rule = "its trail is not what happened";
    for wrong in [(2, 0, 0, 0), (0, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1)] {
        planted(Promise::Structure, rule, |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            scene.settle(15, "w1", "a", (2, End::Retry { after: 60_000 }));
            let trail = if bug { wrong } else { (1, 0, 0, 0) };
            let at = (60_015, trail.0 + trail.1);
            scene.stored_with("a", TaskState::Scheduled, at, trail);
        });
    }
}

#[test]
fn a_trail_without_the_lock_that_expired() {
    let rule = "its trail is not what happened";
    planted(Promise::Structure, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.kill(12, "w1");
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        scene.settle(20 + LOCK, "w2", "a", (3, End::Dead));
        let trail = if bug { (2, 0, 0, 0) } else { (1, 1, 0, 0) };
        scene.stored_with("a", TaskState::Dead, (20 + LOCK, 2), trail);
    });
}

#[test]
fn attempts_that_do_not_add_up() {
    let rule = "attempts and trail differ";
    planted(Promise::Structure, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(15, "w1", "a", (2, End::Dead));
        let at = (15, if bug { 2 } else { 1 });
        scene.stored_with("a", TaskState::Dead, at, (1, 0, 0, 0));
    });
}

#[test]
fn a_task_that_is_handed_out_after_its_expiry() {
    let rule = "handed out after its expiry";
    planted(Promise::OneEnd, rule, |scene, bug| {
        scene.expiry = Some(Asked::After(100));
        scene.submit(10, "a", 0);
        let at = if bug { 110 } else { 109 };
        scene.works(at, "w1", "a", (2, 1));
        scene.done(at + 5, "w1", "a", 2);
    });
}

#[test]
fn a_task_that_a_claim_ends_for_no_reason() {
    let rule = "ended by a claim for no reason";
    for state in [TaskState::Expired, TaskState::Cancelled, TaskState::Dead] {
        planted(Promise::OneEnd, rule, |scene, bug| {
            scene.submit(10, "a", 0);
            if bug {
                scene.claim_ends(11, "a", state, false);
                scene.stored("a", state, (11, 0));
            } else {
                scene.works(11, "w1", "a", (2, 1));
                scene.done(12, "w1", "a", 2);
            }
        });
    }
}
