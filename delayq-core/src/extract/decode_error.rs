//! Errors of a JSON message, without its values.

use serde_json::error::Category;

/// Forms of serde's errors that may be shown up to and including the name that follows, as that is
/// a name of the type.
const NAMED: [&str; 2] = ["missing field `", "duplicate field `"];

/// Forms of serde's errors that quote a value of the message before the expected type.
const VALUED: [&str; 5] = [
    "invalid type: ",
    "invalid value: ",
    "invalid length ",
    "unknown variant ",
    "unknown field ",
];

/// The error without quoted values: its kind, the expected type, line and column. The last error of
/// a task is stored and logged, and a message may hold values that must appear in neither.
pub(super) fn redacted(error: &serde_json::Error) -> String {
    if error.classify() != Category::Data {
        return error.to_string();
    }
    let place = match error.line() {
        // An error raised by the type itself has no position.
        0 => String::new(),
        line => format!(" at line {line} column {}", error.column()),
    };
    let text = error.to_string();
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let kind = if let Some(kind) = VALUED.iter().find(|kind| text.starts_with(**kind)) {
        // The expected type comes last, after all text from the message.
        let expected = text.rfind(", expected ").and_then(|at| text.get(at..));
        let expected = expected.filter(|_| !text.contains(", there are no "));
        let found = text.strip_prefix(kind).and_then(found_kind);
        let kind = kind.trim_end_matches([':', ' ']);
        let found = found.map_or_else(String::new, |found| format!(": {found}"));
        format!("{kind}{found}{}", expected.unwrap_or_default())
    } else if NAMED.iter().any(|form| is_named(text, form)) {
        text.to_owned()
    } else {
        "the type refused a value".to_owned()
    };
    format!("{kind}{place}")
}

/// serde's words for the kinds of values.
const KINDS: [&str; 9] = [
    "string",
    "integer",
    "floating point",
    "boolean",
    "character",
    "map",
    "sequence",
    "null",
    "unit value",
];

/// The kind of the value found, without the value.
fn found_kind(found: &str) -> Option<&'static str> {
    KINDS.into_iter().find(|kind| found.starts_with(kind))
}

/// True if `text` is `form`, one word and a closing quote.
fn is_named(text: &str, form: &str) -> bool {
    let name = text
        .strip_prefix(form)
        .and_then(|rest| rest.strip_suffix('`'));
    let is_word = |name: &str| {
        name.chars()
            .all(|c| c.is_alphanumeric() || "_-.$".contains(c))
    };
    name.is_some_and(is_word)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::{DeserializeOwned, Error as _};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Card {
        _number: u64,
        _kind: Kind,
    }

    #[derive(Debug, Deserialize)]
    enum Kind {
        Debit,
        Credit,
    }

    #[derive(Debug)]
    struct Picky;

    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let text = String::deserialize(from)?;
            Err(D::Error::custom(format!("missing field `x` of {text}`")))
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Empty {}

    fn refused<T: DeserializeOwned + std::fmt::Debug>(message: &str) -> String {
        let error = serde_json::from_str::<T>(message).unwrap_err();
        let text = redacted(&error);
        assert!(!text.contains("hunter2"), "{text}");
        text
    }

    #[test]
    fn an_error_names_the_kind_the_expected_type_and_the_place_and_quotes_no_value() {
        let number = refused::<Vec<u64>>(r#"["hunter2, expected x"]"#);
        assert_eq!(
            number,
            "invalid type: string, expected u64 at line 1 column 22"
        );
        let kind = refused::<Card>(r#"{"_number": 1, "_kind": "hunter2"}"#);
        let expected = "unknown variant, expected `Debit` or `Credit` at line 1 column 33";
        assert_eq!(kind, expected);
        let field = refused::<Card>(r#"{"hunter2": 1}"#);
        assert!(
            field.starts_with("unknown field, expected `_number` or `_kind`"),
            "{field}"
        );
        let missing = refused::<Card>(r#"{"_number": 1}"#);
        assert_eq!(missing, "missing field `_kind` at line 1 column 14");
        let range = refused::<u8>("777");
        assert_eq!(
            range,
            "invalid value: integer, expected u8 at line 1 column 3"
        );
        let own = refused::<Picky>(r#""hunter2""#);
        assert_eq!(own, "the type refused a value");
        let empty = refused::<Empty>(r#"{"a, expected hunter2": 1}"#);
        assert!(empty.starts_with("unknown field at line 1"), "{empty}");
        let map = refused::<BTreeMap<u64, u64>>(r#"{"hunter2": 1}"#);
        assert!(map.contains("line 1 column"), "{map}");
        let syntax = refused::<u8>("{hunter2");
        assert!(syntax.contains("line 1 column"), "{syntax}");
    }
}
