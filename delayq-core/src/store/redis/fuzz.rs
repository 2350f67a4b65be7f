//! Fuzz targets: the stored forms and the names of keys. What Redis hands back may be anything.

use std::collections::HashSet;
use std::time::Duration;

use delayq_fuzz::bolero::check;
use delayq_fuzz::{Accident, damage, spell};

use super::keys::Keyspace;
use super::record::{self, Damage, Record};
use crate::job::{Expiry, NewTask, OnConflict, When};
use crate::name::{Namespace, TaskId, TaskType};
use crate::task::Trail;
use crate::time::{MAX_DELAY, Timestamp};

/// When Redis got the tasks of these tests.
const SUBMITTED_MS: i64 = 1_767_225_600_000;

/// A task that may be submitted: a delay or a time, an expiry, headers and a message.
type Content = (
    Option<u32>,
    u64,
    Option<(bool, u64)>,
    Vec<(String, String)>,
    Vec<u8>,
);

fn task((delay, at, expiry, headers, message): &Content) -> NewTask {
    let longest = u64::try_from(MAX_DELAY.as_millis()).unwrap();
    let within = |ms: u64| Duration::from_millis(ms % longest);
    let start = Timestamp::from_millis(SUBMITTED_MS);
    NewTask {
        task_type: TaskType::new("a").unwrap(),
        id: TaskId::new("a").unwrap(),
        when: match delay {
            Some(delay) => When::After(within(u64::from(*delay))),
            None => When::At(start.minus(Duration::from_secs(9)).plus(within(*at))),
        },
        expiry: expiry.map(|(is_span, ms)| {
            if is_span {
                Expiry::AfterDue(within(ms))
            } else {
                Expiry::At(start.plus(within(ms)))
            }
        }),
        on_conflict: OnConflict::Reject,
        message: message.clone(),
        headers: headers.iter().cloned().collect(),
    }
}

/// A record as Redis completes it.
fn stored(task: &NewTask, submitted_ms: i64) -> Vec<u8> {
    let head = format!("1{{\"s\":{submitted_ms},");
    [head.as_bytes(), &record::encode(task)].concat()
}

/// The record that `task` has once read again.
fn expected(task: &NewTask) -> Record {
    let submitted_at = Timestamp::from_millis(SUBMITTED_MS);
    let due_at = match task.when {
        When::After(delay) => submitted_at.plus(delay),
        When::At(time) => time.max(submitted_at),
    };
    Record {
        submitted_at,
        due_at,
        expires_at: task.expiry.map(|expiry| match expiry {
            Expiry::At(time) => time,
            Expiry::AfterDue(span) => due_at.plus(span),
        }),
        headers: task.headers.clone(),
        message: task.message.clone(),
    }
}

/// What stands behind the times of the head: (what the checksum covers of it, the checksum).
fn covered(head: &str) -> Option<(&str, &str)> {
    let (front, sum) = head.strip_suffix("\"}")?.rsplit_once(",\"c\":\"")?;
    let fixed = front.splitn(3, ':').nth(2)?;
    Some((fixed.trim_start_matches(|c: char| c.is_ascii_digit()), sum))
}

/// Whether the checksum of `record` is right, found in another way than in the code.
fn is_sound(record: &[u8]) -> bool {
    let end = record.iter().position(|byte| *byte == b'\n').unwrap();
    let head = std::str::from_utf8(&record[..end]).unwrap();
    let (fixed, sum) = covered(head).unwrap();
    let crc = crc32fast::hash(&[fixed.as_bytes(), &record[end + 1..]].concat());
    format!("{crc:08x}") == sum
}

#[test]
fn a_damaged_record_is_never_read_as_a_sound_one() {
    check!()
        .with_type::<(Content, Vec<Accident>)>()
        .for_each(|(content, accidents)| {
            let task = task(content);
            let whole = stored(&task, SUBMITTED_MS);
            assert_eq!(record::decode(whole.clone()), Ok(expected(&task)));
            // Few at a time: one that is hit a hundred times is refused by its first letter.
            let (_, first) = accidents.split_at(accidents.len().saturating_sub(2));
            let mut hurt = whole.clone();
            damage(&mut hurt, first);
            match record::decode(hurt.clone()) {
                Ok(read) => {
                    assert!(is_sound(&hurt), "{}", String::from_utf8_lossy(&hurt));
                    let is_short = hurt.len() == whole.len() && first.len() == 1;
                    assert!(!is_short || read.message == task.message, "{read:?}");
                    assert!(!is_short || read.headers == task.headers, "{read:?}");
                }
                Err(Damage::Bad(why)) => assert!(why.starts_with("its ") || why.starts_with("it ")),
                Err(Damage::Newer(version)) => assert_eq!(u32::from(hurt[0] - b'0'), version),
            }
            assert!(record::salvage(hurt.clone()).len() <= hurt.len());
        });
}

/// What heads are made of.
const HEAD: [&str; 22] = [
    "1{\"s\":",
    "1{\"s\":1767225600000",
    ",\"a\":",
    ",\"d\":",
    ",\"x\":",
    ",\"xa\":",
    ",\"h\":{",
    "}",
    "\"k\":\"v\"",
    ",\"c\":\"",
    "9",
    "0",
    "-",
    "1800000",
    "9223372036854775807",
    "null",
    "\\u0000",
    "\\ud800",
    "\"",
    " ",
    "{}",
    "[[[[",
];

#[test]
fn a_record_with_a_right_checksum_and_any_head_is_read_the_same_again() {
    check!()
        .with_type::<(Vec<u8>, Vec<u8>, bool)>()
        .for_each(|(bytes, message, is_plain)| {
            let start = if *is_plain {
                "1{\"s\":1767225600000,\"a\":18,"
            } else {
                "1{\"s\":"
            };
            let head = format!("{start}{}", spell(bytes, &HEAD));
            let text = format!("{head},\"c\":\"00000000\"}}");
            let Some((fixed, _)) = covered(&text).filter(|_| !text.contains('\n')) else {
                return;
            };
            let crc = crc32fast::hash(&[fixed.as_bytes(), message].concat());
            let record = [
                format!("{head},\"c\":\"{crc:08x}\"}}\n").as_bytes(),
                message,
            ]
            .concat();
            let Ok(read) = record::decode(record) else {
                return;
            };
            let again = NewTask {
                when: When::At(read.due_at),
                expiry: read.expires_at.map(Expiry::At),
                headers: read.headers.clone(),
                message: read.message.clone(),
                ..task(&(None, 0, None, Vec::new(), Vec::new()))
            };
            assert_eq!(&read.message, message);
            let encoded = stored(&again, read.submitted_at.as_millis());
            assert_eq!(record::decode(encoded), Ok(read), "{head}");
        });
}

/// What trails, locks and ends are made of.
const TRAIL: [&str; 14] = [
    "1 ",
    "1 0 0 0 0 ",
    " ",
    "0",
    "4294967295",
    "4294967296",
    "-1",
    "+",
    "-",
    "\n",
    "\n-",
    "\n+broken",
    "[\"a\"]",
    "!",
];

/// A trail as `trail_text` of `lua/model.lua` writes it.
fn trail_text(trail: &Trail) -> String {
    let Trail {
        failures,
        lock_expiries,
        releases,
        requeues,
        ..
    } = trail;
    let succeeded = record::encode_succeeded(&trail.succeeded);
    let error = match &trail.last_error {
        Some(error) => format!("+{error}"),
        None => "-".to_owned(),
    };
    format!("1 {failures} {lock_expiries} {releases} {requeues} 0 {succeeded}\n{error}")
}

#[test]
fn a_trail_is_read_the_same_again() {
    type Parts = ([u32; 4], Vec<String>, Option<String>);
    check!()
        .with_type::<(Vec<u8>, Parts)>()
        .for_each(|(bytes, (counts, succeeded, error))| {
            let [failures, lock_expiries, releases, requeues] = *counts;
            let (last_error, succeeded) = (error.clone(), succeeded.clone());
            let trail = Trail {
                failures,
                lock_expiries,
                releases,
                requeues,
                last_error,
                succeeded,
            };
            assert_eq!(
                record::decode_trail(trail_text(&trail).as_bytes()),
                Some(trail)
            );
            assert_eq!(
                record::decode_trail(bytes).is_some(),
                bytes.is_empty() || is_a_trail(bytes)
            );
            let spelled = spell(bytes, &TRAIL);
            if let Some(trail) = record::decode_trail(spelled.as_bytes()) {
                assert!(
                    spelled.is_empty() || is_a_trail(spelled.as_bytes()),
                    "{spelled:?}"
                );
                assert!(trail.next_attempt() >= 1);
                assert_eq!(
                    record::decode_trail(trail_text(&trail).as_bytes()),
                    Some(trail)
                );
            }
        });
}

/// The pattern of `parse_trail` in `lua/model.lua`, with counts that fit and names that are JSON.
fn is_a_trail(trail: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(trail) else {
        return false;
    };
    let Some((head, error)) = text.split_once('\n') else {
        return false;
    };
    let fields: Vec<_> = head.splitn(7, ' ').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    matches!(fields[..], [version, _, _, _, _, settled, succeeded]
        if version == "1" && is_number(settled)
            && fields[1..5].iter().all(|count| is_number(count) && count.parse::<u32>().is_ok())
            && (succeeded.is_empty() || serde_json::from_str::<Vec<String>>(succeeded).is_ok()))
        && error.starts_with(['+', '-'])
}

#[test]
fn locks_and_ends_are_read_the_same_again() {
    type Parts = (u32, u32, bool, u8);
    check!()
        .with_type::<(Vec<u8>, Parts)>()
        .for_each(|(bytes, (attempt, crc, cancel, letter))| {
            let mark = if *cancel { "!" } else { "" };
            let lock = format!("1767225600000000 {attempt} {crc:08x}{mark}");
            assert_eq!(
                record::decode_lock(lock.as_bytes()),
                Some((*attempt, *cancel))
            );
            let letter = char::from(b"dce"[usize::from(letter % 3)]);
            let end = format!("{letter}{SUBMITTED_MS} 17 {attempt} {crc:08x}");
            let at = Timestamp::from_millis(SUBMITTED_MS);
            assert_eq!(record::decode_end(end.as_bytes()), Some((at, *attempt)));
            for text in [spell(bytes, &TRAIL), format!("d{}", spell(bytes, &TRAIL))] {
                let _ = (record::decode_lock(bytes), record::decode_end(bytes));
                if let Some((attempt, cancel)) = record::decode_lock(text.as_bytes()) {
                    let again = format!("0 {attempt} 0{}", if cancel { "!" } else { "" });
                    assert_eq!(
                        record::decode_lock(again.as_bytes()),
                        Some((attempt, cancel))
                    );
                }
                if let Some((at, attempt)) = record::decode_end(text.as_bytes()) {
                    let again = format!("d{} 0 {attempt} 0", at.as_millis());
                    assert_eq!(record::decode_end(again.as_bytes()), Some((at, attempt)));
                }
            }
        });
}

/// Every name in Redis that belongs to a namespace and a type.
fn keys(namespace: &Namespace, task_type: &TaskType) -> HashSet<String> {
    Keyspace::new(namespace.clone()).of_type(task_type).into()
}

#[test]
fn two_names_never_share_a_key() {
    const WORDS: [&str; 10] = [
        "due", ":", "a", ".", "running", ":due", "types", "_", "-", "tasks:",
    ];
    type Name = (Vec<u8>, Vec<u8>);
    check!()
        .with_type::<(Name, Name)>()
        .for_each(|(one, other)| {
            let name = |(namespace, task_type): &Name| {
                let namespace: String = spell(namespace, &WORDS).chars().take(12).collect();
                let task_type: String = spell(task_type, &WORDS).chars().take(12).collect();
                Some((
                    Namespace::new(namespace).ok()?,
                    TaskType::new(task_type).ok()?,
                ))
            };
            let (Some(one), Some(other)) = (name(one), name(other)) else {
                return;
            };
            let (mine, theirs) = (keys(&one.0, &one.1), keys(&other.0, &other.1));
            assert_eq!(mine.len(), 9);
            assert_eq!(mine.is_disjoint(&theirs), one != other, "{one:?} {other:?}");
            let space = Keyspace::new(other.0);
            for key in [space.types(), space.wake_channel()]
                .iter()
                .chain(&space.probes())
            {
                assert!(!mine.contains(key), "{key}");
            }
        });
}
