//! Types that stand still, and tasks that are passed over.

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::{Outcome, Promise};
use crate::event::{Asked, ChangeAnswer, Explains, Target};

/// What is done to a single task, or to who sends, keeps no type from starting.
#[test]
fn faults_that_hold_up_nobody_hide_no_type_that_stands_still() {
    let rule = "a type stalled after a fault";
    planted(Promise::ComesBack, rule, |scene, bug| {
        scene.fault((20, 1_000), "store", &Target::Store, Explains::LostLock);
        for n in 1..20 {
            let task = Target::Task(format!("mail/flip-{n}"));
            scene.fault(
                (n * 1_000, n * 1_000 + 500),
                "flip",
                &task,
                Explains::Damage,
            );
            let sender = Target::Process("s".to_owned());
            let span = (n * 1_000 + 400, n * 1_000 + 900);
            scene.fault(span, "kill-submitter", &sender, Explains::LostLock);
        }
        scene.submit(15, "a", 10);
        let at = if bug { 1_000 + LOCK + 1_100 } else { 1_500 };
        scene.claim_due(at, "w1", "a", (2, 1, 25));
        scene.start(at + 1, "w1", "a", (2, 1));
        scene.done(at + 5, "w1", "a", 2);
    });
}

/// As long as the store is gone, nobody can start anything.
#[test]
fn a_type_stands_still_while_faults_hold_it_up() {
    let mut scene = Scene::new();
    for n in 0..10 {
        let span = (20 + n * 5_000, 3_000 + n * 5_000);
        scene.fault(span, "store", &Target::Store, Explains::LostLock);
    }
    scene.submit(15, "a", 10);
    scene.claim_due(49_000, "w1", "a", (2, 1, 25));
    scene.start(49_001, "w1", "a", (2, 1));
    scene.done(49_005, "w1", "a", 2);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

/// Others of its type start meanwhile, which were due later.
#[test]
fn a_task_that_others_come_before() {
    planted(
        Promise::ComesBack,
        "a task was passed over",
        |scene, bug| {
            scene.submit(10, "a", 0);
            for n in 1..10 {
                let (id, at) = (format!("b{n}"), 3_000 * n);
                scene.submit(at, &id, 0);
                scene.works(at + 5, "w1", &id, (10 + n.unsigned_abs(), 1));
                scene.done(at + 10, "w1", &id, 10 + n.unsigned_abs());
            }
            let at = if bug { 28_000 } else { 2_000 };
            scene.works(at, "w1", "a", (30, 1));
            scene.done(at + 10, "w1", "a", 30);
        },
    );
}

/// With more work than workers all are late, in their order.
#[test]
fn tasks_that_wait_in_order_are_not_passed_over() {
    let mut scene = Scene::new();
    for n in 0..20 {
        scene.submit(10 + n * 100, &format!("b{n}"), 0);
    }
    for n in 0..20 {
        let (id, at) = (format!("b{n}"), 2_000 + n * 1_500);
        scene.works(at, "w1", &id, (10 + n.unsigned_abs(), 1));
        scene.done(at + 10, "w1", &id, 10 + n.unsigned_abs());
    }
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

/// The end of a run moves up what is due in an hour: that is not what makes a retry come in time.
#[test]
fn a_due_time_in_the_far_future_that_nobody_asked_for() {
    planted(Promise::ComesBack, "due far too late", |scene, bug| {
        scene.submit(10, "a", if bug { 50 } else { 3_600_000 });
        let due = super::scene::real(1_000);
        let moved = Some(ChangeAnswer::Changed { due });
        scene.reschedule_by("driver", (1_000, "a"), Asked::After(0), moved);
        scene.claim_due(1_005, "w1", "a", (2, 1, 1_000));
        scene.start(1_006, "w1", "a", (2, 1));
        scene.done(1_010, "w1", "a", 2);
    });
}
