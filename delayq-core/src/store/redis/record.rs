//! The stored forms on this side: what `lua/model.lua` calls record, trail and lock.
//!
//! A record is a version, a compact JSON head with defaults left out, a line feed and the message as it is:
//! `1{"s":1767225600000,"a":1800000,"c":"8587d865"}` LF `message`. Redis writes the time of submission and
//! never decodes the rest. The checksum covers what never changes on its own: expiry, headers, message.

use std::io::Write;

use crate::job::{Expiry, NewTask, When};
use crate::task::{Headers, Trail};
use crate::time::{Timestamp, duration_ms};

/// The version of records and trails that this release writes.
pub(super) const VERSION: u32 = 1;

/// Length of `,"c":"xxxxxxxx"}`, with which every head ends.
const CHECKSUM_LEN: usize = 16;

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) submitted_at: Timestamp,
    /// As the last submit, reschedule or requeue said.
    pub(super) due_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) headers: Headers,
    pub(super) message: Vec<u8>,
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// A newer release wrote it, in this version.
    Newer(u32),
    /// It is damaged.
    Bad(&'static str),
}

/// A task's record without its beginning, which Redis writes: from the time on.
pub(super) fn encode(task: &NewTask) -> Vec<u8> {
    let (kind, ms) = time_of(task.when);
    let fixed = fixed_part(task.expiry, &task.headers);
    let mut record = Vec::with_capacity(48 + fixed.len() + task.message.len());
    let _ = write!(record, "\"{kind}\":{ms}{fixed},\"c\":\"");
    push_tail(&mut record, &fixed, &task.message);
    record
}

/// How the store writes a time: a delay is `a`, a time is `d`, in ms.
pub(super) fn time_of(when: When) -> (char, i64) {
    match when {
        When::After(delay) => ('a', span_ms(delay)),
        When::At(time) => ('d', time.as_millis()),
    }
}

/// A span in ms that Lua keeps exact: none that matters is longer than the last time.
pub(super) fn span_ms(span: std::time::Duration) -> i64 {
    duration_ms(span).min(Timestamp::MAX.as_millis())
}

/// Puts the checksum, the end of the head, and the message behind a record.
pub(super) fn push_tail(record: &mut Vec<u8>, fixed: &str, message: &[u8]) {
    // Writing to memory does not fail.
    let _ = writeln!(record, "{:08x}\"}}", checksum(fixed.as_bytes(), message));
    record.extend_from_slice(message);
}

fn fixed_part(expiry: Option<Expiry>, headers: &Headers) -> String {
    let mut fixed = match expiry {
        None => String::new(),
        Some(Expiry::At(time)) => format!(",\"x\":{}", time.as_millis()),
        Some(Expiry::AfterDue(span)) => format!(",\"xa\":{}", span_ms(span)),
    };
    if !headers.is_empty() {
        let json = serde_json::to_string(headers).expect("a map of strings has a JSON form");
        fixed.push_str(",\"h\":");
        fixed.push_str(&json);
    }
    fixed
}

fn checksum(fixed: &[u8], message: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(fixed);
    hasher.update(message);
    hasher.finalize()
}

/// Reads a record.
pub(super) fn decode(mut record: Vec<u8>) -> Result<Record, Damage> {
    let head_len = check_version(&record)?;
    let head = record.get(..head_len).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| Damage::Bad("its head is not text"))?;
    let head = Head::parse(head)?;
    let message = record.get(head_len + 1..).unwrap_or_default();
    if checksum(head.fixed.as_bytes(), message) != head.checksum {
        return Err(Damage::Bad("its checksum is wrong"));
    }
    let (expiry, headers) = parse_fixed(head.fixed)?;
    let due_at = match head.kind {
        'a' => Timestamp::from_millis(head.submitted.saturating_add(head.time)),
        _ => Timestamp::from_millis(head.submitted.max(head.time)),
    };
    let decoded = Record {
        submitted_at: Timestamp::from_millis(head.submitted),
        due_at,
        expires_at: expiry.map(|expiry| match expiry {
            Expiry::At(time) => time,
            Expiry::AfterDue(span) => due_at.plus(span),
        }),
        headers,
        message: Vec::new(),
    };
    record.drain(..=head_len);
    Ok(Record {
        message: record,
        ..decoded
    })
}

/// The length of the head of a record of a version that can be read.
fn check_version(record: &[u8]) -> Result<usize, Damage> {
    match record {
        [b'1', b'{', ..] => {}
        [version @ b'2'..=b'9', b'{', ..] => return Err(Damage::Newer(u32::from(version - b'0'))),
        _ => return Err(Damage::Bad("it does not begin with a version")),
    }
    let head_len = record.iter().position(|byte| *byte == b'\n');
    head_len.ok_or(Damage::Bad("its head does not end"))
}

/// The bytes behind the head, whatever they are: what can be shown of a damaged record.
pub(super) fn salvage(mut record: Vec<u8>) -> Vec<u8> {
    if let Some(head_len) = record.iter().position(|byte| *byte == b'\n') {
        record.drain(..=head_len);
    }
    record
}

struct Head<'a> {
    submitted: i64,
    kind: char,
    time: i64,
    fixed: &'a str,
    checksum: u32,
}

impl<'a> Head<'a> {
    fn parse(head: &'a str) -> Result<Self, Damage> {
        Self::parts(head).ok_or(Damage::Bad("its head is not of the known form"))
    }

    fn parts(head: &'a str) -> Option<Self> {
        let (front, end) = head.split_at_checked(head.len().checked_sub(CHECKSUM_LEN)?)?;
        let checksum = end.strip_prefix(",\"c\":\"")?.strip_suffix("\"}")?;
        let (submitted, rest) = digits(front.strip_prefix("1{\"s\":")?)?;
        let (kind, rest) = match rest.strip_prefix(",\"a\":") {
            Some(rest) => ('a', rest),
            None => ('d', rest.strip_prefix(",\"d\":")?),
        };
        let (time, fixed) = digits(rest)?;
        Some(Self {
            submitted,
            kind,
            time,
            fixed,
            checksum: read_checksum(checksum)?,
        })
    }
}

/// As `tail` writes it, and as the scripts compare it: a text.
fn read_checksum(text: &str) -> Option<u32> {
    let is_known = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_known.then(|| u32::from_str_radix(text, 16).ok())?
}

/// The number that `text` begins with, and what follows.
fn digits(text: &str) -> Option<(i64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, rest))
}

fn parse_fixed(fixed: &str) -> Result<(Option<Expiry>, Headers), Damage> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fixed {
        x: Option<i64>,
        xa: Option<u64>,
        #[serde(default)]
        h: Headers,
    }
    let Some(fields) = fixed.strip_prefix(',') else {
        let empty = fixed.is_empty().then(|| (None, Headers::new()));
        return empty.ok_or(Damage::Bad("its head is not of the known form"));
    };
    let fixed: Fixed = serde_json::from_str(&format!("{{{fields}}}"))
        .map_err(|_| Damage::Bad("its head is not of the known form"))?;
    let at = fixed.x.map(|ms| Expiry::At(Timestamp::from_millis(ms)));
    let after = fixed
        .xa
        .map(|ms| Expiry::AfterDue(std::time::Duration::from_millis(ms)));
    Ok((at.or(after), fixed.h))
}

/// Reads a trail; an empty one is that of a task without a history. `None`: it is damaged.
pub(super) fn decode_trail(trail: &[u8]) -> Option<Trail> {
    if trail.is_empty() {
        return Some(Trail::default());
    }
    let (head, error) = std::str::from_utf8(trail).ok()?.split_once('\n')?;
    let mut fields = head.splitn(7, ' ');
    if fields.next() != Some("1") {
        return None;
    }
    let mut count = || number(fields.next()?)?.parse().ok();
    let (failures, lock_expiries, releases, requeues) = (count()?, count()?, count()?, count()?);
    let _settled_fence = number(fields.next()?)?;
    let succeeded = match fields.next()? {
        "" => Vec::new(),
        names => serde_json::from_str(names).ok()?,
    };
    Some(Trail {
        failures,
        lock_expiries,
        releases,
        requeues,
        last_error: match error.strip_prefix('+') {
            Some(error) => Some(error.to_owned()),
            None => error.starts_with('-').then_some(None)?,
        },
        succeeded,
    })
}

/// `text` when it is digits, as the scripts require; `parse` takes a sign, too.
fn number(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(text)
}

/// How a trail keeps the workers that have succeeded: JSON, which has no line feed; nothing for none.
pub(super) fn encode_succeeded(succeeded: &[String]) -> String {
    if succeeded.is_empty() {
        return String::new();
    }
    serde_json::to_string(succeeded).expect("a list of strings has a JSON form")
}

/// The attempt that a lock stands for, and whether a cancel was asked for.
pub(super) fn decode_lock(lock: &[u8]) -> Option<(u32, bool)> {
    let lock = std::str::from_utf8(lock).ok()?;
    Some((lock.split(' ').nth(1)?.parse().ok()?, lock.ends_with('!')))
}

/// The end that a generation remembers: when, and how many attempts were made.
pub(super) fn decode_end(end: &[u8]) -> Option<(Timestamp, u32)> {
    let mut fields = std::str::from_utf8(end).ok()?.get(1..)?.split(' ');
    let ended_at = Timestamp::from_millis(fields.next()?.parse().ok()?);
    Some((ended_at, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::job::{DelayQueueJob, Limits};

    fn task(job: DelayQueueJob) -> NewTask {
        job.into_task(
            &Limits::default(),
            Timestamp::from_millis(1_767_225_600_000),
        )
        .unwrap()
    }

    /// A record as Redis completes it.
    fn stored(task: &NewTask) -> Vec<u8> {
        [b"1{\"s\":1767225600000,".as_slice(), &encode(task)].concat()
    }

    #[test]
    fn a_record_of_version_1_has_this_form_for_ever() {
        let plain = task(DelayQueueJob::raw("a", "hello").after(Duration::from_mins(30)));
        assert_eq!(
            String::from_utf8(stored(&plain)).unwrap(),
            "1{\"s\":1767225600000,\"a\":1800000,\"c\":\"3610a686\"}\nhello"
        );
        let full = DelayQueueJob::raw("a", "hello")
            .at(Timestamp::from_millis(1_767_225_700_000))
            .expires_after(Duration::from_millis(5))
            .header("shop", "\"ber\nlin\"");
        assert_eq!(
            String::from_utf8(stored(&task(full))).unwrap(),
            concat!(
                "1{\"s\":1767225600000,\"d\":1767225700000,\"xa\":5,",
                "\"h\":{\"shop\":\"\\\"ber\\nlin\\\"\"},\"c\":\"18a45665\"}\nhello"
            )
        );
    }

    #[test]
    fn the_head_of_a_plain_record_is_small() {
        let plain = task(DelayQueueJob::raw("a", "").after(Duration::from_mins(30)));
        assert_eq!(stored(&plain).len(), 48);
    }

    #[test]
    fn a_trail_of_version_1_is_read() {
        let trail =
            decode_trail(b"1 2 3 4 5 1767225600000000 [\"a b\",\"c\"]\n+two\nlines").unwrap();
        let expected = Trail {
            failures: 2,
            lock_expiries: 3,
            releases: 4,
            requeues: 5,
            last_error: Some("two\nlines".to_owned()),
            succeeded: vec!["a b".to_owned(), "c".to_owned()],
        };
        assert_eq!(trail, expected);
        assert_eq!(decode_trail(b"1 0 0 0 0 0 \n-"), Some(Trail::default()));
        assert_eq!(decode_trail(b""), Some(Trail::default()));
        assert_eq!(decode_trail(b"2 0 0 0 0 0 \n-"), None);
    }

    #[test]
    fn locks_and_ends_of_version_1_are_read() {
        assert_eq!(
            decode_lock(b"1767225600000000 2 0badcafe"),
            Some((2, false))
        );
        assert_eq!(
            decode_lock(b"1767225600000000 2 0badcafe!"),
            Some((2, true))
        );
        let at = Timestamp::from_millis(1_767_225_600_000);
        assert_eq!(decode_end(b"d1767225600000 17 3 0badcafe"), Some((at, 3)));
    }

    #[test]
    fn a_record_of_a_newer_version_is_not_taken_for_damage() {
        assert_eq!(decode(b"2{\"new\":1}\nx".to_vec()), Err(Damage::Newer(2)));
        assert!(matches!(decode(b"x{}\n".to_vec()), Err(Damage::Bad(_))));
        assert!(matches!(decode(Vec::new()), Err(Damage::Bad(_))));
    }

    #[test]
    fn a_flipped_bit_in_what_the_checksum_covers_is_found() {
        let job = DelayQueueJob::raw("a", "message").expires_after(Duration::from_secs(9));
        let record = stored(&task(job.header("name", "value")));
        let times = "1{\"s\":1767225600000,\"a\":0".len();
        for at in times..record.len() {
            for bit in 0..8 {
                let mut damaged = record.clone();
                damaged[at] ^= 1 << bit;
                assert!(decode(damaged).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            message in prop::collection::vec(any::<u8>(), 0..300),
            headers in prop::collection::btree_map("[!-~]{1,9}", ".{0,9}", 0..4),
            expiry in prop::option::of(0_u64..9_000_000),
            delay in 0_u64..315_360_000_000,
        ) {
            let mut job = DelayQueueJob::raw("a", message.clone()).after(Duration::from_millis(delay));
            for (name, value) in &headers {
                job = job.header(name, value);
            }
            if let Some(expiry) = expiry {
                job = job.expires_after(Duration::from_millis(expiry));
            }
            let submitted_at = Timestamp::from_millis(1_767_225_600_000);
            let due_at = submitted_at.plus(Duration::from_millis(delay));
            let expected = Record {
                submitted_at,
                due_at,
                expires_at: expiry.map(|ms| due_at.plus(Duration::from_millis(ms))),
                headers,
                message,
            };
            prop_assert_eq!(decode(stored(&task(job))), Ok(expected));
        }

    }
}
