//! What the answer of a claim means.

use std::time::Duration;

use delayq_core::job::{DelayQueueJob, Limits};

use super::*;
use crate::connection::RespValue;

const NOW_MS: i64 = 1_767_225_600_000;
const LOCK_FOR: Duration = Duration::from_secs(30);

/// An answer of the script, field by field.
struct Script {
    past_us: i64,
    guarded_ms: i64,
    next_ms: i64,
    ids: Vec<RespValue>,
    records: Vec<RespValue>,
    trails: Vec<RespValue>,
    ended: Vec<RespValue>,
    newer: Vec<RespValue>,
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
    fn answer(self) -> ClaimReply {
        let fields = vec![
            RespValue::Int(NOW_MS),
            RespValue::Int(self.past_us),
            RespValue::Int(self.guarded_ms),
            RespValue::Int(self.next_ms),
            RespValue::Int(41),
            RespValue::List(self.ids),
            RespValue::List(self.records),
            RespValue::List(self.trails),
            RespValue::List(self.ended),
            RespValue::List(self.newer),
            RespValue::Int(99),
            bytes(self.split),
        ];
        read(RespValue::List(fields).fields(), LOCK_FOR).unwrap()
    }
}

fn bytes(text: &str) -> RespValue {
    RespValue::Bytes(text.as_bytes().to_vec())
}

fn stored(message: &str) -> RespValue {
    let job = DelayQueueJob::raw("a", message);
    let task = job.into_task(&Limits::default(), Timestamp::ZERO).unwrap();
    let head = format!("1{{\"s\":{NOW_MS},");
    RespValue::Bytes([head.as_bytes(), &record::encode(&task)].concat())
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
        trails: vec![RespValue::Int(2), RespValue::Int(NOW_MS - 5), bytes(trail)],
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
            RespValue::List(vec![bytes("one")]).fields(),
            RespValue::List(vec![stored("m")]).fields(),
            1,
        )
        .unwrap();
        let trails = RespValue::List(vec![RespValue::Int(index), RespValue::Int(0), bytes("")]);
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
