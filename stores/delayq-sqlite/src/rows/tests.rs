//! Properties of the stored forms: damage to a file can put anything into a row.

use std::time::Duration;

use delayq_core::job::Expiry;
use delayq_core::machine::Gate;
use delayq_core::task::Headers;
use delayq_core::time::Timestamp;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::record::{StoredExpiry, checksum, headers_text, read_headers};
use super::task_record::{TaskRecord, names_text, read_names};

/// Pieces of stored headers and names, and of what looks like them.
const JSON: [&str; 17] = [
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
    "\u{1F600}",
];

/// Text that is often nearly JSON.
fn any_json() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => select(&JSON[..]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// One change of one byte.
#[derive(Clone, Debug)]
struct Accident {
    at: Index,
    kind: u8,
    byte: u8,
}

fn any_accident() -> impl Strategy<Value = Accident> {
    let parts = (any::<Index>(), 0..4_u8, any::<u8>());
    parts.prop_map(|(at, kind, byte)| Accident { at, kind, byte })
}

impl Accident {
    fn happen(&self, bytes: &mut Vec<u8>) {
        let at = self.at.index(bytes.len() + 1);
        match (self.kind, bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at),
            (1, _) => bytes.insert(at, self.byte),
            (2, Some(_)) => drop(bytes.remove(at)),
            (_, Some(byte)) => *byte ^= 1 << (self.byte % 8),
            (_, None) => {}
        }
    }

    /// What SQLite hands back of a text that it happened to.
    fn happen_to_text(&self, text: Option<String>) -> String {
        let mut bytes = text.unwrap_or_default().into_bytes();
        self.happen(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn read_again(names: &[String]) -> Vec<String> {
    names_text(names).map_or_else(Vec::new, |text| read_names(&text))
}

fn any_expiry() -> impl Strategy<Value = Option<Expiry>> {
    prop::option::of(prop_oneof![
        any::<u32>().prop_map(|ms| Expiry::At(Timestamp::from_millis(i64::from(ms)))),
        any::<u32>().prop_map(|ms| Expiry::AfterDue(Duration::from_millis(u64::from(ms)))),
    ])
}

fn sum(message: &[u8], headers: Option<&str>, expiry: Option<Expiry>) -> i64 {
    checksum(message, headers, StoredExpiry::new(expiry))
}

/// The same expiry with one bit of its number changed, and as one of the other kind.
fn other_expiries(expiry: Expiry, bit: u32) -> [Expiry; 2] {
    let bit = 1_i64 << (bit % 32);
    let span = |ms: i64| Expiry::AfterDue(Duration::from_millis(ms.unsigned_abs()));
    let time = |ms| Expiry::At(Timestamp::from_millis(ms));
    match expiry {
        Expiry::At(at) => [time(at.as_millis() ^ bit), span(at.as_millis())],
        Expiry::AfterDue(after) => {
            let ms = i64::try_from(after.as_millis()).unwrap();
            [span(ms ^ bit), time(ms)]
        }
    }
}

/// A value of any column.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        (-2..8_i64).prop_map(Value::Integer),
        (0..Timestamp::MAX.as_millis()).prop_map(Value::Integer),
        any_json().prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(Value::Blob),
        // No NaN: SQLite stores it as NULL.
        Just(Value::Real(0.5)),
    ]
}

const COLUMNS: usize = 27;
const CHECKSUM: usize = 13;
/// The columns that the checksum covers: both forms of the expiry, headers, message.
const COVERED: [usize; 4] = [18, 19, 22, 26];

/// A sound row, in the order of the columns of `select_records`.
fn sound_row(message: &[u8]) -> Vec<Value> {
    let sum = checksum(message, None, StoredExpiry::default());
    let mut row = [1, 0, 5, 5].map(Value::Integer).to_vec();
    row.push(Value::Null);
    row.extend([0; 8].map(Value::Integer));
    row.extend([sum, 0].map(Value::Integer));
    row.push(Value::Null);
    row.push(Value::Text("order-42".to_owned()));
    row.push(Value::Integer(5));
    row.extend(vec![Value::Null; 8]);
    row.push(Value::Blob(message.to_vec()));
    row
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn headers_and_names_are_read_the_same_again(
        headers in prop::collection::btree_map(any::<String>(), any::<String>(), 0..4),
        names in prop::collection::vec(any::<String>(), 0..4),
        accident in any_accident(),
        text in any_json(),
    ) {
        let headers: Headers = headers;
        let written = headers_text(&headers);
        prop_assert_eq!(read_headers(written.as_deref()), Some(headers));
        prop_assert_eq!(&read_again(&names), &names);
        let hurt = [written, names_text(&names)].map(|text| accident.happen_to_text(text));
        for text in hurt.iter().chain([&text]) {
            if let Some(headers) = read_headers(Some(text)) {
                prop_assert!(text.trim_start().starts_with('{'), "{}", text);
                let again = headers_text(&headers);
                prop_assert_eq!(read_headers(again.as_deref()), Some(headers));
            }
            let names = read_names(text);
            prop_assert_eq!(read_again(&names), names);
        }
    }

    #[test]
    fn a_part_that_changed_changes_the_checksum(
        message in prop::collection::vec(any::<u8>(), 0..40),
        headers in prop::option::of(any::<String>()),
        expiry in any_expiry(),
        accident in any_accident(),
        bit in any::<u32>(),
    ) {
        let headers = headers.as_deref();
        let before = sum(&message, headers, expiry);
        prop_assert!(before >= 0 && before >> 32 == i64::try_from(message.len()).unwrap());
        let mut hurt = message.clone();
        accident.happen(&mut hurt);
        // CRC-32 finds every change of one byte, and the length is kept beside it.
        prop_assert_eq!(sum(&hurt, headers, expiry) == before, hurt == message);
        for other in expiry.into_iter().flat_map(|expiry| other_expiries(expiry, bit)) {
            prop_assert_ne!(sum(&message, headers, Some(other)), before);
        }
    }

    #[test]
    fn a_row_of_anything_is_read_or_refused(
        message in prop::collection::vec(any::<u8>(), 0..17),
        changes in prop::collection::vec((0..COLUMNS, any_value()), 0..4),
    ) {
        let before = sound_row(&message);
        let mut row = before.clone();
        for (column, value) in changes {
            row[column] = value;
        }
        let connection = Connection::open_in_memory().unwrap();
        let columns = (1..=COLUMNS).map(|n| format!("?{n}")).collect::<Vec<_>>();
        let select = format!("SELECT {}", columns.join(","));
        let mut statement = connection.prepare(&select).unwrap();
        let read = statement.query_row(params_from_iter(&row), TaskRecord::read);
        prop_assert!(read.is_ok() || row != before, "{:?}", read);
        let Ok(record) = read else {
            return Ok(());
        };
        let is_sound = record.damage().is_none();
        let is_same = |column: &usize| row[*column] == before[*column];
        let is_as_written = is_same(&CHECKSUM) && COVERED.iter().all(is_same);
        prop_assert!(is_sound || !is_as_written, "{:?}", record.damage());
        // No message is an empty one, and headers of another form may mean the same.
        let [at, after, _, text] = COVERED;
        let is_hurt = [at, after].iter().any(|column| !is_same(column))
            || !(is_same(&text) || (message.is_empty() && row[text] == Value::Null));
        prop_assert!(!is_sound || !is_hurt || !is_same(&CHECKSUM), "{:?}", row);
        if let Some(info) = record.into_info(&Gate::default()) {
            prop_assert!(is_sound || info.state.is_ended() || info.history.last_error.is_some());
        }
    }
}
