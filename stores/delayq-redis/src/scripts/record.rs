//! Stored formats: record, trail and lock, as named in `model.lua`.
//!
//! A record is a version, a compact JSON head without default values, a line feed and the raw
//! message: `1{"s":1767225600000,"a":1800000,"c":"8587d865"}` LF `message`. Redis writes the submit
//! time and never decodes the rest. The checksum covers the parts that never change by themselves:
//! expiry, headers, message.

use std::io::Write;

use delayq_core::job::{Expiry, NewTask, When};
use delayq_core::machine::ErrorLog;
use delayq_core::presence::{InstanceId, SHORT_LEN};
use delayq_core::task::{AttemptHistory, Headers, replace_headers};
use delayq_core::time::{MAX_DELAY, Timestamp, duration_ms};

/// The version of records and trails written by this release.
pub(crate) const VERSION: u32 = 1;

/// Length of `,"c":"xxxxxxxx"}`, the end of every head.
const CHECKSUM_LEN: usize = 16;

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) submitted_at: Timestamp,
    /// Set by the last submit, reschedule or requeue.
    pub(crate) due_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) headers: Headers,
    pub(crate) message: Vec<u8>,
}

/// The reason why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// A newer release wrote it, with this version.
    Newer(u32),
    /// It is damaged.
    Bad(&'static str),
}

/// The record after the submit time, which Redis prepends.
pub(crate) fn encode(task: &NewTask) -> Vec<u8> {
    let StoredTime { kind, ms } = StoredTime::of(task.when);
    let fixed = fixed_part(task.expiry, &task.headers);
    let mut record = Vec::with_capacity(48 + fixed.len() + task.message.len());
    let _ = write!(record, "\"{kind}\":{ms}");
    push_end(&mut record, &fixed, &task.message);
    record
}

/// A stored time: `a` for a delay, `d` for a time, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredTime {
    pub(crate) kind: char,
    pub(crate) ms: i64,
}

impl StoredTime {
    pub(crate) fn of(when: When) -> Self {
        match when {
            When::After(delay) => Self {
                kind: 'a',
                ms: delay_ms(delay),
            },
            When::At(time) => Self {
                kind: 'd',
                ms: time.as_millis(),
            },
        }
    }
}

/// A span in ms that Lua keeps exact: spans beyond the last time are cut, which makes no
/// difference.
pub(crate) fn span_ms(span: std::time::Duration) -> i64 {
    duration_ms(span).min(Timestamp::MAX.as_millis())
}

/// The same of a wait of a task; one beyond [`MAX_DELAY`] is that long.
pub(crate) fn delay_ms(delay: std::time::Duration) -> i64 {
    span_ms(delay.min(MAX_DELAY))
}

/// Appends the part of a record that its checksum covers to its time, with the checksum in between.
pub(crate) fn push_end(record: &mut Vec<u8>, fixed: &str, message: &[u8]) {
    let checksum = checksum(fixed.as_bytes(), message);
    // Writing to memory cannot fail.
    let _ = writeln!(record, "{fixed},\"c\":\"{checksum:08x}\"}}");
    record.extend_from_slice(message);
}

/// The part between the time and the checksum of a record, with new header values.
pub(crate) fn with_headers(fixed: &str, values: &Headers) -> Result<String, &'static str> {
    if values.is_empty() {
        return Ok(fixed.to_owned());
    }
    match parse_fixed(fixed) {
        Ok((expiry, mut headers)) => {
            replace_headers(&mut headers, values);
            Ok(fixed_part(expiry, &headers))
        }
        Err(Damage::Bad(reason)) => Err(reason),
        Err(Damage::Newer(_)) => Err("a newer release wrote it"),
    }
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
pub(crate) fn decode(mut record: Vec<u8>) -> Result<Record, Damage> {
    let head_len = check_version(&record)?;
    let head = record.get(..head_len).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| Damage::Bad("its head is not text"))?;
    let head = RecordHead::parse(head)?;
    let message = record.get(head_len + 1..).unwrap_or_default();
    if checksum(head.fixed.as_bytes(), message) != head.checksum {
        return Err(Damage::Bad("its checksum is wrong"));
    }
    let (expiry, headers) = parse_fixed(head.fixed)?;
    let due_at = head.due_at();
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

/// What can be read of a record whose message is cut off, so that its checksum says nothing.
#[derive(Debug, Default)]
pub(crate) struct RecordPart {
    pub(crate) submitted_at: Option<Timestamp>,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) headers: Headers,
    pub(crate) message: Vec<u8>,
}

/// Reads the beginning of a record.
pub(crate) fn decode_part(record: Vec<u8>) -> RecordPart {
    let mut part = RecordPart::default();
    let head_len = check_version(&record).unwrap_or(0);
    let head = record.get(..head_len).unwrap_or_default();
    let head = std::str::from_utf8(head).unwrap_or_default();
    if let Ok(head) = RecordHead::parse(head) {
        part.submitted_at = Some(Timestamp::from_millis(head.submitted));
        part.due_at = Some(head.due_at());
        part.headers = parse_fixed(head.fixed).map_or_else(|_| Headers::new(), |(_, all)| all);
    }
    part.message = salvage(record);
    part
}

/// The length of the head, if the version of the record can be read.
fn check_version(record: &[u8]) -> Result<usize, Damage> {
    match record {
        [b'1', b'{', ..] => {}
        [version @ b'2'..=b'9', b'{', ..] => return Err(Damage::Newer(u32::from(version - b'0'))),
        _ => return Err(Damage::Bad("it does not begin with a version")),
    }
    let head_len = record.iter().position(|byte| *byte == b'\n');
    head_len.ok_or(Damage::Bad("its head does not end"))
}

/// The bytes after the head: the part of a damaged record that can be shown.
pub(crate) fn salvage(mut record: Vec<u8>) -> Vec<u8> {
    if let Some(head_len) = record.iter().position(|byte| *byte == b'\n') {
        record.drain(..=head_len);
    }
    record
}

struct RecordHead<'a> {
    submitted: i64,
    kind: char,
    time: i64,
    fixed: &'a str,
    checksum: u32,
}

impl<'a> RecordHead<'a> {
    fn parse(head: &'a str) -> Result<Self, Damage> {
        Self::parts(head).ok_or(Damage::Bad("its head is not of the known form"))
    }

    fn due_at(&self) -> Timestamp {
        let ms = match self.kind {
            'a' => self.submitted.saturating_add(self.time),
            _ => self.submitted.max(self.time),
        };
        Timestamp::from_millis(ms)
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

/// Parses the checksum in the exact format of `tail`, as the scripts compare it as text.
fn read_checksum(text: &str) -> Option<u32> {
    let is_known = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_known.then(|| u32::from_str_radix(text, 16).ok())?
}

/// The number at the start of `text`, and the rest.
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

/// Reads a trail; an empty one belongs to a task without a history. `None` if it is damaged.
pub(crate) fn decode_trail(trail: &[u8]) -> Option<AttemptHistory> {
    if trail.is_empty() {
        return Some(AttemptHistory::default());
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
    let mut trail = AttemptHistory::default();
    trail.failures = failures;
    trail.lock_expiries = lock_expiries;
    trail.releases = releases;
    trail.requeues = requeues;
    let (error, note) = split_note(error);
    let (error, _) = split_error(error);
    trail.note = note;
    trail.last_error = match error.strip_prefix('+') {
        Some(error) => Some(error.to_owned()),
        None => error.starts_with('-').then_some(None)?,
    };
    trail.succeeded = succeeded;
    Some(trail)
}

/// The log of the last errors in a trail, see [`ErrorLog`]; empty for none.
pub(crate) fn errors_of(trail: &[u8]) -> &str {
    let trail = std::str::from_utf8(trail).unwrap_or_default();
    let error = trail.split_once('\n').map(|(_, error)| error);
    error.map_or("", |error| split_error(split_note(error).0).1)
}

/// The note at the end of a trail, and what stands before it, as `split_note` of `model.lua`.
fn split_note(error: &str) -> (&str, Option<String>) {
    let line = error.strip_suffix('\n');
    let parts = line.and_then(|line| line.rsplit_once('\u{1d}'));
    let parts = parts.and_then(|(rest, note)| Some((rest, serde_json::from_str(note).ok()?)));
    parts.map_or((error, None), |(rest, note)| (rest, Some(note)))
}

/// The error of a trail, and the log after it, as in `split_error` of `model.lua`.
fn split_error(error: &str) -> (&str, &str) {
    let parts = error.rsplit_once('\u{1e}');
    parts
        .filter(|(_, log)| ErrorLog::begins(log))
        .unwrap_or((error, ""))
}

/// `text` if it consists of digits, as the scripts require; `parse` would accept a sign.
fn number(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(text)
}

/// The format of the succeeded workers in a trail: JSON, which contains no line feed; empty for
/// none.
pub(crate) fn encode_succeeded(succeeded: &[String]) -> String {
    if succeeded.is_empty() {
        return String::new();
    }
    serde_json::to_string(succeeded).expect("a list of strings has a JSON form")
}

/// How a trail keeps a note: JSON, as for the workers.
pub(crate) fn encode_note(note: &str) -> String {
    serde_json::to_string(note).expect("a string has a JSON form")
}

/// A decoded lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredLock<'a> {
    /// 0 if damaged.
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    /// The short identity of the holder, if it was written by a claim of this release or a later
    /// one.
    pub(crate) holder: Option<&'a str>,
    pub(crate) cancel_requested: bool,
}

/// The format of the claimer in a lock: with a space after it, and empty for none. Its length is
/// fixed, by which a settlement cuts it off. Anything except letters and digits could be mistaken
/// for another part of the lock.
pub(crate) fn holder_word(holder: Option<&InstanceId>) -> String {
    let short = holder.map_or("", InstanceId::short);
    let is_word = short.len() == SHORT_LEN && short.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_word {
        format!("@{short} ")
    } else {
        String::new()
    }
}

pub(crate) fn decode_lock(lock: &[u8]) -> Option<StoredLock<'_>> {
    let lock = std::str::from_utf8(lock).ok()?;
    let mut words = lock.split(' ');
    let fence = words.next()?;
    Some(StoredLock {
        fence: fence.parse().unwrap_or(0),
        attempt: words.next()?.parse().ok()?,
        holder: words.next().and_then(|word| word.strip_prefix('@')),
        cancel_requested: lock.ends_with('!'),
    })
}

/// An error in the format of a remembered end: with a plus in front, so that it is never empty,
/// then hex digits.
pub(crate) fn encode_failure(error: &str) -> Vec<u8> {
    let mut note = Vec::with_capacity(2 + 2 * error.len());
    for byte in [b"+", error.as_bytes()].concat() {
        // Writing to memory cannot fail.
        let _ = write!(note, "{byte:02x}");
    }
    note
}

/// The error of a remembered end; `None` for none, or a damaged one.
pub(crate) fn decode_failure(note: &[u8]) -> Option<String> {
    let digits = note.iter().map(|digit| char::from(*digit).to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let bytes = pairs.map(|pair| u8::try_from(pair.iter().fold(0, |sum, digit| 16 * sum + digit)));
    let text = String::from_utf8(bytes.collect::<Result<_, _>>().ok()?).ok()?;
    Some(text.strip_prefix('+')?.to_owned())
}

/// The record of an ended task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredEnd {
    pub(crate) at: Timestamp,
    /// The last settled fence; `None` if there was none.
    pub(crate) settled: Option<u64>,
    /// The number of attempts made.
    pub(crate) attempt: u32,
}

pub(crate) fn decode_end(end: &[u8]) -> Option<StoredEnd> {
    let mut fields = std::str::from_utf8(end).ok()?.get(1..)?.split(' ');
    Some(StoredEnd {
        at: Timestamp::from_millis(fields.next()?.parse().ok()?),
        settled: fields.next()?.parse().ok().filter(|fence| *fence > 0),
        attempt: fields.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests;
