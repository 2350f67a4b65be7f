//! The form of headers: what every door of a server, and every push, can carry.

use std::collections::btree_map::Entry;

use crate::error::{Error, Result};
use crate::task::Headers;

/// The name of a header as it is kept: in lower case, as names are not told apart by their case.
#[must_use]
pub fn header_name(name: impl Into<String>) -> String {
    let mut name = name.into();
    name.make_ascii_lowercase();
    name
}

/// These headers with their names as they are kept.
///
/// # Errors
/// [`Error::InvalidInput`] if two names are the same but for their case.
pub fn with_kept_names(headers: Headers) -> Result<Headers> {
    let is_kept = |name: &String| !name.bytes().any(|byte| byte.is_ascii_uppercase());
    if headers.keys().all(is_kept) {
        return Ok(headers);
    }
    let mut kept = Headers::new();
    for (name, value) in headers {
        match kept.entry(header_name(name)) {
            Entry::Vacant(free) => {
                free.insert(value);
            }
            Entry::Occupied(taken) => {
                let reason = format!("{} is there twice, in upper and lower case", taken.key());
                return Err(Error::invalid("header", reason));
            }
        }
    }
    Ok(kept)
}

/// Refuses headers that a request of HTTP could not carry.
///
/// # Errors
/// [`Error::InvalidName`] for a name that is no token of HTTP, [`Error::InvalidInput`] for a value
/// with control characters or with blanks at its ends.
pub(super) fn check_form(headers: &Headers) -> Result<()> {
    headers.iter().try_for_each(|(name, value)| {
        check_name(name)?;
        check_value(name, value)
    })
}

fn check_name(name: &str) -> Result<()> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_token) {
        return Ok(());
    }
    Err(Error::InvalidName {
        what: "header",
        value: name.chars().take(40).collect(),
        reason: "a header name is 1 or more letters, digits and !#$%&'*+-.^_`|~, as in HTTP",
    })
}

fn check_value(name: &str, value: &str) -> Result<()> {
    if let Some(control) = value.chars().find(|c| c.is_ascii_control() && *c != '\t') {
        let reason = format!(
            "the value of {name} has the control character {control:?}, which no request carries: \
             put it into the message, or encode it"
        );
        return Err(Error::invalid("header", reason));
    }
    if value.trim_matches([' ', '\t']).len() < value.len() {
        let reason = format!(
            "the value of {name} begins or ends with a blank, which requests lose: leave it out"
        );
        return Err(Error::invalid("header", reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(names: &[&str]) -> Headers {
        let headers = names
            .iter()
            .map(|name| ((*name).to_owned(), "x".to_owned()));
        headers.collect()
    }

    #[test]
    fn names_are_kept_in_lower_case_and_only_once() {
        let kept = with_kept_names(headers(&["X-Shop", "a", "\u{c4}"])).unwrap();
        assert_eq!(kept, headers(&["x-shop", "a", "\u{c4}"]));
        assert!(with_kept_names(headers(&["Shop", "shop"])).is_err());
    }

    #[test]
    fn a_header_that_a_request_carries_is_taken_and_no_other() {
        let check = |name: &str, value: &str| {
            check_form(&Headers::from([(name.to_owned(), value.to_owned())]))
        };
        for (name, value) in [
            ("!#$%&'*+-.^_`|~9a", ""),
            ("A", "日本語 🎉\tä"),
            ("json", "{\"a\": [1, null]}"),
        ] {
            assert_eq!(check(name, value), Ok(()), "{name}");
        }
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:b", "x"),
            ("\u{e4}", "x"),
            ("a", "\n"),
            ("a", "x\u{7f}"),
            ("a", " x"),
            ("a", "x\t"),
        ] {
            assert!(check(name, value).is_err(), "{name:?}: {value:?}");
        }
    }
}
