//! A worker that starts although the lock of its own process has run out.

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::{Outcome, Promise};
use crate::event::{End, SettleAnswer, Target};

const RULE: &str = "started after its own lock had run out";

fn own() -> Target {
    Target::Process("w1".to_owned())
}

/// Nobody has taken the task over yet: only the start itself shows it.
#[test]
fn a_start_after_the_own_lock_ran_out() {
    planted(Promise::OneHolder, RULE, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.claim(11, "w1", "a", (2, 1));
        let late = if bug { 300 } else { 200 };
        scene.start(11 + LOCK + late, "w1", "a", (2, 1));
        let settled = Some(SettleAnswer::Settled);
        scene.ends_told((11 + LOCK + late + 1, "w1"), "a", (2, End::Done), true);
        scene.settle_only(11 + LOCK + late + 2, "w1", "a", (2, End::Done, settled));
    });
}

#[test]
fn an_extension_that_was_answered_moves_the_deadline() {
    planted(Promise::OneHolder, RULE, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.claim(11, "w1", "a", (2, 1));
        if !bug {
            scene.extend(LOCK - 100, "w1", "a", 2);
        }
        let start = LOCK + 1_000;
        scene.start(start, "w1", "a", (2, 1));
        let settled = Some(SettleAnswer::Settled);
        scene.ends_told((start + 1, "w1"), "a", (2, End::Done), true);
        scene.settle_only(start + 2, "w1", "a", (2, End::Done, settled));
    });
}

/// Stopped between the look at the deadline and the start, it cannot look again; once it runs, it
/// can.
#[test]
fn a_process_that_is_stopped_at_its_deadline_starts_at_once_or_not_at_all() {
    planted(Promise::OneHolder, RULE, |scene, bug| {
        let stop = (11 + LOCK - 50, 12 + 2 * LOCK);
        scene.fault_that(stop, "pause-long", &own(), &[]);
        scene.submit(10, "a", 0);
        scene.claim(11, "w1", "a", (2, 1));
        let start = stop.1 + if bug { 300 } else { 100 };
        scene.start(start, "w1", "a", (2, 1));
        let settled = Some(SettleAnswer::Settled);
        scene.ends_told((start + 1, "w1"), "a", (2, End::Done), true);
        scene.settle_only(start + 2, "w1", "a", (2, End::Done, settled));
    });
}

/// A stop that began when the deadline had long passed explains no start after it.
#[test]
fn a_stop_that_began_after_the_deadline_allows_nothing() {
    let mut scene = Scene::new();
    scene.submit(10, "a", 0);
    scene.claim(11, "w1", "a", (2, 1));
    scene.stalls((11 + LOCK + 300, 11 + LOCK + 900), "w1");
    scene.start(11 + LOCK + 901, "w1", "a", (2, 1));
    let settled = Some(SettleAnswer::Settled);
    scene.ends_told((11 + LOCK + 902, "w1"), "a", (2, End::Done), true);
    scene.settle_only(11 + LOCK + 903, "w1", "a", (2, End::Done, settled));
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Broken, "{verdict}");
    assert!(verdict.broken.contains_key(&(Promise::OneHolder, RULE)));
}
