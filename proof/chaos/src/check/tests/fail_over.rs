//! Another server takes the place of the master: nothing that was acknowledged is lost by it, and
//! it does not take long.

use delayq_core::TaskState;

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::{Outcome, Promise};
use crate::event::{End, Explains, SettleAnswer, Target, What};

#[test]
fn what_was_accepted_just_before_the_master_died_is_there_after_it() {
    planted(
        Promise::NeverLost,
        "lost before it started",
        |scene, bug| {
            scene.submit(990, "a", 0);
            scene.fail_over((1_000, 2_500, 4_000));
            if !bug {
                scene.works(4_100, "w1", "a", (2, 1));
                scene.done(4_110, "w1", "a", 2);
            }
        },
    );
}

#[test]
fn what_was_settled_just_before_the_master_died_is_not_run_again() {
    planted(Promise::OneEnd, "handed out after its end", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(20, "w1", "a", (2, 1));
        let answer = (!bug).then_some(SettleAnswer::Settled);
        let end = if bug {
            End::Done
        } else {
            End::Retry { after: 0 }
        };
        scene.settle(990, "w1", "a", (2, end));
        scene.fail_over((1_000, 2_500, 4_000));
        scene.works(4_100, "w2", "a", (3, 2));
        scene.settle_answered(4_110, "w2", "a", (3, End::Done, answer));
    });
}

#[test]
fn a_store_that_takes_too_long_to_follow_its_new_master_is_found() {
    planted(
        Promise::ComesBack,
        "nothing was accepted for too long",
        |scene, bug| {
            scene.plan.outage_ms = 5_000;
            scene.fail_over((1_000, 2_500, 3_000));
            let sent = if bug { 6_001 } else { 5_500 };
            scene.submit(sent, "a", 0);
            scene.works(sent + 10, "w1", "a", (2, 1));
            scene.done(sent + 20, "w1", "a", 2);
        },
    );
}

#[test]
fn no_violation_for_sentinels_that_take_long_to_agree() {
    planted(
        Promise::ComesBack,
        "nothing was accepted for too long",
        |scene, bug| {
            scene.plan.outage_ms = 5_000;
            let agreed = if bug { 5_000 } else { 8_000 };
            scene.fail_over((1_000, agreed, 8_500));
            scene.submit(8_510, "a", 0);
            scene.works(8_520, "w1", "a", (2, 1));
            scene.done(8_530, "w1", "a", 2);
        },
    );
}

/// Clocks that differ make no lock last for long.
#[test]
fn servers_whose_clocks_differ_explain_no_task_that_is_left() {
    planted(Promise::ComesBack, "tasks are left", |scene, bug| {
        scene.plan.skew_ms = 500;
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.kill(12, "w1");
        if bug {
            scene.stored("a", TaskState::Running, (11 + LOCK, 1));
            scene.at(1_100, "driver", What::Drained { left: 1 });
        } else {
            scene.works(50 + LOCK, "w2", "a", (3, 2));
            scene.done(60 + LOCK, "w2", "a", 3);
        }
    });
}

/// A lock that nobody knows of may have been shorter by as much as the clocks differ, and no more.
#[test]
fn servers_whose_clocks_differ_explain_a_shorter_lock_but_no_short_one() {
    let rule = "attempts counted wrong";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.plan.skew_ms = 500;
        scene.submit(10, "a", 0);
        let target = Target::Process("w1".to_owned());
        scene.fault((5, 20), "cut", &target, Explains::LostLock);
        scene.claim_lost(11, "w1");
        let at = LOCK - if bug { 501 } else { 480 };
        scene.works(at, "w2", "a", (3, 2));
        scene.done(at + 5, "w2", "a", 3);
    });
}

#[test]
fn fail_overs_are_counted_and_timed() {
    let mut scene = Scene::new();
    for n in 0..3 {
        let struck = 10_000 * (n + 1);
        scene.fail_over((struck, struck + 1_500, struck + 4_000));
        let (id, fence) = (format!("after-{n}"), 2 + n.unsigned_abs());
        scene.submit(struck + 2_500, &id, 0);
        scene.works(struck + 2_510, "w1", &id, (fence, 1));
        scene.done(struck + 2_520, "w1", &id, fence);
    }
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    assert_eq!(verdict.figures.fail_overs, 3);
    let outage = &verdict.figures.outage["kill-master"];
    assert_eq!((outage.count(), outage.max_us() / 100_000), (3, 25));
}
