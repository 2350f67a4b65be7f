//! I1: bugs that start tasks at the wrong time.

use super::planted;
use super::scene::{BYTES, Scene, real};
use crate::check::{Outcome, Promise};
use crate::event::{Asked, End, Explains, SubmitAnswer, Target, What};

const EARLY: Promise = Promise::NeverEarly;

#[test]
fn a_claim_of_a_task_that_is_not_due() {
    planted(EARLY, "claimed before it was due", |scene, bug| {
        scene.submit(10, "a", 100);
        let at = if bug { 109 } else { 110 };
        scene.claim_due(at, "w1", "a", (2, 1, 110));
        scene.start(at + 1, "w1", "a", (2, 1));
        scene.done(at + 2, "w1", "a", 2);
    });
}

/// The store's clock is ahead by less than the guard holds back, and nobody has set it.
#[test]
fn a_start_by_a_clock_that_is_a_bit_ahead() {
    planted(EARLY, "started before it was due", |scene, bug| {
        scene.submit(10, "a", 500);
        scene.store_ahead = if bug { 400 } else { 0 };
        let at = if bug { 110 } else { 510 };
        scene.claim_due(at, "w1", "a", (2, 1, 510));
        scene.start(at + 1, "w1", "a", (2, 1));
        scene.done(at + 2, "w1", "a", 2);
    });
}

#[test]
fn a_claim_by_a_clock_that_nobody_has_set() {
    planted(EARLY, "claimed by a clock that is wrong", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.store_ahead = if bug { 3_600_000 } else { 500 };
        scene.works(11, "w1", "a", (2, 1));
        scene.done(12, "w1", "a", 2);
    });
}

/// A worker is told another due time than its claim was answered.
#[test]
fn a_start_by_a_clients_clock() {
    let rule = "started as another attempt";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 100);
        scene.claim_due(110, "w1", "a", (2, 1, 110));
        let due = if bug { 3_600_110 } else { 110 };
        let start = What::WorkerStart {
            task: "mail/a".to_owned(),
            worker: String::new(),
            serves: "mail".to_owned(),
            attempt: 1,
            fence: 2,
            due: real(due),
            digest: BYTES,
            headers: None,
        };
        scene.at(111, "w1", start);
        scene.done(112, "w1", "a", 2);
    });
}

/// The due time is reckoned from the clock of a submitter that is an hour behind.
#[test]
fn a_due_time_by_a_clients_clock() {
    planted(EARLY, "due before the time asked for", |scene, bug| {
        let due = if bug {
            real(110 - 3_600_000)
        } else {
            real(110)
        };
        let answer = SubmitAnswer::Accepted {
            due,
            replaced: false,
        };
        scene.submit_answered(10, "a", Asked::After(100), Some(answer));
        scene.claim_due(
            111,
            "w1",
            "a",
            (2, 1, if bug { 110 - 3_600_000 } else { 110 }),
        );
        scene.done(112, "w1", "a", 2);
    });
}

#[test]
fn a_due_time_cut_to_whole_seconds() {
    planted(EARLY, "due before the time asked for", |scene, bug| {
        let due = if bug { 1_000 } else { 1_750 };
        let answer = SubmitAnswer::Accepted {
            due: real(due),
            replaced: false,
        };
        scene.submit_answered(10, "a", Asked::At(real(1_750)), Some(answer));
        scene.claim_due(due + 1, "w1", "a", (2, 1, due));
        scene.done(due + 2, "w1", "a", 2);
    });
}

#[test]
fn a_due_time_rounded_up_to_a_second() {
    planted(EARLY, "due after the time asked for", |scene, bug| {
        let due = if bug { 1_000 } else { 110 };
        let answer = SubmitAnswer::Accepted {
            due: real(due),
            replaced: false,
        };
        scene.submit_answered(10, "a", Asked::After(100), Some(answer));
        scene.claim_due(due + 1, "w1", "a", (2, 1, due));
        scene.done(due + 2, "w1", "a", 2);
    });
}

#[test]
fn a_retry_that_does_not_wait() {
    planted(EARLY, "due before the time set", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(20, "w1", "a", (2, End::Retry { after: 500 }));
        let due = if bug { 20 } else { 520 };
        scene.claim_due(due + 1, "w1", "a", (3, 2, due));
        scene.done(due + 3, "w1", "a", 3);
    });
}

/// An entry is handed out by its place in an index that has lost its time.
#[test]
fn a_due_time_that_nobody_set() {
    planted(EARLY, "due before the time set", |scene, bug| {
        scene.submit(10, "a", 1_000);
        let due = if bug { 500 } else { 1_010 };
        scene.claim_due(1_010, "w1", "a", (2, 1, due));
        scene.done(1_012, "w1", "a", 2);
    });
}

#[test]
fn a_store_clock_that_is_wrong_allows_due_times_only_as_far_as_it_is_wrong() {
    for (ahead_ms, outcome) in [
        (-100, Outcome::Held),
        (-99, Outcome::Broken),
        (100, Outcome::Broken),
    ] {
        let mut scene = Scene::new();
        let explains = Explains::StoreClock { ahead_ms };
        scene.fault((9, 12), "clock jump", &Target::Store, explains);
        scene.submit(10, "a", 0);
        let answer = SubmitAnswer::Accepted {
            due: real(11 + 50 - 100),
            replaced: false,
        };
        scene.submit_answered(11, "b", Asked::After(50), Some(answer));
        for (id, fence) in [("a", 2), ("b", 3)] {
            scene.works(70, "w1", id, (fence, 1));
            scene.done(75, "w1", id, fence);
        }
        assert_eq!(scene.verdict().outcome(), outcome, "{ahead_ms} ms");
    }
}

/// A server gives back what a claim has locked whose answer reached nobody: it is due at once.
#[test]
fn what_a_server_gave_back_is_due_when_it_did() {
    let rule = "due after the time set";
    planted(Promise::NeverEarly, rule, |scene, bug| {
        scene.plan.gives_back = !bug;
        scene.submit(10, "a", 100);
        scene.fault(
            (105, 130),
            "cut",
            &Target::Process("w1".to_owned()),
            Explains::LostLock,
        );
        scene.claim_lost(110, "w1");
        scene.claim_due(150, "w1", "a", (2, 1, 117));
        scene.start(151, "w1", "a", (2, 1));
        scene.done(152, "w1", "a", 2);
    });
}
