//! What a fault explains, and the same without the fault, outside of its time, or done to somebody
//! else.

use delayq_core::TaskState;

use super::planted;
use super::scene::{LOCK, Scene, real};
use crate::check::{Outcome, Promise};
use crate::event::{Asked, ChangeAnswer, End, Explains, SubmitAnswer, Target, What};

const HOUR: i64 = 3_600_000;

fn process(name: &str) -> Target {
    Target::Process(name.to_owned())
}

fn accepted(due: i64) -> SubmitAnswer {
    let due = real(due);
    let replaced = false;
    SubmitAnswer::Accepted { due, replaced }
}

/// The clock of a store, or of a process, as far ahead as this (behind, if negative).
fn clock(scene: &mut Scene, span: (i64, i64), target: &Target, ahead_ms: i64) {
    scene.fault(span, "clock", target, Explains::StoreClock { ahead_ms });
}

#[test]
fn a_clock_that_stepped_back_explains_what_it_set_and_not_what_came_later() {
    let rule = "due before the time set";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        clock(scene, (15, 30), &Target::Store, -HOUR);
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let at = if bug { 40 } else { 20 };
        scene.settle(at, "w1", "a", (2, End::Retry { after: 500 }));
        scene.claim_due(50, "w1", "a", (3, 2, at + 500 - HOUR));
        scene.done(51, "w1", "a", 3);
    });
}

#[test]
fn the_clock_of_one_process_explains_no_due_time_that_another_one_set() {
    let rule = "due before the time set";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        let wrong = if bug { "w2" } else { "w1" };
        clock(scene, (15, 30), &process(wrong), -HOUR);
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(20, "w1", "a", (2, End::Retry { after: 500 }));
        scene.claim_due(50, "w1", "a", (3, 2, 520 - HOUR));
        scene.done(51, "w1", "a", 3);
    });
}

#[test]
fn a_clock_that_is_ahead_explains_no_due_time_that_is_too_early() {
    let rule = "due before the time asked for";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        clock(
            scene,
            (9, 12),
            &Target::Store,
            if bug { HOUR } else { -HOUR },
        );
        let due = 60 - HOUR;
        scene.submit_answered(10, "a", Asked::After(50), Some(accepted(due)));
        scene.works(70, "w1", "a", (2, 1));
        scene.done(75, "w1", "a", 2);
    });
}

/// The guard holds a task back that a store's clock would start an hour before it is due.
#[test]
fn a_stores_clock_that_is_ahead_starts_tasks_early_by_no_more_than_the_guard() {
    let rule = "started before it was due";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        clock(scene, (15, 30), &Target::Store, HOUR);
        let after = if bug { 1_000 } else { 500 };
        scene.submit(10, "a", after);
        scene.store_ahead = HOUR;
        scene.works(20, "w1", "a", (2, 1));
        scene.store_ahead = 0;
        scene.done(40, "w1", "a", 2);
    });
}

#[test]
fn the_clock_of_one_process_explains_only_its_own_early_starts() {
    let rule = "claimed by a clock that is wrong";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        let wrong = if bug { "w2" } else { "w1" };
        clock(scene, (15, 30), &process(wrong), HOUR);
        scene.submit(10, "a", 0);
        scene.store_ahead = HOUR;
        scene.works(20, "w1", "a", (2, 1));
        scene.store_ahead = 0;
        scene.done(40, "w1", "a", 2);
    });
}

/// Sent while the clock was ahead and moved to an earlier time, a task still shows the former.
#[test]
fn a_task_that_was_moved_is_judged_by_where_it_was_moved_to() {
    let rule = "claimed before it was due";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        clock(scene, (9, 12), &Target::Store, HOUR);
        let sent = Some(accepted(10 + HOUR));
        scene.submit_answered(10, "a", Asked::After(0), sent);
        let due = real(50);
        scene.reschedule(
            50,
            "a",
            Asked::After(0),
            Some(ChangeAnswer::Changed { due }),
        );
        let at = if bug { 49 } else { 51 };
        scene.claim_due(at, "w1", "a", (2, 1, 10 + HOUR));
        scene.done(60, "w1", "a", 2);
    });
}

/// Moved while the clock was behind, a task shows the time at which it had been accepted.
#[test]
fn a_task_that_was_moved_by_a_clock_that_is_behind_is_judged_by_that() {
    let rule = "due after the time set";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        scene.submit(10, "a", 1_000);
        clock(scene, (45, 70), &Target::Store, -HOUR);
        let due = real(60 - HOUR);
        scene.reschedule(
            50,
            "a",
            Asked::After(10),
            Some(ChangeAnswer::Changed { due }),
        );
        scene.store_ahead = -HOUR;
        scene.claim_due(61, "w1", "a", (2, 1, if bug { 15 } else { 10 }));
        scene.store_ahead = 0;
        scene.start(62, "w1", "a", (2, 1));
        scene.done(80, "w1", "a", 2);
    });
}

/// The holder died while its clock was ahead: nobody can tell that its lock is no good.
#[test]
fn a_lock_of_a_clock_that_was_ahead_explains_a_task_that_is_left() {
    planted(Promise::ComesBack, "tasks are left", |scene, bug| {
        clock(
            scene,
            (9, 20),
            &process(if bug { "w2" } else { "w1" }),
            HOUR,
        );
        scene.submit(10, "a", 0);
        scene.store_ahead = if bug { 0 } else { HOUR };
        scene.works(11, "w1", "a", (2, 1));
        scene.store_ahead = 0;
        scene.kill(12, "w1");
        scene.stored("a", TaskState::Running, (11 + LOCK + HOUR, 1));
        scene.at(1_100, "driver", What::Drained { left: 1 });
    });
}

/// By a clock that is behind, an extension shortens a lock; its holder was told so.
#[test]
fn a_lock_ends_early_only_if_a_clock_that_was_behind_shortened_it() {
    planted(Promise::OneHolder, "two locks overlap", |scene, bug| {
        clock(scene, (15, 30), &Target::Store, -1_000);
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.store_ahead = -1_000;
        scene.extend(if bug { 10 } else { 20 }, "w1", "a", 2);
        scene.store_ahead = 0;
        scene.kill(40, "w1");
        scene.claim(19 + LOCK - if bug { 1_010 } else { 999 }, "w2", "a", (3, 2));
        scene.done(20 + LOCK, "w2", "a", 3);
    });
}

#[test]
fn a_clock_that_was_wrong_explains_no_lock_that_is_taken_after_it_was_mended() {
    planted(Promise::OneHolder, "two locks overlap", |scene, bug| {
        clock(scene, (15, 30), &Target::Store, HOUR);
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let at = if bug { 40 } else { 20 };
        scene.store_ahead = if bug { 0 } else { HOUR };
        if bug {
            scene.kill(35, "w1");
        }
        scene.claim(at, "w2", "a", (3, 2));
        scene.store_ahead = 0;
        scene.done(50, "w2", "a", 3);
    });
}

/// With an embedded store, whoever has the wrong clock takes the locks of others.
#[test]
fn the_clock_of_one_process_explains_only_the_locks_that_it_takes() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        clock(
            scene,
            (15, 30),
            &process(if bug { "w3" } else { "w2" }),
            HOUR,
        );
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.store_ahead = if bug { 0 } else { HOUR };
        scene.claim(if bug { 12 + LOCK } else { 20 }, "w2", "a", (3, 2));
        scene.store_ahead = 0;
        scene.done(20 + LOCK, "w2", "a", 3);
    });
}

/// The claim whose answer was lost took the task, and its lock expired: the repeat is due when the
/// submit said.
#[test]
fn a_lost_answer_explains_the_due_time_of_a_repeat_only_if_a_fault_lost_it() {
    for (is_cut, outcome) in [(true, Outcome::Held), (false, Outcome::Broken)] {
        let mut scene = Scene::new();
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(20, "w1", "a", (2, End::Retry { after: 500 }));
        let target = process(if is_cut { "w1" } else { "w2" });
        scene.fault((525, 535), "cut", &target, Explains::LostLock);
        scene.claim_lost(530, "w1");
        scene.claim_due(540 + LOCK, "w2", "a", (3, 3, 10));
        scene.start(541 + LOCK, "w2", "a", (3, 3));
        scene.done(542 + LOCK, "w2", "a", 3);
        let verdict = scene.verdict();
        assert_eq!(verdict.outcome(), outcome, "{verdict}");
    }
}

/// The lock that it may have taken lasts: there was no time for it to expire.
#[test]
fn a_lost_answer_explains_no_attempt_before_its_lock_could_have_expired() {
    let rule = "attempts counted wrong";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.fault((5, 20), "cut", &process("w1"), Explains::LostLock);
        scene.claim_lost(11, "w1");
        // The clock of the store rounds down: given in the last part of a millisecond, a lock is
        // that much shorter.
        let at = if bug { 9 + LOCK } else { 10 + LOCK };
        scene.works(at, "w2", "a", (3, 2));
        scene.done(at + 5, "w2", "a", 3);
    });
}

#[test]
fn a_claim_that_lost_its_answer_before_the_task_was_sent_explains_nothing() {
    let rule = "attempts counted wrong";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.fault((5, 20), "cut", &process("w1"), Explains::LostLock);
        scene.claim_lost(11, "w1");
        // That process has gone: what it had asked for is done, or never will be.
        scene.kill(15, "w1");
        scene.submit(if bug { 2_000 } else { 12 }, "a", 0);
        scene.works(2_001 + LOCK, "w2", "a", (3, 2));
        scene.done(2_005 + LOCK, "w2", "a", 3);
    });
}

/// A claimer whose clock is behind takes expired locks all the same, and nothing that is due.
#[test]
fn a_claimer_whose_clock_is_behind_takes_only_expired_locks() {
    let rule = "claimed before it was due";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        if !bug {
            scene.works(11, "w1", "a", (2, 1));
            scene.kill(12, "w1");
        }
        scene.claimer_behind = HOUR;
        scene.works(20 + LOCK, "w2", "a", (3, if bug { 1 } else { 2 }));
        scene.claimer_behind = 0;
        scene.done(25 + LOCK, "w2", "a", 3);
    });
}

/// A fault that is over before a living holder would have extended its lock, cannot have cost it.
#[test]
fn a_short_fault_explains_no_lock_that_its_holder_had_time_to_extend() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let until = if bug { 100 } else { 11 + LOCK };
        scene.fault((12, until), "cut", &process("w1"), Explains::LostLock);
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        scene.done(15 + LOCK, "w2", "a", 3);
        scene.submit(16 + LOCK, "b", 0);
        scene.works(17 + LOCK, "w1", "b", (4, 1));
        scene.done(18 + LOCK, "w1", "b", 4);
    });
}

/// A lock whose task somebody else has locked keeps its end: that is no sign of life of its holder.
#[test]
fn a_fault_explains_a_lock_that_kept_its_end_and_none_that_was_extended_after_it() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.fault((9_000, 12_000), "cut", &process("w1"), Explains::LostLock);
        let at = if bug {
            scene.extend(12_100, "w1", "a", 2);
            12_101 + LOCK
        } else {
            scene.keep(12_100, "w1", ("a", 2), 11);
            12_101
        };
        scene.works(at, "w2", "a", (3, 2));
        scene.done(at + 2, "w2", "a", 3);
    });
}

/// Somebody stops the extensions long before the fault: the lock has run out when it comes.
#[test]
fn a_fault_that_comes_after_the_lock_ran_out_explains_nothing() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.kill(if bug { 500 + LOCK } else { 5 + LOCK }, "w1");
        scene.works(1_000 + LOCK, "w2", "a", (3, 2));
        scene.done(1_010 + LOCK, "w2", "a", 3);
    });
}

/// The takeover within a fault of the store is no time to recovery; it is counted.
#[test]
fn takeovers_before_a_store_fault_is_over_are_counted_and_late_ones_after_it_named() {
    for (at, outcome) in [(11 + LOCK, Outcome::Held), (26_100, Outcome::Broken)] {
        let mut scene = Scene::new();
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.fault((12, 15_000), "hang", &Target::Store, Explains::LostLock);
        scene.claim(at, "w2", "a", (3, 2));
        scene.start(at + 1, "w2", "a", (3, 2));
        scene.done(at + 2, "w2", "a", 3);
        let verdict = scene.verdict();
        assert_eq!(verdict.outcome(), outcome, "{verdict}");
        let within = verdict.figures.takeover_within.get("hang").copied();
        assert_eq!(within, (at < 15_000).then_some(1), "{verdict}");
        let late = Promise::ComesBack;
        assert_eq!(verdict.breaks(late), at > 15_000, "{verdict}");
    }
}

/// Two workers overlap after one holder lost its lock: not those that come later.
#[test]
fn a_lost_lock_explains_only_the_overlap_with_whoever_took_it_over() {
    planted(Promise::OneHolder, "two workers overlap", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let enter = |fence, others| What::EffectBegun {
            task: "mail/a".to_owned(),
            fence,
            others,
        };
        let leave = What::EffectEnded {
            task: "mail/a".to_owned(),
            fence: 2,
        };
        scene.at(12, "effects", enter(2, 0));
        scene.fault((12, 15_000), "stop", &process("w1"), Explains::LostLock);
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        scene.at(12 + LOCK, "effects", enter(3, 1));
        scene.at(15_001, "effects", leave);
        scene.settle(15_002, "w2", "a", (3, End::Retry { after: 0 }));
        scene.works(15_010, "w2", "a", (4, 3));
        scene.at(15_012, "effects", enter(4, u32::from(bug)));
        scene.done(15_020, "w2", "a", 4);
    });
}
