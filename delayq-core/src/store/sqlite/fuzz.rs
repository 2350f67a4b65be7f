//! Fuzz targets: the stored forms. Damage to a file can put anything into a row.

use std::time::Duration;

use delayq_fuzz::bolero::{ValueGenerator, check, produce};
use delayq_fuzz::{Accident, Reach, bytes, damage, list, spell, text};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::record::{StoredExpiry, checksum, headers_text, read_headers};
use super::stored::{Stored, names_text, read_names};
use crate::job::Expiry;
use crate::task::Headers;
use crate::time::Timestamp;

/// What headers and names are made of.
const JSON: [&str; 18] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\"a\"",
    ":",
    ",",
    "\"a\":\"b\"",
    "{\"a\":\"b\"}",
    "[\"a\"]",
    "null",
    "1",
    "\\u0000",
    "\\ud83d\\ude00",
    "\\",
    " ",
    "\u{1F600}",
];

#[test]
fn headers_and_names_are_read_the_same_again() {
    let reach = Reach::at_least(5);
    let lists = (list(3, (text(6), text(6))), list(3, text(9)));
    check!()
        .with_generator((bytes(5), lists, produce::<Accident>()))
        .for_each(|(bytes, (headers, names), accident)| {
            let headers: Headers = headers.iter().cloned().collect();
            let written = headers_text(&headers);
            assert_eq!(read_headers(written.as_deref()), Some(headers));
            assert_eq!(&read_again(names), names);
            let hurt = [written, names_text(names)].map(|text| hurt(text, *accident));
            for text in [&spell(bytes, &JSON), &hurt[0], &hurt[1]] {
                let headers = read_headers(Some(text));
                reach.count(headers.is_some());
                if let Some(headers) = headers {
                    assert!(text.trim_start().starts_with('{'), "{text}");
                    let again = headers_text(&headers);
                    assert_eq!(read_headers(again.as_deref()), Some(headers));
                }
                let names = read_names(text);
                assert_eq!(read_again(&names), names);
            }
        });
}

fn read_again(names: &[String]) -> Vec<String> {
    names_text(names).map_or_else(Vec::new, |text| read_names(&text))
}

/// What SQLite hands back of a text in which `accident` happened.
fn hurt(text: Option<String>, accident: Accident) -> String {
    let mut bytes = text.unwrap_or_default().into_bytes();
    damage(&mut bytes, &[accident]);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The parts that the checksum covers.
type Parts = (Vec<u8>, Option<String>, Option<(bool, u32)>);

fn sum((message, headers, expiry): &Parts) -> i64 {
    let expiry = expiry.map(|(is_span, ms)| {
        if is_span {
            Expiry::AfterDue(Duration::from_millis(u64::from(ms)))
        } else {
            Expiry::At(Timestamp::from_millis(i64::from(ms)))
        }
    });
    checksum(message, headers.as_deref(), StoredExpiry::new(expiry))
}

#[test]
fn a_part_that_changed_changes_the_checksum() {
    let headers = (produce::<bool>(), text(12)).map_gen(|(any, text)| any.then_some(text));
    let parts = (bytes(32), headers, produce::<Option<(bool, u32)>>());
    check!()
        .with_generator((parts, produce::<(Accident, u8)>()))
        .for_each(|(parts, (accident, bit))| {
            let before = sum(parts);
            assert!(before >= 0 && before >> 32 == i64::try_from(parts.0.len()).unwrap());
            let mut hurt = parts.clone();
            damage(&mut hurt.0, &[*accident]);
            // CRC-32 finds every change of one byte, and the length is kept beside it.
            assert_eq!(sum(&hurt) == before, hurt.0 == parts.0);
            let (message, headers, _) = parts.clone();
            if let Some((is_span, ms)) = parts.2 {
                let others = [(is_span, ms ^ (1 << (bit % 32))), (!is_span, ms)];
                for other in others.map(|other| (message.clone(), headers.clone(), Some(other))) {
                    assert_ne!(sum(&other), before);
                }
            }
        });
}

/// A column, and the kind and number of its new value.
type Change = (u8, u8, i64);

/// A value of one column, as kind and number.
fn value((kind, number): (u8, i64)) -> Value {
    match kind % 8 {
        0 | 1 => Value::Null,
        2 => Value::Integer(number),
        3 => Value::Integer(number % 7),
        4 => Value::Text(spell(&number.to_le_bytes(), &JSON)),
        5 => Value::Blob(number.to_le_bytes().to_vec()),
        6 => Value::Integer(number.abs() % Timestamp::MAX.as_millis()),
        // No NaN: SQLite stores it as NULL.
        _ => Value::Real(0.5),
    }
}

/// A sound row, in the order of the columns of `select_stored`.
fn sound_row(message: &[u8]) -> Vec<Value> {
    let sum = checksum(message, None, StoredExpiry::default());
    let numbers = [1, 0, 5, 5, 0, 0, 0, 0, 0, 0, sum, 0].map(Value::Integer);
    let mut row = numbers.to_vec();
    row.push(Value::Text("order-42".to_owned()));
    row.extend([Value::Null, Value::Integer(5), Value::Null, Value::Null]);
    row.extend([
        Value::Integer(0),
        Value::Integer(0),
        Value::Null,
        Value::Null,
        Value::Null,
    ]);
    row.push(Value::Blob(message.to_vec()));
    row
}

#[test]
fn a_row_of_anything_is_read_or_refused() {
    let reach = Reach::at_least(20);
    let connection = Connection::open_in_memory().unwrap();
    let columns = (1..=23).map(|n| format!("?{n}")).collect::<Vec<_>>();
    let select = format!("SELECT {}", columns.join(","));
    let connection = std::panic::AssertUnwindSafe(connection);
    check!()
        .with_generator((bytes(16), list(3, produce::<Change>())))
        .for_each(|(message, changes)| {
            let before = sound_row(message);
            let mut row = before.clone();
            for (column, kind, number) in changes {
                row[usize::from(column % 23)] = value((*kind, *number));
            }
            let mut statement = connection.prepare_cached(&select).unwrap();
            let read = statement.query_row(params_from_iter(&row), Stored::read);
            reach.count(read.is_ok());
            let Ok(stored) = read else { return };
            let is_sound = stored.damage().is_none();
            let is_as_written = [10, 15, 16, 21, 22]
                .iter()
                .all(|column| row[*column] == before[*column]);
            assert!(is_sound || !is_as_written, "{:?}", stored.damage());
            // The message and the times of expiry are what the checksum was made of; no message is an empty one.
            let mut sound = before;
            if message.is_empty() && row[22] == Value::Null {
                sound[22] = Value::Null;
            }
            let is_hurt = [15, 16, 22]
                .iter()
                .any(|column| row[*column] != sound[*column]);
            let hurt = is_hurt && row[10] == sound[10];
            assert!(!is_sound || !hurt, "{row:?}");
            if let Some(info) = stored.into_info() {
                assert!(is_sound || info.state.is_ended() || info.trail.last_error.is_some());
            }
        });
}
