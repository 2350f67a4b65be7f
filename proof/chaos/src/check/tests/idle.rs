//! Handlers that sleep.

use super::planted;
use super::scene::Scene;
use crate::check::{Outcome, Promise};

/// Tasks sent to an idle type, one a second, each started `late` ms later; how many.
fn lone_tasks(scene: &mut Scene, count: i64, late: i64) {
    scene.plan.idle_types = vec!["mail".to_owned()];
    for n in 0..count {
        let (id, at, fence) = (format!("lone-{n}"), 1_000 * (n + 1), n.unsigned_abs() + 2);
        scene.submit(at, &id, 0);
        scene.claim_due(at + late, "w1", &id, (fence, 1, at));
        scene.start(at + late + 1, "w1", &id, (fence, 1));
        scene.done(at + late + 2, "w1", &id, fence);
    }
}

#[test]
fn a_handler_that_nobody_wakes_is_late_by_what_is_left_of_its_poll() {
    planted(
        Promise::ComesBack,
        "sleeping handlers are not woken",
        |scene, bug| lone_tasks(scene, 30, if bug { 600 } else { 120 }),
    );
}

#[test]
fn what_comes_late_in_a_fault_says_nothing_of_wake_ups() {
    let mut scene = Scene::new();
    lone_tasks(&mut scene, 30, 120);
    scene.kill(40_000, "w2");
    for n in 0..20 {
        let (id, fence) = (format!("slow-{n}"), 100 + n);
        scene.submit(40_001, &id, 0);
        scene.claim_due(40_801, "w1", &id, (fence, 1, 40_001));
        scene.start(40_802, "w1", &id, (fence, 1));
        scene.done(40_803, "w1", &id, fence);
    }
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

#[test]
fn a_run_that_sent_too_little_to_idle_types_proves_nothing() {
    let mut scene = Scene::new();
    lone_tasks(&mut scene, 2, 1);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Invalid, "{verdict}");
    assert!(
        verdict.to_string().contains("lost wake-ups cannot be seen"),
        "{verdict}"
    );
}
