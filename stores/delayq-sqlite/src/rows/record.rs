//! Record of a task: message, headers and expiry as sent, and the checksum over them.

use std::time::Duration;

use delayq_core::job::Expiry;
use delayq_core::task::Headers;
use delayq_core::time::{Timestamp, duration_ms};

/// The word after the holder of a lock who runs nothing else. A process of an earlier release shows
/// it as a part of the holder.
pub(super) const ALONE: &str = " alone";

/// An expiry in two columns: a time, or a span after the due time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredExpiry {
    pub(crate) at: Option<i64>,
    pub(crate) after: Option<i64>,
}

impl StoredExpiry {
    pub(crate) fn new(expiry: Option<Expiry>) -> Self {
        match expiry {
            None => Self::default(),
            Some(Expiry::At(time)) => Self {
                at: Some(time.as_millis()),
                after: None,
            },
            Some(Expiry::AfterDue(span)) => Self {
                at: None,
                after: Some(duration_ms(span)),
            },
        }
    }

    /// True if no such expiry was ever stored: the checksum has -1 for none.
    pub(crate) fn is_damaged(self) -> bool {
        [self.at, self.after].iter().flatten().any(|ms| *ms < 0)
    }

    /// The expiry time of a task with the requested due time `due`.
    pub(crate) fn time(self, due: Timestamp) -> Option<Timestamp> {
        let at = self.at.map(Timestamp::from_millis);
        at.or_else(|| Some(due.plus(span(self.after?))))
    }
}

/// A stored span; a damaged, negative one counts as zero.
pub(crate) fn span(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Headers in stored form: a JSON object that people can read; nothing if there are none.
pub(crate) fn headers_text(headers: &Headers) -> Option<String> {
    let text = || serde_json::to_string(headers).expect("a map of strings has a JSON form");
    (!headers.is_empty()).then(text)
}

/// Parses headers from their stored form; `None` if it is damaged.
pub(crate) fn read_headers(text: Option<&str>) -> Option<Headers> {
    text.map_or(Some(Headers::new()), |text| serde_json::from_str(text).ok())
}

/// The checksum of a record: the CRC-32 of all parts, each with its length, and the message's
/// length.
///
/// The length is included twice, so that two requests of an ended id differ by more than 32 bits.
pub(crate) fn checksum(message: &[u8], headers: Option<&str>, expiry: StoredExpiry) -> i64 {
    let mut crc = crc32fast::Hasher::new();
    let headers = headers.unwrap_or_default().as_bytes();
    for part in [message, headers] {
        crc.update(&(part.len() as u64).to_le_bytes());
        crc.update(part);
    }
    for time in [expiry.at, expiry.after] {
        crc.update(&time.unwrap_or(-1).to_le_bytes());
    }
    // Messages have at most 2^20 bytes; the mask keeps the result positive for damaged, longer
    // ones.
    let length = i64::try_from(message.len()).unwrap_or(i64::MAX) & 0x7fff_ffff;
    length << 32 | i64::from(crc.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_record_is_in_its_checksum() {
        let none = StoredExpiry::default();
        let at = StoredExpiry::new(Some(Expiry::At(Timestamp::from_millis(5))));
        let after = StoredExpiry::new(Some(Expiry::AfterDue(Duration::from_millis(5))));
        let sums = [
            checksum(b"", None, none),
            checksum(b"a", None, none),
            checksum(b"b", None, none),
            checksum(b"", Some("a"), none),
            checksum(b"a", Some("a"), none),
            checksum(b"a", None, at),
            checksum(b"a", None, after),
        ];
        let distinct: std::collections::BTreeSet<i64> = sums.into();
        assert_eq!(distinct.len(), sums.len());
        assert!(sums.iter().all(|sum| *sum >= 0));
    }

    #[test]
    fn the_checksum_never_changes_as_files_hold_it() {
        let at = StoredExpiry::new(Some(Expiry::At(Timestamp::from_millis(5))));
        let sum = checksum(b"message", Some(r#"{"a":"b"}"#), at);
        assert_eq!(sum, 30_758_947_612);
    }

    #[test]
    fn headers_keep_every_character() {
        let headers = Headers::from([("a".to_owned(), "ä \"\n\u{1F600}".to_owned())]);
        let text = headers_text(&headers);
        assert_eq!(read_headers(text.as_deref()), Some(headers));
        assert_eq!(headers_text(&Headers::new()), None);
        assert_eq!(read_headers(Some("{")), None);
    }
}
