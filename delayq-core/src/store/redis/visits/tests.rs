use super::super::keys::Keyspace;
use super::*;
use crate::name::{Namespace, TaskId};
use crate::task::{ClaimedTask, Headers, Lock, Trail};

const FIRST_PATIENCE: Duration = Duration::from_millis(250);

fn visits() -> Visits {
    Visits::new(FIRST_PATIENCE)
}

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
    let (visits, sent) = (visits(), Instant::now());
    let parts = ["soon", "later", "new", "never"].map(part);
    let all = || parts.iter().map(Arc::clone).collect();
    let waits = [Some(1), Some(500), None, None].map(|ms| ms.map(Duration::from_millis));
    for (part, wait) in parts.iter().zip(waits) {
        if *part.task_type.as_str() != *"new" {
            visits.begin(part);
            visits.answered(part, (0, sent), &quiet(wait));
        }
    }
    let Turn { due, others, .. } = visits.due(all(), sent);
    assert_eq!(names(due), ["new"]);
    assert_eq!(names(others), ["soon", "later", "never"]);
    let Turn { due, .. } = visits.due(all(), sent + Duration::from_millis(600));
    assert_eq!(names(due), ["new", "soon", "later"]);
    let Turn { due, .. } = visits.due(all(), sent + REVISIT);
    assert_eq!(names(due), ["new", "soon", "later", "never"]);
    visits.wake(&parts[3]);
    let Turn { due, .. } = visits.due(all(), Instant::now());
    assert!(names(due).contains(&"never".to_owned()));
}

/// What it had said before does not matter: nothing else would ever have it visited again.
#[test]
fn one_that_fails_is_left_out_and_asked_again_until_it_answers() {
    for said in [None, Some(Duration::from_hours(1)), Some(Duration::ZERO)] {
        let (visits, longest) = (visits(), Duration::from_secs(5));
        let (bad, good) = (part("bad"), part("good"));
        let turn = |now| {
            let turn = visits.due([&bad, &good].map(Arc::clone).to_vec(), now);
            assert!(turn.others.is_empty());
            (names(turn.due).join(" "), names(turn.asked).join(" "))
        };
        let expect = |due: &str, asked: &str| (due.to_owned(), asked.to_owned());
        let start = Instant::now();
        for (part, said) in [(&bad, said), (&good, None)] {
            visits.begin(part);
            visits.answered(part, (0, start), &quiet(said));
        }
        assert!(visits.failed(&bad, longest), "the first in a row");
        let since = || visits.look(&bad, Visit::due_by_itself).flatten();
        let until = match since() {
            Some(Since::Instant(until)) => until,
            since => panic!("{said:?}: {since:?}"),
        };
        assert!(until <= Instant::now() + FIRST_PATIENCE);
        assert_eq!(turn(start), expect("good", ""), "{said:?}");
        assert_eq!(turn(until), expect("good", "bad"), "{said:?}");
        // Once at a time. The one that asks has its handlers come.
        assert_eq!((turn(until), since()), (expect("good", ""), None));
        visits.not_heard(&bad, until);
        assert_eq!(since(), Some(Since::Instant(until + REVISIT)));
        assert_eq!(turn(until), expect("good", ""));
        assert_eq!(turn(until + REVISIT), expect("good", "bad"));
        visits.heard(&bad, until + REVISIT, &quiet(Some(Duration::ZERO)));
        assert_eq!(since(), Some(Since::Instant(until + REVISIT)));
        assert_eq!(turn(until + REVISIT * 2), expect("bad good", ""));
        assert!(visits.answered(&bad, (0, Instant::now()), &quiet(None)));
    }
}

/// A claim must wait for one that hangs no longer than for others, and for one that is slow long enough at last.
#[test]
fn patience_grows_with_one_that_answers_beside_the_claims_and_with_no_other() {
    let (visits, longest) = (visits(), Duration::from_secs(5));
    let (bad, now) = (part("bad"), Instant::now());
    let fail = || {
        let patience = visits.begin(&bad).patience;
        visits.failed(&bad, longest);
        patience
    };
    assert_eq!([fail(), fail(), fail()], [FIRST_PATIENCE; 3]);
    for expected in [2, 4, 8, 16, 20, 20] {
        visits.heard(&bad, now, &quiet(None));
        assert_eq!(fail(), FIRST_PATIENCE * expected);
        assert_eq!(visits.begin(&bad).patience, FIRST_PATIENCE);
    }
    visits.heard(&bad, now, &quiet(None));
    visits.answered(&bad, (0, now), &quiet(None));
    assert_eq!(fail(), FIRST_PATIENCE);
}

#[test]
fn one_in_trouble_is_visited_if_it_is_woken_or_all_are() {
    let (visits, longest) = (visits(), Duration::from_secs(5));
    let parts = ["a", "b"].map(part);
    let turn = || {
        let turn = visits.due(parts.to_vec(), Instant::now() + REVISIT);
        (names(turn.due).join(" "), names(turn.asked).join(" "))
    };
    for part in &parts {
        visits.begin(part);
        visits.failed(part, longest);
    }
    assert_eq!(turn(), ("a b".to_owned(), String::new()));
    visits.answered(&parts[0], (0, Instant::now()), &quiet(None));
    visits.wake(&parts[1]);
    assert_eq!(turn().0, "b a");
    visits.begin(&parts[1]);
    assert_eq!(turn(), ("a".to_owned(), "b".to_owned()));
}

#[test]
fn a_lock_that_ends_earlier_is_seen_to_then() {
    let (visits, part) = (visits(), part("a"));
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
    let (visits, task_type) = (visits(), TaskType::new("a").unwrap());
    assert_eq!(visits.top(&task_type, 5), 0);
    assert_eq!(visits.top(&task_type, 3), 5);
    assert_eq!(visits.top(&task_type, 9), 5);
    assert_eq!(visits.top(&task_type, 0), 9);
}

#[test]
fn a_wake_up_for_all_is_one_for_each_and_a_drained_one_is_left_alone_for_ever() {
    let visits = visits();
    let parts = ["a", "b", "drained", "new"].map(part);
    for part in &parts[..3] {
        visits.begin(part);
        visits.answered(part, (0, Instant::now()), &quiet(None));
    }
    visits.drained(&parts[2]);
    let due = || {
        let all = parts.iter().map(Arc::clone).collect();
        let Turn { due, others, .. } = visits.due(all, Instant::now());
        (names(due).join(" "), names(others).join(" "))
    };
    assert_eq!(due(), ("new".to_owned(), "a b".to_owned()));
    visits.wake_all();
    assert_eq!(due(), ("new a b".to_owned(), String::new()));
    visits.forget(&parts[2]);
    assert!(!visits.is_drained(&parts[2]));
}

#[test]
fn a_settlement_waits_for_one_in_trouble_as_long_as_a_claim() {
    let (visits, bad) = (visits(), part("bad"));
    visits.begin(&bad);
    visits.answered(&bad, (0, Instant::now()), &quiet(None));
    assert_eq!(visits.patience_in_trouble(&bad), None);
    visits.failed(&bad, Duration::from_secs(5));
    assert_eq!(visits.patience_in_trouble(&bad), Some(FIRST_PATIENCE * 2));
}

#[test]
fn a_partition_has_more_if_it_gave_something_and_has_something_due() {
    let (visits, a) = (visits(), part("a"));
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
    let (visits, a) = (visits(), part("a"));
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

/// Nobody visits it, so a time in the past would have its handler come without end.
#[test]
fn nothing_is_due_in_a_drained_partition_whatever_is_noted_of_it() {
    let (visits, part, sent) = (visits(), part("drained"), Instant::now());
    visits.begin(&part);
    visits.answered(&part, (0, sent), &quiet(None));
    visits.drained(&part);
    visits.lock_ends_in(&part, Duration::ZERO);
    let due = |visits: &Visits| visits.look(&part, Visit::due_by_itself);
    assert_eq!(due(&visits).flatten(), None);
    visits.failed(&part, Duration::from_secs(5));
    assert_eq!(due(&visits).flatten(), None);
}

#[test]
fn what_is_known_to_be_due_is_known_of_partitions_that_answer() {
    let (visits, a, now) = (visits(), part("a"), Instant::now());
    let know_due = || visits.know_due([&a].into_iter(), now);
    assert!(!know_due(), "nothing is known");
    for (next_in, expected) in [
        (None, false),
        (Some(Duration::from_hours(1)), false),
        (Some(Duration::ZERO), true),
    ] {
        visits.begin(&a);
        visits.answered(&a, (0, now), &quiet(next_in));
        assert_eq!(know_due(), expected, "{next_in:?}");
    }
    visits.failed(&a, Duration::from_secs(5));
    assert!(!know_due(), "it is asked beside the claims");
}

#[test]
fn a_drained_partition_is_dropped_at_once_or_when_it_is_tried_again() {
    let (visits, a) = (visits(), part("a"));
    visits.begin(&a);
    visits.answered(&a, (0, Instant::now()), &quiet(None));
    assert!(!visits.is_drained(&a));
    visits.drained(&a);
    assert!(visits.is_drained(&a));
    let before = Instant::now();
    visits.not_dropped([&a].into_iter());
    assert!(!visits.is_drained(&a));
    let until = visits.look(&a, |visit| visit.stays_until).flatten();
    assert!(until.is_some_and(|until| until >= before + REVISIT));
    visits.all().get_mut(&a.stem).unwrap().stays_until = Some(before);
    assert!(visits.is_drained(&a));
}

/// A wake-up sends claims to it all the same.
#[test]
fn a_visit_that_fails_while_the_partition_is_asked_begins_no_second_question() {
    let (visits, bad, good) = (visits(), part("bad"), part("good"));
    for part in [&bad, &good] {
        visits.begin(part);
        visits.answered(part, (0, Instant::now()), &quiet(None));
    }
    let longest = Duration::from_secs(5);
    visits.failed(&bad, longest);
    let later = Instant::now() + REVISIT;
    let asked = |at| visits.due([&bad, &good].map(Arc::clone).to_vec(), at).asked;
    assert_eq!(names(asked(later)), ["bad"]);
    visits.failed(&bad, longest);
    assert!(asked(later + REVISIT).is_empty());
}
