//! Path of the value that a type refused, without values of the message.

use serde::Deserialize;
use serde_json::Value;
use serde_path_to_error::Segment;

/// The path in `message` of the value that `T` refused, such as `lines[3].price`; `None` if that is
/// the whole message, or if the path is not known. Keys of a map count as values of the message:
/// without `quoting` they are shown as `*`.
///
/// `error` is the error of parsing the message itself. A type that borrows refuses the copy parsed
/// here for another reason; then the path is not known.
pub(super) fn path<'a, T: Deserialize<'a>>(
    message: &[u8],
    error: &serde_json::Error,
    quoting: bool,
) -> Option<String> {
    let whole: Value = serde_json::from_slice(message).ok()?;
    let refused = serde_path_to_error::deserialize::<_, T>(whole.clone()).err()?;
    let said = refused.inner().to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    if error.to_string().strip_suffix(&position) != Some(&said) {
        return None;
    }
    let (mut text, mut pointer) = (String::new(), String::new());
    for segment in refused.path() {
        let step = match segment {
            Segment::Seq { index } => {
                let index = index.to_string();
                text.extend(["[", &index, "]"]);
                index
            }
            Segment::Map { key } => {
                let is_shown = quoting || is_field::<T>(&whole, &pointer, key, &said);
                text += if text.is_empty() { "" } else { "." };
                text += if is_shown { key } else { "*" };
                key.clone()
            }
            Segment::Enum { variant } => {
                text += if text.is_empty() { "" } else { "." };
                text += variant;
                variant.clone()
            }
            Segment::Unknown => break,
        };
        pointer = format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"));
    }
    (!text.is_empty()).then_some(text)
}

/// True if `key` is a field of the type itself. If a field is renamed, the value below it is no
/// longer refused for the same reason; below a key of a map it still is, whatever the key.
fn is_field<'a, T: Deserialize<'a>>(whole: &Value, parent: &str, key: &str, said: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first = key.chars().next().filter(|c| !c.is_ascii_digit());
    let Some(first) = first.filter(|_| key.chars().all(is_name)) else {
        return false;
    };
    let mut renamed = whole.clone();
    let Some(Value::Object(members)) = renamed.pointer_mut(parent) else {
        return false;
    };
    let Some(value) = members.remove(key) else {
        return false;
    };
    members.insert(format!("{key}{first}"), value);
    T::deserialize(renamed).map_or_else(|error| error.to_string() != said, |_| true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Deserialize)]
    struct Order<'a> {
        #[serde(rename = "lines")]
        _lines: Vec<Line>,
        #[serde(rename = "paid", default)]
        _paid: BTreeMap<String, Line>,
        #[serde(rename = "note", borrow, default)]
        _note: Option<std::borrow::Cow<'a, str>>,
    }

    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "price")]
        _price: u64,
        #[serde(rename = "kind", default)]
        _kind: Option<Kind>,
    }

    #[derive(Deserialize)]
    enum Kind {
        #[serde(rename = "Gift")]
        _Gift { _to: u8 },
    }

    fn of(message: &str) -> Option<String> {
        of_type::<Order<'_>>(message, false)
    }

    fn of_type<'a, T: Deserialize<'a>>(message: &'a str, quoting: bool) -> Option<String> {
        let error = serde_json::from_str::<T>(message).err()?;
        path::<T>(message.as_bytes(), &error, quoting)
    }

    #[test]
    fn a_type_that_borrows_blames_no_other_place() {
        #[derive(Deserialize)]
        struct Borrowing<'a> {
            #[serde(rename = "name")]
            _name: &'a str,
            #[serde(rename = "price")]
            _price: u64,
        }
        let refused = r#"{"name": "hunter2", "price": "1"}"#;
        assert_eq!(of_type::<Borrowing<'_>>(refused, true), None);
    }

    #[test]
    fn a_place_has_the_names_of_the_type_and_no_key_of_a_map() {
        let place = of(r#"{"lines": [{"price": 1}, {"price": "hunter2"}]}"#);
        assert_eq!(place.as_deref(), Some("lines[1].price"));
        let missing = of(r#"{"lines": [{}]}"#);
        assert_eq!(missing.as_deref(), Some("lines[0]"));
        let variant = of(r#"{"lines": [{"price": 1, "kind": {"Gift": {"_to": "x"}}}]}"#);
        assert_eq!(variant.as_deref(), Some("lines[0].kind.Gift._to"));
        let map = r#"{"lines": [], "paid": {"hunter2": {"price": -1}}}"#;
        assert_eq!(of(map).as_deref(), Some("paid.*.price"));
        let quoting = of_type::<Order<'_>>(map, true);
        assert_eq!(quoting.as_deref(), Some("paid.hunter2.price"));
        for whole in ["7", "{}", "{", r#"{"lines": []}"#] {
            assert_eq!(of(whole), None, "{whole}");
        }
    }
}
