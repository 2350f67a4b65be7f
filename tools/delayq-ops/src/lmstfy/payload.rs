//! The data of a job, as stored by lmstfy.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Number of characters of an id without a version: the data of its job is only the message.
const PLAIN_ID: usize = 26;
/// The first character of an id with the version of jobs without attributes.
const PLAIN_VERSION: u8 = b'0';

/// The message of a job, and its attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) message: Vec<u8>,
    pub(super) attributes: BTreeMap<String, String>,
}

impl Payload {
    /// Reads the data of the job `id`. For an id with a version it contains the message and the
    /// attributes: as JSON since release 1.0.15 of lmstfy, as Protocol Buffers before. Data in
    /// another form is taken as the message.
    pub(super) fn read(id: &str, data: Vec<u8>) -> Self {
        if has_version(id) {
            // No Protocol Buffers message read here begins with a brace.
            if let Some(payload) = Self::of_json(&data) {
                return payload;
            }
            if let Some(fields) = fields(&data)
                && fields.iter().all(|(number, _)| matches!(number, 1 | 2))
            {
                return Self::of(fields);
            }
        }
        Self {
            message: data,
            attributes: BTreeMap::new(),
        }
    }

    /// Parses the JSON form; `None` for anything else.
    fn of_json(data: &[u8]) -> Option<Self> {
        if !data.starts_with(b"{") {
            return None;
        }
        let written: PayloadForm = serde_json::from_slice(data).ok()?;
        let message = STANDARD.decode(written.body.unwrap_or_default()).ok()?;
        Some(Self {
            message,
            attributes: written.attributes.unwrap_or_default(),
        })
    }

    /// Reads the Protocol Buffers form: the message (1), and attributes (2) with a name (1) and a
    /// value (2).
    fn of(all: Vec<(u64, Vec<u8>)>) -> Self {
        let mut payload = Self::default();
        for (number, value) in all {
            if number == 1 {
                payload.message = value;
                continue;
            }
            let text = |wanted: u64, pair: &[(u64, Vec<u8>)]| {
                let found = pair.iter().find(|(number, _)| *number == wanted);
                let found = found.map(|(_, value)| String::from_utf8_lossy(value));
                found.unwrap_or_default().into_owned()
            };
            let pair = fields(&value).unwrap_or_default();
            payload.attributes.insert(text(1, &pair), text(2, &pair));
        }
        payload
    }
}

/// The JSON form. Unknown fields are ignored, as lmstfy does.
#[derive(Deserialize)]
struct PayloadForm {
    /// In base64; an empty message may be `null`.
    #[serde(deserialize_with = "Option::deserialize")]
    body: Option<String>,
    attributes: Option<BTreeMap<String, String>>,
}

/// True if the job with this id has more data than its message.
fn has_version(id: &str) -> bool {
    id.len() != PLAIN_ID && !id.as_bytes().starts_with(&[PLAIN_VERSION])
}

/// The fields of a Protocol Buffers message that has only fields of bytes; `None` for anything
/// else.
fn fields(mut data: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
    let mut fields = Vec::new();
    while !data.is_empty() {
        let key = number(&mut data)?;
        if key & 7 != 2 {
            return None;
        }
        let length = usize::try_from(number(&mut data)?).ok()?;
        let (value, rest) = data.split_at_checked(length)?;
        fields.push((key >> 3, value.to_vec()));
        data = rest;
    }
    Some(fields)
}

fn number(data: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = data.split_first()?;
        *data = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: &str, data: &[u8]) -> Payload {
        Payload::read(id, data.to_vec())
    }

    /// A message without attributes.
    fn plain(message: &[u8]) -> Payload {
        Payload {
            message: message.to_vec(),
            attributes: BTreeMap::new(),
        }
    }

    #[test]
    fn data_of_an_id_with_a_version_is_read_in_both_forms() {
        let versioned = "1".repeat(27);
        let wanted = Payload {
            message: b"hi".to_vec(),
            attributes: [("a".to_owned(), "b".to_owned())].into(),
        };
        let old = b"\x0a\x02hi\x12\x06\x0a\x01a\x12\x01b";
        let new = br#"{"body":"aGk=","attributes":{"a":"b"}}"#;
        assert_eq!(read(&versioned, old), wanted);
        assert_eq!(read(&versioned, new), wanted);
        assert_eq!(read("order-42", new), wanted);
        for (data, message) in [
            (&br#"{"body":"/+8="}"#[..], &b"\xff\xef"[..]),
            (br#"{"body":""}"#, b""),
            (br#"{"body":null,"attributes":null}"#, b""),
            (br#"{"body":"aGk=","later":[1]}"#, b"hi"),
            // A message that itself looks like a job in either form is unwrapped only once.
            (br#"{"body":"eyJib2R5IjoiYUdrPSJ9"}"#, br#"{"body":"aGk="}"#),
            (b"\x0a\x0f{\"body\":\"aGk=\"}", br#"{"body":"aGk="}"#),
            (br#"{"body":"CgJoaQ=="}"#, b"\x0a\x02hi"),
            (b"\x0a\x04\x0a\x02hi", b"\x0a\x02hi"),
        ] {
            assert_eq!(read(&versioned, data), plain(message), "{data:?}");
        }
    }

    #[test]
    fn data_that_only_looks_like_one_of_the_forms_is_the_message() {
        let [plain_id, versioned] = ["0".repeat(26), "1".repeat(27)];
        let unversioned = "0".repeat(27);
        for data in [
            &b"\x0a\x02hi"[..],
            br#"{"body":"aGk=","attributes":{"a":"b"}}"#,
        ] {
            assert_eq!(read(&plain_id, data), plain(data));
            assert_eq!(read(&unversioned, data), plain(data));
        }
        for odd in [
            &b"hello"[..],
            b"*\x02hi",
            b"{",
            br#"{"body":5}"#,
            br#"{"body":"hello"}"#,
            br#"{"body":"aGk"}"#,
            br#"{"body":"aGk=","body":"aGk="}"#,
            br#"{"body":"aGk=","attributes":["a"]}"#,
            br#"{"body":"aGk=","attributes":{"a":1}}"#,
            br#"{"body":"aGk="} and more"#,
            br#"{"attributes":{"a":"b"}}"#,
            br#"[{"body":"aGk="}]"#,
            br#" {"body":"aGk="}"#,
        ] {
            assert_eq!(read(&versioned, odd), plain(odd), "{odd:?}");
        }
    }
}
