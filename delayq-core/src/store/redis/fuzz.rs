//! Fuzz targets: the stored forms. What Redis hands back may be anything.

use std::time::Duration;

use delayq_fuzz::bolero::{ValueGenerator, check, produce};
use delayq_fuzz::{Accident, Reach, bytes, damage, list, spell, text, words};

use super::record::{self, Damage, Record};
use crate::job::{Expiry, NewTask, OnConflict, When};
use crate::name::{TaskId, TaskType};
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

fn contents() -> impl ValueGenerator<Output = Content> {
    let times = produce::<(Option<u32>, u64, Option<(bool, u64)>)>();
    let sent = (list(2, (text(6), text(6))), bytes(24));
    (times, sent)
        .map_gen(|((delay, at, expiry), (headers, message))| (delay, at, expiry, headers, message))
}

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
    let reach = Reach::at_least(20);
    // Few at a time: one that is hit a hundred times is refused by its first letter.
    let accidents = (produce::<[Accident; 2]>(), 1..=2_usize);
    check!()
        .with_generator((contents(), accidents))
        .for_each(|(content, (accidents, hits))| {
            let task = task(content);
            let whole = stored(&task, SUBMITTED_MS);
            assert_eq!(record::decode(whole.clone()), Ok(expected(&task)));
            let first = &accidents[..*hits];
            let mut hurt = whole.clone();
            damage(&mut hurt, first);
            let read = record::decode(hurt.clone());
            reach.count(matches!(
                read,
                Ok(_) | Err(Damage::Bad("its checksum is wrong"))
            ));
            match read {
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
const HEAD: [&str; 28] = [
    ",\"x\":1767225600000",
    ",\"xa\":60000",
    ",\"h\":{\"k\":\"v\"}",
    ",\"h\":{\"k\":\"v\",\"k\":\"\\ud83d\\ude00\"}",
    ",\"h\":{}",
    "7",
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

/// How heads begin; the fuzzer ends them.
const STARTS: [&str; 6] = [
    "1{\"s\":",
    "1{\"s\":1767225600000",
    "1{\"s\":1767225600000,\"a\":18",
    "1{\"s\":1767225600000,\"d\":0,\"xa\":",
    "1{\"s\":1767225600000,\"a\":18,\"x\":0",
    "1{\"s\":1767225600000,\"a\":18,\"h\":{\"k\":\"v\"",
];

#[test]
fn a_record_with_a_right_checksum_and_any_head_is_read_the_same_again() {
    let reach = Reach::at_least(5);
    check!()
        .with_generator((produce::<u8>(), words(3), bytes(16)))
        .for_each(|(start, bytes, message)| {
            let start = STARTS[usize::from(start % 6)];
            let head = format!("{start}{}", spell(bytes, &HEAD));
            let text = format!("{head},\"c\":\"00000000\"}}");
            let Some((fixed, _)) = covered(&text).filter(|_| !text.contains('\n')) else {
                return reach.count(false);
            };
            let crc = crc32fast::hash(&[fixed.as_bytes(), message].concat());
            let record = [
                format!("{head},\"c\":\"{crc:08x}\"}}\n").as_bytes(),
                message,
            ]
            .concat();
            let read = record::decode(record);
            reach.count(read.is_ok());
            let Ok(read) = read else { return };
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

/// How trails begin; the fuzzer ends them.
const TRAIL_STARTS: [&str; 6] = [
    "",
    "1 0 0 0 0 ",
    "1 4294967295 1 2 3 17",
    "1 0 0 0 0 0 ",
    "1 0 0 0 0 0 [\"a\",\"\\ud83d",
    "1 0 0 0 0 0 [\"a\"]\n",
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
    let reach = Reach::at_least(5);
    let parts = (produce::<[u32; 4]>(), list(2, text(8)));
    let error = (produce::<bool>(), text(16));
    let spelled = (produce::<u8>(), words(4));
    check!()
        .with_generator((parts, error, spelled, produce::<Accident>()))
        .for_each(|(parts, error, (start, bytes), accident)| {
            let trail = trail(parts, error);
            let mut text = trail_text(&trail).into_bytes();
            assert_eq!(record::decode_trail(&text), Some(trail));
            damage(&mut text, &[*accident]);
            read_trail(&text);
            let start = TRAIL_STARTS[usize::from(start % 6)];
            let text = format!("{start}{}", spell(bytes, &TRAIL));
            reach.count(read_trail(text.as_bytes()));
        });
}

type Counts = ([u32; 4], Vec<String>);

fn trail((counts, succeeded): &Counts, (failed, error): &(bool, String)) -> Trail {
    let [failures, lock_expiries, releases, requeues] = *counts;
    Trail {
        failures,
        lock_expiries,
        releases,
        requeues,
        last_error: failed.then(|| error.clone()),
        succeeded: succeeded.clone(),
    }
}

/// Whether `text` is a trail; one is read exactly when it is, and the same again.
fn read_trail(text: &[u8]) -> bool {
    let read = record::decode_trail(text);
    assert_eq!(
        read.is_some(),
        text.is_empty() || is_a_trail(text),
        "{text:?}"
    );
    let Some(trail) = read else { return false };
    assert!(trail.next_attempt() >= 1);
    assert_eq!(
        record::decode_trail(trail_text(&trail).as_bytes()),
        Some(trail)
    );
    true
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
    let reach = Reach::at_least(5);
    check!()
        .with_generator((bytes(8), produce::<Parts>()))
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
                let (lock, end) = (
                    record::decode_lock(text.as_bytes()),
                    record::decode_end(text.as_bytes()),
                );
                reach.count(lock.is_some() || end.is_some());
                if let Some((attempt, cancel)) = lock {
                    let again = format!("0 {attempt} 0{}", if cancel { "!" } else { "" });
                    assert_eq!(
                        record::decode_lock(again.as_bytes()),
                        Some((attempt, cancel))
                    );
                }
                if let Some((at, attempt)) = end {
                    let again = format!("d{} 0 {attempt} 0", at.as_millis());
                    assert_eq!(record::decode_end(again.as_bytes()), Some((at, attempt)));
                }
            }
        });
}
