//! What Redis hands back may be anything: no damage is read as something sound, and what is read is
//! read the same again.

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::*;
use delayq_core::job::{DelayQueueJob, Limits};
use delayq_core::time::MAX_DELAY;

/// When Redis got the tasks of these tests.
const SUBMITTED_MS: i64 = 1_767_225_600_000;

fn submitted_at() -> Timestamp {
    Timestamp::from_millis(SUBMITTED_MS)
}

fn spans() -> impl Strategy<Value = Duration> {
    let longest = u64::try_from(MAX_DELAY.as_millis()).unwrap();
    (0..longest).prop_map(Duration::from_millis)
}

fn whens() -> impl Strategy<Value = When> {
    let since = submitted_at().minus(Duration::from_secs(9));
    prop_oneof![
        spans().prop_map(When::After),
        spans().prop_map(move |span| When::At(since.plus(span))),
    ]
}

fn expiries() -> impl Strategy<Value = Expiry> {
    prop_oneof![
        spans().prop_map(Expiry::AfterDue),
        spans().prop_map(|span| Expiry::At(submitted_at().plus(span))),
    ]
}

fn tasks() -> impl Strategy<Value = NewTask> {
    let headers = btree_map(any::<String>(), any::<String>(), 0..3);
    let message = vec(any::<u8>(), 0..40);
    let parts = (whens(), option::of(expiries()), headers, message);
    parts.prop_map(|(when, expiry, headers, message)| {
        let mut task = plain();
        (task.when, task.expiry) = (when, expiry);
        (task.headers, task.message) = (headers, message);
        task
    })
}

fn plain() -> NewTask {
    let job = DelayQueueJob::raw("a", "").id("a");
    job.into_task(&Limits::default(), submitted_at()).unwrap()
}

/// A record as Redis completes it.
fn stored(task: &NewTask, submitted_ms: i64) -> Vec<u8> {
    let head = format!("1{{\"s\":{submitted_ms},");
    [head.as_bytes(), &encode(task)].concat()
}

/// The record that `task` has once read again.
fn expected(task: &NewTask) -> Record {
    let due_at = match task.when {
        When::After(delay) => submitted_at().plus(delay),
        When::At(time) => time.max(submitted_at()),
    };
    Record {
        submitted_at: submitted_at(),
        due_at,
        expires_at: task.expiry.map(|expiry| match expiry {
            Expiry::At(time) => time,
            Expiry::AfterDue(span) => due_at.plus(span),
        }),
        headers: task.headers.clone(),
        message: task.message.clone(),
    }
}

/// One accident that happens to stored bytes.
#[derive(Clone, Debug)]
enum Accident {
    CutAt(Index),
    Insert(Index, u8),
    Remove(Index),
    Flip(Index, u8),
    Replace(Index, u8),
}

impl Accident {
    fn happen_to(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::CutAt(at) => bytes.truncate(at.index(bytes.len())),
            Self::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Self::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
            Self::Flip(at, bit) => *at.get_mut(bytes) ^= 1 << bit,
            Self::Replace(at, byte) => *at.get_mut(bytes) = *byte,
        }
    }
}

fn accidents() -> impl Strategy<Value = Accident> {
    let at = any::<Index>;
    prop_oneof![
        1 => at().prop_map(Accident::CutAt),
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Accident::Insert(at, byte)),
        3 => at().prop_map(Accident::Remove),
        4 => (at(), 0..8_u8).prop_map(|(at, bit)| Accident::Flip(at, bit)),
        5 => (at(), any::<u8>()).prop_map(|(at, byte)| Accident::Replace(at, byte)),
    ]
}

/// What the checksum of a head covers, found in another way than in the code, and the checksum.
struct Covered<'a> {
    fixed: &'a str,
    sum: &'a str,
}

impl<'a> Covered<'a> {
    fn of(head: &'a str) -> Option<Self> {
        let (front, sum) = head.strip_suffix("\"}")?.rsplit_once(",\"c\":\"")?;
        let fixed = front.splitn(3, ':').nth(2)?;
        let fixed = fixed.trim_start_matches(|c: char| c.is_ascii_digit());
        Some(Self { fixed, sum })
    }
}

/// Whether the checksum of `record` is right.
fn is_sound(record: &[u8]) -> bool {
    let end = record.iter().position(|byte| *byte == b'\n').unwrap();
    let head = std::str::from_utf8(&record[..end]).unwrap();
    let covered = Covered::of(head).unwrap();
    let crc = crc32fast::hash(&[covered.fixed.as_bytes(), &record[end + 1..]].concat());
    format!("{crc:08x}") == covered.sum
}

/// Words in any order, with a few others between them.
fn spelled(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![9 => select(words).prop_map(str::to_owned), 1 => ".{0,2}"];
    vec(word, 0..5).prop_map(|words| words.concat())
}

/// How heads begin.
const HEAD_STARTS: [&str; 6] = [
    "1{\"s\":",
    "1{\"s\":1767225600000",
    "1{\"s\":1767225600000,\"a\":18",
    "1{\"s\":1767225600000,\"d\":0,\"xa\":",
    "1{\"s\":1767225600000,\"a\":18,\"x\":0",
    "1{\"s\":1767225600000,\"a\":18,\"h\":{\"k\":\"v\"",
];

/// What they go on with.
const HEAD_WORDS: [&str; 25] = [
    ",\"x\":1767225600000",
    ",\"xa\":60000",
    ",\"h\":{\"k\":\"v\"}",
    ",\"h\":{\"k\":\"v\",\"k\":\"\\ud83d\\ude00\"}",
    ",\"h\":{}",
    "1{\"s\":",
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
    "[[[[",
];

const TRAIL_STARTS: [&str; 6] = [
    "",
    "1 0 0 0 0 ",
    "1 4294967295 1 2 3 17",
    "1 0 0 0 0 0 ",
    "1 0 0 0 0 0 [\"a\",\"\\ud83d",
    "1 0 0 0 0 0 [\"a\"]\n",
];

/// What trails, locks and ends are made of.
const TRAIL_WORDS: [&str; 15] = [
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
    "\u{1d}\"a\"\n",
    "!",
];

fn histories() -> impl Strategy<Value = AttemptHistory> {
    let counts = any::<[u32; 4]>();
    let succeeded = vec(any::<String>(), 0..3);
    let texts = || option::of(any::<String>());
    let parts = (counts, succeeded, texts(), texts());
    parts.prop_map(|(counts, succeeded, last_error, note)| {
        let mut history = AttemptHistory::default();
        let [failures, lock_expiries, releases, requeues] = counts;
        (history.failures, history.lock_expiries) = (failures, lock_expiries);
        (history.releases, history.requeues) = (releases, requeues);
        (history.succeeded, history.last_error) = (succeeded, last_error);
        history.note = note;
        history
    })
}

/// A trail as `trail_text` of `model.lua` writes it.
fn trail_text(trail: &AttemptHistory) -> String {
    let (failures, lock_expiries) = (trail.failures, trail.lock_expiries);
    let (releases, requeues) = (trail.releases, trail.requeues);
    let succeeded = encode_succeeded(&trail.succeeded);
    let error = trail.last_error.as_ref();
    let error = error.map_or_else(|| "-".to_owned(), |error| format!("+{error}"));
    let note = trail.note.as_deref().map(encode_note);
    let note = note.map_or_else(String::new, |note| format!("\u{1d}{note}\n"));
    format!("1 {failures} {lock_expiries} {releases} {requeues} 0 {succeeded}\n{error}{note}")
}

/// The pattern of `parse_trail` in `model.lua`, with counts that fit and names that are JSON.
fn is_a_trail(trail: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(trail) else {
        return false;
    };
    let Some((head, error)) = text.split_once('\n') else {
        return false;
    };
    let fields: Vec<_> = head.splitn(7, ' ').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let [version, counts @ .., settled, succeeded] = fields.as_slice() else {
        return false;
    };
    *version == "1"
        && counts.len() == 4
        && counts
            .iter()
            .all(|count| is_number(count) && count.parse::<u32>().is_ok())
        && is_number(settled)
        && (succeeded.is_empty() || serde_json::from_str::<Vec<String>>(succeeded).is_ok())
        && error.starts_with(['+', '-'])
}

/// One is read exactly when it is a trail, and the same again.
fn read_trail(text: &[u8]) {
    let read = decode_trail(text);
    assert_eq!(
        read.is_some(),
        text.is_empty() || is_a_trail(text),
        "{text:?}"
    );
    if let Some(trail) = read {
        assert!(trail.next_attempt() >= 1);
        assert_eq!(decode_trail(trail_text(&trail).as_bytes()), Some(trail));
    }
}

/// What is read as a lock or an end is read the same again.
fn read_lock_and_end(text: &[u8]) {
    if let Some(lock) = decode_lock(text) {
        let mark = if lock.cancel_requested { "!" } else { "" };
        let holder = lock
            .holder
            .map_or(String::new(), |holder| format!("@{holder} "));
        let again = format!("{} {} {holder}0{mark}", lock.fence, lock.attempt);
        assert_eq!(decode_lock(again.as_bytes()), Some(lock));
    }
    if let Some(end) = decode_end(text) {
        let settled = end.settled.unwrap_or(0);
        let again = format!("d{} {settled} {} 0", end.at.as_millis(), end.attempt);
        assert_eq!(decode_end(again.as_bytes()), Some(end));
    }
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written(task in tasks()) {
        prop_assert_eq!(decode(stored(&task, SUBMITTED_MS)), Ok(expected(&task)));
    }

    #[test]
    fn a_damaged_record_is_never_read_as_a_sound_one(
        task in tasks(), accidents in vec(accidents(), 1..=2),
    ) {
        let whole = stored(&task, SUBMITTED_MS);
        let mut hurt = whole.clone();
        for accident in &accidents {
            accident.happen_to(&mut hurt);
        }
        match decode(hurt.clone()) {
            Ok(read) => {
                prop_assert!(is_sound(&hurt), "{}", String::from_utf8_lossy(&hurt));
                // A CRC finds every single error in what it covers.
                let is_short = hurt.len() == whole.len() && accidents.len() == 1;
                prop_assert!(!is_short || read.message == task.message, "{read:?}");
                prop_assert!(!is_short || read.headers == task.headers, "{read:?}");
            }
            Err(Damage::Bad(why)) => {
                prop_assert!(why.starts_with("its ") || why.starts_with("it "), "{}", why);
            }
            Err(Damage::Newer(version)) => prop_assert_eq!(u32::from(hurt[0] - b'0'), version),
        }
        prop_assert!(salvage(hurt.clone()).len() <= hurt.len());
    }

    #[test]
    fn a_record_with_a_right_checksum_and_any_head_is_read_the_same_again(
        start in select(&HEAD_STARTS), rest in spelled(&HEAD_WORDS),
        message in vec(any::<u8>(), 0..16),
    ) {
        let head = format!("{start}{rest}");
        let text = format!("{head},\"c\":\"00000000\"}}");
        let covered = Covered::of(&text).filter(|_| !text.contains('\n'));
        prop_assume!(covered.is_some());
        let fixed = covered.map_or("", |covered| covered.fixed);
        let crc = crc32fast::hash(&[fixed.as_bytes(), &message].concat());
        let head = format!("{head},\"c\":\"{crc:08x}\"}}\n");
        if let Ok(read) = decode([head.as_bytes(), &message].concat()) {
            let mut again = plain();
            again.when = When::At(read.due_at);
            again.expiry = read.expires_at.map(Expiry::At);
            again.headers = read.headers.clone();
            again.message = read.message.clone();
            prop_assert_eq!(&read.message, &message);
            let encoded = stored(&again, read.submitted_at.as_millis());
            prop_assert_eq!(decode(encoded), Ok(read), "{}", head);
        }
    }

    #[test]
    fn a_trail_is_read_the_same_again(history in histories(), accident in accidents()) {
        let mut text = trail_text(&history).into_bytes();
        prop_assert_eq!(decode_trail(&text), Some(history));
        accident.happen_to(&mut text);
        read_trail(&text);
    }

    #[test]
    fn what_resembles_a_trail_is_one_or_is_refused(
        start in select(&TRAIL_STARTS), rest in spelled(&TRAIL_WORDS),
    ) {
        read_trail(format!("{start}{rest}").as_bytes());
    }

    #[test]
    fn locks_and_ends_are_read_the_same_again(
        attempt: u32, crc: u32, cancel_requested: bool, holder in option::of("[0-9A-Z]{8}"),
        letter in select(vec!['d', 'c', 'e']), rest in spelled(&TRAIL_WORDS),
        bytes in vec(any::<u8>(), 0..8),
    ) {
        let mark = if cancel_requested { "!" } else { "" };
        let word = holder.as_ref().map_or(String::new(), |holder| format!("@{holder} "));
        let lock = format!("1767225600000000 {attempt} {word}{crc:08x}{mark}");
        let (fence, holder) = (1_767_225_600_000_000, holder.as_deref());
        let expected = StoredLock { fence, attempt, holder, cancel_requested };
        prop_assert_eq!(decode_lock(lock.as_bytes()), Some(expected));
        let end = format!("{letter}{SUBMITTED_MS} 17 {attempt} {crc:08x}");
        let expected = StoredEnd { at: submitted_at(), settled: Some(17), attempt };
        prop_assert_eq!(decode_end(end.as_bytes()), Some(expected));
        for text in [rest.clone(), format!("d{rest}")] {
            read_lock_and_end(text.as_bytes());
        }
        read_lock_and_end(&bytes);
    }
}
