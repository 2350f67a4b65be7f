//! Messages that their sender says are JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::GROUP_HEADER;
use super::header::check_form;
use crate::error::{Error, Result};
use crate::task::Headers;

/// The header that says what a message is.
pub const CONTENT_TYPE: &str = "content-type";

/// The content type of a message that a form has as JSON.
pub const JSON_TYPE: &str = "application/json";

/// True for a media type of JSON: `application/json`, or one that ends in `+json`.
#[must_use]
pub fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// The header `content-type` in any case of its letters: its name and its value.
#[must_use]
pub fn content_type_of(headers: &Headers) -> Option<(&str, &str)> {
    let mut headers = headers.iter();
    let named = headers.find(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE));
    named.map(|(name, kind)| (name.as_str(), kind.as_str()))
}

/// Refuses headers and a message that a new task cannot have: headers that a request of HTTP could
/// not carry, a blank group, which no filter could name, and those of [`check_message_type`].
///
/// # Errors
/// [`Error::InvalidName`] or [`Error::InvalidInput`], with what to change.
pub fn check_content(headers: &Headers, message: &[u8]) -> Result<()> {
    check_form(headers)?;
    let group = headers.get(GROUP_HEADER);
    if group.is_some_and(|group| group.trim().is_empty()) {
        let reason = "it is blank, and no filter can name it: leave it out, or give a text";
        return Err(Error::invalid("group", reason));
    }
    check_message_type(headers, message)
}

/// Refuses a message whose header `content-type` says that it is JSON, if a worker could not read
/// it.
///
/// # Errors
/// [`Error::InvalidInput`]; the reason is that of [`check_json`].
pub fn check_message_type(headers: &Headers, message: &[u8]) -> Result<()> {
    match content_type_of(headers).filter(|(_, kind)| is_json_type(kind)) {
        Some((_, kind)) => check_json(message).map_err(|reason| {
            let reason =
                format!("the content type is {kind}, and the message is no JSON: {reason}");
            Error::invalid("message", reason)
        }),
        None => Ok(()),
    }
}

/// Refuses a message that is no JSON, or that common parsers do not read: text with half of a
/// surrogate pair, a number beyond the range of a double, or more than 127 levels.
///
/// # Errors
/// The reason, and its place in the message.
pub fn check_json(message: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(message).map_err(|error| error.to_string())?;
    let read = serde_json::from_str::<ReadableValue>(text);
    read.map(drop).map_err(|error| {
        let said = error.to_string();
        match said.strip_prefix("recursion limit exceeded") {
            Some(place) => format!("it has more than 127 levels{place}"),
            None => said,
        }
    })
}

/// Any value, which is read in full and then dropped.
struct ReadableValue;

impl<'de> Deserialize<'de> for ReadableValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor).map(|()| Self)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<ReadableValue>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields
            .next_entry::<ReadableValue, ReadableValue>()?
            .is_some()
        {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    /// What passes is what a worker with `Json<..>` reads.
    #[test]
    fn json_is_refused_where_a_worker_could_not_read_it() {
        let good = [
            "null",
            " 7 ",
            "-1.5e300",
            "1e-999",
            "\"\\ud83d\\ude00\"",
            "{\"a\": [true, {}], \"a\": 1}",
            "18446744073709551616",
            &nested(127),
        ];
        for text in good {
            assert_eq!(check_json(text.as_bytes()), Ok(()), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
        }
        let deep = nested(128);
        for (text, why) in [
            ("\"\\ud800\"", "hex escape"),
            ("{\"\\udc00\": 1}", "hex escape"),
            ("[1e999]", "out of range"),
            (&deep, "more than 127 levels at line 1"),
            (&nested(1 << 20), "more than 127 levels"),
            ("{} {}", "trailing"),
            ("", "EOF"),
        ] {
            let said = check_json(text.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{text:.9}: {said}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_err());
        }
        assert!(check_json(b"\"\xff\"").is_err());
    }

    #[test]
    fn a_message_is_checked_by_what_its_header_says() {
        let headers = |name: &str, kind: &str| Headers::from([(name.to_owned(), kind.to_owned())]);
        for (name, kind) in [
            ("content-type", "application/json"),
            ("Content-Type", "Application/CloudEvents+JSON; v=1"),
        ] {
            let said = check_content(&headers(name, kind), b"1e999").unwrap_err();
            assert!(said.to_string().contains(kind), "{said}");
            assert_eq!(check_content(&headers(name, kind), b"1e99"), Ok(()));
        }
        assert_eq!(
            check_content(&headers("content-type", "text/plain"), b"{"),
            Ok(())
        );
        assert_eq!(check_content(&Headers::new(), b"{"), Ok(()));
        for blank in ["", " "] {
            assert!(check_content(&headers("group", blank), b"x").is_err());
        }
        assert_eq!(check_content(&headers("group", "a"), b"x"), Ok(()));
    }
}
