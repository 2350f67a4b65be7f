//! What the answer of a claim means.

use std::time::Duration;

use delayq_core::job::{DelayQueueJob, Limits};

use super::*;
use crate::connection::Reply;

const NOW_MS: i64 = 1_767_225_600_000;
const LOCK_FOR: Duration = Duration::from_secs(30);

/// An answer of the script, field by field.
struct Script {
    past_us: i64,
    guarded_ms: i64,
    next_ms: i64,
    ids: Vec<Reply>,
    records: Vec<Reply>,
    trails: Vec<Reply>,
    ended: Vec<Reply>,
    newer: Vec<Reply>,
    split: &'static str,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            past_us: 0,
            guarded_ms: NOW_MS,
            next_ms: -1,
            ids: Vec::new(),
            records: Vec::new(),
            trails: Vec::new(),
            ended: Vec::new(),
            newer: Vec::new(),
            split: "",
        }
    }
}

impl Script {
    fn answer(self) -> Answer {
        let fields = vec![
            Reply::Int(NOW_MS),
            Reply::Int(self.past_us),
            Reply::Int(self.guarded_ms),
            Reply::Int(self.next_ms),
            Reply::Int(41),
            Reply::List(self.ids),
            Reply::List(self.records),
            Reply::List(self.trails),
            Reply::List(self.ended),
            Reply::List(self.newer),
            Reply::Int(99),
            bytes(self.split),
        ];
        read(Reply::List(fields).fields(), LOCK_FOR).unwrap()
    }
}

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn stored(message: &str) -> Reply {
    let job = DelayQueueJob::raw("a", message);
    let task = job.into_task(&Limits::default(), Timestamp::ZERO).unwrap();
    let head = format!("1{{\"s\":{NOW_MS},");
    Reply::Bytes([head.as_bytes(), &record::encode(&task)].concat())
}

#[test]
fn the_next_claim_is_a_span_away_counted_from_the_clock_of_the_answer() {
    for (past_us, guarded_ms, next_ms, expected) in [
        (300, NOW_MS, NOW_MS + 2, Some(Duration::from_micros(1_700))),
        // The clock of due times stands still before a guard: the part of a ms is not its own.
        (300, NOW_MS - 9, NOW_MS, Some(Duration::from_millis(9))),
        (300, NOW_MS, NOW_MS, Some(Duration::ZERO)),
        (0, NOW_MS, NOW_MS - 5, Some(Duration::ZERO)),
        (300, NOW_MS, -1, None),
    ] {
        let answer = Script {
            past_us,
            guarded_ms,
            next_ms,
            ..Script::default()
        };
        assert_eq!(answer.answer().claimed.next_in, expected, "{next_ms}");
    }
}

#[test]
fn the_state_of_a_bucket_follows_from_its_field() {
    for (split, state) in [
        ("", BucketState::Open),
        ("4", BucketState::Open),
        ("-", BucketState::Sealed),
        ("--", BucketState::Drained),
    ] {
        let answer = Script {
            split,
            ..Script::default()
        };
        assert_eq!(answer.answer().claimed.bucket, state, "{split:?}");
    }
}

#[test]
fn each_task_has_its_own_fence_and_those_that_cannot_be_read_come_apart() {
    let trail = "1 1 0 0 0 0 \n+broken";
    let answer = Script {
        ids: ["one", "two", "three"].map(bytes).into(),
        records: vec![stored("m1"), bytes("garbage"), stored("m3")],
        trails: vec![Reply::Int(2), Reply::Int(NOW_MS - 5), bytes(trail)],
        ..Script::default()
    };
    let answer = answer.answer();
    let found = answer.claimed.tasks.iter();
    let found = found.map(|task| (task.lock.id.as_str(), task.lock.fence, task.attempt));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [("one", 41, 1), ("three", 43, 2)]
    );
    let third = &answer.claimed.tasks[1];
    assert_eq!(third.message, b"m3");
    assert_eq!(third.due_at, Timestamp::from_millis(NOW_MS - 5));
    assert_eq!(
        third.lock_until,
        Timestamp::from_millis(NOW_MS).plus(LOCK_FOR)
    );
    let damaged = answer.damaged.iter().map(|task| (&*task.id, task.fence));
    assert_eq!(damaged.collect::<Vec<_>>(), [(b"two".as_slice(), 42)]);
    assert_eq!(answer.claimed.high_water, 99);
}

#[test]
fn an_index_that_names_no_locked_task_is_refused() {
    for index in [-1, 1] {
        let mut locked = read_locked(
            Reply::List(vec![bytes("one")]).fields(),
            Reply::List(vec![stored("m")]).fields(),
            1,
        )
        .unwrap();
        let trails = Reply::List(vec![Reply::Int(index), Reply::Int(0), bytes("")]);
        assert!(
            read_trails(trails.fields(), &mut locked).is_err(),
            "{index}"
        );
    }
}

#[test]
fn what_a_claim_ended_is_told_with_its_cause() {
    let ended = ["1", "e", "2", "c", "3", "p", "4", "?", "no id!", "?"];
    let answer = Script {
        ended: ended.map(bytes).into(),
        newer: vec![bytes("5")],
        ..Script::default()
    };
    let answer = answer.answer();
    let causes: Vec<EndCause> = answer.claimed.ended.iter().map(|end| end.cause).collect();
    let expected = [
        EndCause::Expired,
        EndCause::Cancelled,
        EndCause::Poison,
        EndCause::Corrupt,
    ];
    assert_eq!(causes, expected);
    assert_eq!(answer.missing, ["4", "no id!"]);
    assert_eq!(answer.newer, ["5"]);
}

#[test]
fn an_id_that_no_task_may_have_is_damage() {
    let locked = Locked {
        id: b"no id!\xff".to_vec(),
        fence: 7,
        due_at: None,
        is_taken_over: false,
        record: Vec::new(),
        trail: Vec::new(),
    };
    let damaged = decode(locked, Timestamp::ZERO).unwrap_err();
    assert_eq!((damaged.fence, damaged.why), (7, "its id is not a task id"));
}
