//! A machine without a processor or a disk for those who need it: a fault that nobody planned.

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::Promise;
use crate::event::{Explains, Target};

fn process(name: &str) -> Target {
    Target::Process(name.to_owned())
}

#[test]
fn a_process_without_a_processor_loses_its_own_locks() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.stalls((20, LOCK + 20), if bug { "s" } else { "w1" });
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

#[test]
fn a_moment_without_a_processor_explains_no_lost_lock() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let length = if bug { LOCK / 3 - 1 } else { LOCK };
        scene.stalls((LOCK - 1_000, LOCK - 1_000 + length), "w1");
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

/// Whatever is done to it meanwhile that stops nobody.
#[test]
fn a_process_that_is_stopped_for_less_than_a_lock_loses_none_but_one_without_a_processor_may() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        let kind = if bug { "pause-short" } else { "worker-blocks" };
        scene.fault_that((10, LOCK + 30), kind, &process("w1"), &[]);
        scene.submit(11, "a", 0);
        scene.works(12, "w1", "a", (2, 1));
        scene.stalls((20, LOCK + 20), "w1");
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

/// Whoever sees it: everybody waits for the store.
#[test]
fn a_store_without_a_processor_costs_everybody_locks_and_a_moment_does_not() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let length = if bug { LOCK / 3 - 1 } else { LOCK };
        scene.stalls_store((LOCK - 1_000, LOCK - 1_000 + length));
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

#[test]
fn a_disk_that_is_silent_for_long_costs_locks_and_a_moment_does_not() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let length = if bug { LOCK / 3 - 1 } else { LOCK };
        scene.stalls_disk((LOCK - 1_000, LOCK - 1_000 + length));
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

/// It is a fault, and is counted as one; the same in a process that somebody has stopped is not
/// another one.
#[test]
fn a_stall_is_a_fault_that_was_not_planned() {
    let told = |is_planned| {
        let mut scene = Scene::new();
        if is_planned {
            scene.fault((15, LOCK + 30), "pause", &process("w1"), Explains::LostLock);
        }
        scene.stalls((20, LOCK + 20), "w1");
        scene.verdict().figures.faults
    };
    assert_eq!(told(false), [("no-processor".to_owned(), 1)].into());
    assert_eq!(told(true), [("pause".to_owned(), 1)].into());
}

/// As several threads of a process may have seen one, each for a part of it.
#[test]
fn stalls_that_overlap_or_follow_on_each_other_are_one() {
    let mut scene = Scene::new();
    let part = LOCK / 4;
    for (from, process) in [
        (20, "w1"),
        (20 + part, "w1"),
        (20 + part / 2, "w1"),
        (20, "w2"),
    ] {
        scene.stalls((from, from + part), process);
    }
    let faults = scene.verdict().figures.faults;
    assert_eq!(faults, [("no-processor".to_owned(), 1)].into());
}

/// Of one thread and another, they would allow anything on a busy machine.
#[test]
fn short_stalls_in_a_row_are_none() {
    let mut scene = Scene::new();
    for part in 0..20 {
        let from = 20 + part * (LOCK / 8);
        scene.stalls((from, from + LOCK / 7), "w1");
    }
    assert_eq!(scene.verdict().figures.faults, [].into());
}

/// Half of two processors is 100 % of one.
#[test]
fn a_shortage_of_processors_that_the_run_itself_caused_allows_nothing() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.uses((0, 3 * LOCK), if bug { 101 } else { 95 }, 0);
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.stalls((20, LOCK + 20), "w1");
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

#[test]
fn what_the_run_used_before_and_after_a_shortage_did_not_cause_it() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        let spans = [(0, 20), (20, LOCK + 20), (LOCK + 20, 3 * LOCK)];
        for (place, span) in spans.into_iter().enumerate() {
            let is_busy = (place == 1) == bug;
            scene.uses(span, if is_busy { 200 } else { 10 }, 0);
        }
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.stalls_store((20, LOCK + 20));
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

/// 20 MB a second.
#[test]
fn a_shortage_of_disk_that_the_run_itself_caused_allows_nothing() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        let written = if bug { 20_100 } else { 15_000 };
        scene.uses((0, 3 * LOCK), 10, written);
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.stalls_disk((20, LOCK + 20));
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

#[test]
fn a_shortage_by_the_run_itself_is_counted_beside_the_faults() {
    let mut scene = Scene::new();
    scene.uses((0, 3 * LOCK), 150, 0);
    scene.stalls((20, LOCK + 20), "w1");
    let figures = scene.verdict().figures;
    assert_eq!(figures.faults, [].into());
    assert_eq!(
        figures.own_shortages,
        [("no-processor".to_owned(), 1)].into()
    );
}
