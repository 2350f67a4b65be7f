//! The stored forms of version 1, byte for byte.

mod properties;

use std::time::Duration;

use super::*;
use delayq_core::job::{DelayQueueJob, Limits};

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
    let trail = decode_trail(b"1 2 3 4 5 1767225600000000 [\"a b\",\"c\"]\n+two\nlines").unwrap();
    let mut expected = AttemptHistory::default();
    (expected.failures, expected.lock_expiries) = (2, 3);
    (expected.releases, expected.requeues) = (4, 5);
    expected.last_error = Some("two\nlines".to_owned());
    expected.succeeded = vec!["a b".to_owned(), "c".to_owned()];
    assert_eq!(trail, expected);
    assert_eq!(
        decode_trail(b"1 0 0 0 0 0 \n-"),
        Some(AttemptHistory::default())
    );
    assert_eq!(decode_trail(b""), Some(AttemptHistory::default()));
    assert_eq!(decode_trail(b"2 0 0 0 0 0 \n-"), None);
}

#[test]
fn locks_and_ends_of_version_1_are_read() {
    let lock = |cancel_requested| StoredLock {
        fence: 1_767_225_600_000_000,
        attempt: 2,
        holder: None,
        cancel_requested,
    };
    let stored = decode_lock(b"1767225600000000 2 0badcafe");
    assert_eq!(stored, Some(lock(false)));
    let stored = decode_lock(b"1767225600000000 2 0badcafe!");
    assert_eq!(stored, Some(lock(true)));
    let at = Timestamp::from_millis(1_767_225_600_000);
    assert_eq!(
        decode_end(b"d1767225600000 17 3 0badcafe"),
        Some(StoredEnd {
            at,
            settled: Some(17),
            attempt: 3
        })
    );
    // The zeros in front of a count say how the lock was settled.
    for (count, attempt) in [("00003", 3), ("000000", 0)] {
        let end = format!("c1767225600000 17 {count} 0badcafe");
        assert_eq!(decode_end(end.as_bytes()).unwrap().attempt, attempt);
        let trail = format!("1 2 0 1 {count} 17 \n-");
        assert_eq!(decode_trail(trail.as_bytes()).unwrap().requeues, attempt);
    }
    assert_eq!(encode_failure("no\nä"), b"2b6e6f0ac3a4");
    assert_eq!(decode_failure(b"2b6e6f0ac3a4").as_deref(), Some("no\nä"));
    for damaged in ["", "6e6f", "2bzz", "2bff"] {
        assert_eq!(decode_failure(damaged.as_bytes()), None, "{damaged}");
    }
}

#[test]
fn a_lock_names_its_holder_in_a_word_that_an_earlier_release_skips() {
    let instance = InstanceId::stored("01JDAY0000000000000000000A".to_owned());
    let word = holder_word(Some(&instance));
    assert_eq!(word, "@0000000A ");
    for none in ["", "a", "01JDAY0000000000000000000!"] {
        assert_eq!(holder_word(Some(&InstanceId::stored(none.to_owned()))), "");
    }
    for (mark, cancel_requested) in [("", false), ("!", true)] {
        let text = format!("1767225600000000 2 {word}0badcafe{mark}");
        let lock = StoredLock {
            fence: 1_767_225_600_000_000,
            attempt: 2,
            holder: Some("0000000A"),
            cancel_requested,
        };
        assert_eq!(decode_lock(text.as_bytes()), Some(lock));
        // What the release before reads: the fence in front, the second word, the mark, and where
        // the lock was ended by it the checksum as the last word.
        assert!(text.starts_with("1767225600000000 "));
        assert_eq!(text.split(' ').nth(1), Some("2"));
        assert_eq!(text.ends_with('!'), cancel_requested);
        let last = text.trim_end_matches('!').rsplit(' ').next();
        assert_eq!(last, Some("0badcafe"));
        let end = format!("d1767225600000 {}", text.trim_end_matches('!'));
        assert_eq!(decode_end(end.as_bytes()).unwrap().attempt, 2);
    }
}

#[test]
fn a_trail_has_the_last_errors_behind_the_last_one() {
    let head = "1 2 0 1 0 1767225600000000 \n";
    let log = "1767225600007 2 0 no way\n1767225600001 1 0 boom\n";
    for (error, last) in [
        ("+no\nway", Some("no\nway")),
        ("+a\u{1e}b", Some("a\u{1e}b")),
        ("-", None),
    ] {
        // As the release before wrote it, and as it reads what this one writes: the head, and an
        // error that begins with its sign.
        let old = format!("{head}{error}");
        assert_eq!(
            decode_trail(old.as_bytes()).unwrap().last_error.as_deref(),
            last
        );
        assert_eq!(errors_of(old.as_bytes()), "");
        let new = format!("{old}\u{1e}{log}");
        assert_eq!(decode_trail(new.as_bytes()), decode_trail(old.as_bytes()));
        assert_eq!(errors_of(new.as_bytes()), log);
        assert!(new.starts_with(&old));
    }
}

/// What the release before reads of it is in the places that it knows: an error that begins with
/// its sign, and a log whose first line is one.
#[test]
fn a_note_is_the_end_of_a_trail() {
    let head = "1 2 0 1 0 1767225600000000 \n";
    let log = "1767225600007 2 0 no way\n1767225600001 1 0 boom\n";
    let note = "pri=7\n\t\u{1d}\u{1e}\"ä\"";
    let end = format!("\u{1d}{}\n", encode_note(note));
    assert_eq!(end, "\u{1d}\"pri=7\\n\\t\\u001d\\u001e\\\"ä\\\"\"\n");
    for before in ["-", "+no", "+no\u{1d}\n", &format!("+no\u{1e}{log}")] {
        let (old, new) = (format!("{head}{before}"), format!("{head}{before}{end}"));
        let read = decode_trail(new.as_bytes()).unwrap();
        assert_eq!(read.note.as_deref(), Some(note));
        let mut expected = decode_trail(old.as_bytes()).unwrap();
        assert_eq!(expected.note, None);
        expected.note = read.note.clone();
        assert_eq!(read, expected);
        assert_eq!(errors_of(new.as_bytes()), errors_of(old.as_bytes()));
    }
    let longer = format!("{log}{end}");
    assert_eq!(ErrorLog::begins(&longer), ErrorLog::begins(log));
    let read = |log| ErrorLog::read(log, Timestamp::ZERO).errors;
    assert_eq!(read(&longer), read(log));
    for none in ["\u{1d}\"a\"", "\u{1d}a\n", "\u{1d}\"a\n", "\"a\"\n"] {
        let trail = format!("{head}+no{none}");
        let read = decode_trail(trail.as_bytes()).unwrap();
        assert_eq!(read.note, None);
        assert_eq!(read.last_error, Some(format!("no{none}")));
    }
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
