//! Cancels of tasks that somebody holds.

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::{Outcome, Promise};
use crate::event::{CancelAnswer, End};

#[test]
fn a_cancel_that_does_not_look_whether_somebody_holds_the_task_is_found() {
    planted(
        Promise::CancelIsFinal,
        "cancelled while somebody held it",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            if !bug {
                scene.settle(15, "w1", "a", (2, End::Retry { after: 500 }));
            }
            scene.cancel(20, "a", CancelAnswer::Cancelled);
        },
    );
}

#[test]
fn a_store_that_has_lost_the_lock_may_cancel() {
    let mut scene = Scene::new();
    scene.submit(10, "a", 0);
    scene.works(11, "w1", "a", (2, 1));
    scene.roll_back(13, 5);
    scene.cancel(20, "a", CancelAnswer::Cancelled);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

/// The lock has expired, and the answer of the claim that took it over was lost.
#[test]
fn a_lock_that_has_expired_keeps_nobody_from_cancelling() {
    let mut scene = Scene::new();
    scene.submit(10, "a", 0);
    scene.works(11, "w1", "a", (2, 1));
    scene.kill(12, "w1");
    scene.cancel(12 + LOCK, "a", CancelAnswer::Cancelled);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}
