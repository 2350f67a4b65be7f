use super::super::keys::Keyspace;
use super::*;
use crate::name::{Namespace, TaskId};
use crate::task::{ClaimedTask, Headers, Lock, Trail};

fn part(name: &str) -> Arc<Partition> {
    let keys = Keyspace::new(Namespace::default());
    Arc::new(keys.whole(&TaskType::new(name).unwrap()))
}

/// An answer after which nothing is due for so long.
fn quiet(next_in: Option<Duration>) -> Claimed {
    let now = Timestamp::from_millis(1_000_000);
    Claimed {
        now,
        store_now: now,
        past: Duration::ZERO,
        high_water: 0,
        tasks: Vec::new(),
        ended: Vec::new(),
        unheard: 0,
        next_due: next_in.map(|span| now.plus(span)),
        turn: Duration::ZERO,
    }
}

fn task(fence: u64) -> ClaimedTask {
    let now = Timestamp::from_millis(1_000_000);
    let id = TaskId::new("1").unwrap();
    ClaimedTask {
        lock: Lock { id, fence },
        lock_until: now,
        attempt: 1,
        due_at: now,
        submitted_at: now,
        expires_at: None,
        message: Vec::new(),
        headers: Headers::new(),
        trail: Trail::default(),
    }
}

fn names(parts: Parts) -> Vec<String> {
    let names = parts.into_iter().map(|part| part.task_type.to_string());
    names.collect()
}

#[test]
fn those_due_for_longest_come_first_and_the_others_are_at_hand() {
    let (visits, sent) = (Visits::default(), Instant::now());
    let parts = ["soon", "later", "new", "never"].map(part);
    let all = || parts.iter().map(Arc::clone).collect();
    let waits = [Some(1), Some(500), None, None].map(|ms| ms.map(Duration::from_millis));
    for (part, wait) in parts.iter().zip(waits) {
        if *part.task_type.as_str() != *"new" {
            visits.begin(part);
            visits.answered(part, (0, sent), &quiet(wait));
        }
    }
    let (due, others) = visits.due(all(), sent);
    assert_eq!(names(due), ["new"]);
    assert_eq!(names(others), ["soon", "later", "never"]);
    let (due, _) = visits.due(all(), sent + Duration::from_millis(600));
    assert_eq!(names(due), ["new", "soon", "later"]);
    let (due, _) = visits.due(all(), sent + REVISIT);
    assert_eq!(names(due), ["new", "soon", "later", "never"]);
    visits.wake(&parts[3]);
    let (due, _) = visits.due(all(), Instant::now());
    assert!(names(due).contains(&"never".to_owned()));
}

#[test]
fn one_that_fails_is_left_alone_for_longer_each_time_unless_it_is_woken() {
    let (visits, longest) = (Visits::default(), Duration::from_secs(5));
    let (bad, good) = (part("bad"), part("good"));
    let all = || [&bad, &good].map(Arc::clone).to_vec();
    for part in [&bad, &good] {
        visits.begin(part);
        visits.answered(part, (0, Instant::now()), &quiet(None));
    }
    assert!(visits.failed(&bad, longest), "the first in a row");
    assert!(!visits.failed(&bad, longest));
    let patience = visits.begin(&bad).patience;
    assert_eq!(patience, FIRST_PATIENCE * 4);
    let (due, others) = visits.due(all(), Instant::now());
    assert_eq!(
        (names(due), names(others)),
        (vec!["good".to_owned()], vec![])
    );
    for _ in 0..9 {
        visits.failed(&bad, longest);
    }
    assert_eq!(visits.begin(&bad).patience, longest);
    visits.wake(&bad);
    let (due, _) = visits.due(all(), Instant::now());
    assert_eq!(names(due), ["bad"]);
    assert!(visits.answered(&bad, (0, Instant::now()), &quiet(None)));
    assert!(!visits.begin(&bad).is_in_trouble);
}

#[test]
fn a_lock_that_ends_earlier_is_seen_to_then() {
    let (visits, part) = (Visits::default(), part("a"));
    visits.begin(&part);
    visits.answered(
        &part,
        (0, Instant::now()),
        &quiet(Some(Duration::from_mins(9))),
    );
    visits.lock_ends_in(&part, Duration::from_mins(10));
    let next_in = || visits.look(&part, |visit| visit.seen?.next_in).flatten();
    assert_eq!(next_in(), Some(Duration::from_mins(9)));
    visits.lock_ends_in(&part, Duration::from_secs(1));
    assert!(next_in() < Some(Duration::from_secs(9)));
}

#[test]
fn the_largest_fence_of_a_type_outlives_its_partitions() {
    let (visits, task_type) = (Visits::default(), TaskType::new("a").unwrap());
    assert_eq!(visits.top(&task_type, 5), 0);
    assert_eq!(visits.top(&task_type, 3), 5);
    assert_eq!(visits.top(&task_type, 9), 5);
    assert_eq!(visits.top(&task_type, 0), 9);
}

#[test]
fn a_wake_up_for_all_is_one_for_each_and_a_drained_one_is_left_alone_for_ever() {
    let visits = Visits::default();
    let parts = ["a", "b", "drained", "new"].map(part);
    for part in &parts[..3] {
        visits.begin(part);
        visits.answered(part, (0, Instant::now()), &quiet(None));
    }
    visits.drained(&parts[2]);
    let due = || {
        let all = parts.iter().map(Arc::clone).collect();
        let (due, others) = visits.due(all, Instant::now());
        (names(due).join(" "), names(others).join(" "))
    };
    assert_eq!(due(), ("new".to_owned(), "a b".to_owned()));
    visits.wake_all();
    assert_eq!(due(), ("new a b".to_owned(), String::new()));
    visits.forget(&parts[2]);
    assert!(!visits.is_drained(&parts[2]));
}

/// What it waits for itself is not asked of it before its trouble is over.
#[test]
fn one_in_trouble_is_due_again_when_that_is_over() {
    let (visits, bad) = (Visits::default(), part("bad"));
    let sent = Instant::now();
    visits.begin(&bad);
    visits.answered(&bad, (0, sent), &quiet(Some(Duration::ZERO)));
    assert_eq!(visits.patience_in_trouble(&bad), None);
    visits.failed(&bad, Duration::from_secs(5));
    let failed = Instant::now();
    assert_eq!(visits.patience_in_trouble(&bad), Some(FIRST_PATIENCE * 2));
    let since = || visits.look(&bad, Visit::due_by_itself).flatten();
    let pause = FIRST_PATIENCE * 2 * PAUSE;
    let Some(Since::Instant(until)) = since() else {
        panic!("{:?}", since())
    };
    assert!(until > sent + pause && until <= failed + pause);
    visits.wake(&bad);
    assert_eq!(since(), Some(Since::Instant(sent)));
}

#[test]
fn a_partition_has_more_if_it_gave_something_and_has_something_due() {
    let (visits, a) = (Visits::default(), part("a"));
    for (tasks, next_in, expected) in [
        (1, Some(0), true),
        (1, Some(5), false),
        (1, None, false),
        (0, Some(0), false),
    ] {
        let mut answer = quiet(next_in.map(Duration::from_millis));
        answer.tasks.extend((0..tasks).map(|_| task(1)));
        visits.answered(&a, (0, Instant::now()), &answer);
        let has_more = visits.look(&a, |visit| visit.has_more);
        assert_eq!(has_more, Some(expected), "{tasks} {next_in:?}");
    }
}

/// One that has gone back is believed, so that it is told once.
#[test]
fn the_largest_fence_of_a_partition_is_known_until_it_has_lost_it() {
    let (visits, a) = (Visits::default(), part("a"));
    let answer = |high_water: u64, given: Option<u64>| {
        let known = visits.begin(&a).known_fence;
        let mut answer = quiet(None);
        answer.high_water = high_water;
        answer.tasks.extend(given.map(task));
        visits.answered(&a, (known, Instant::now()), &answer);
        visits.begin(&a).known_fence
    };
    assert_eq!(answer(5, None), 5);
    assert_eq!(answer(5, Some(9)), 9);
    assert_eq!(answer(9, None), 9);
    assert_eq!(answer(3, Some(4)), 4);
    // One that was under way before a larger fence was given has lost nothing.
    for (known, high_water) in [(0, 2), (3, 3)] {
        let mut answer = quiet(None);
        answer.high_water = high_water;
        visits.answered(&a, (known, Instant::now()), &answer);
        assert_eq!(visits.begin(&a).known_fence, 4);
    }
}
