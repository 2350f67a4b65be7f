//! The data of a job, as lmstfy keeps it.

use std::collections::BTreeMap;

/// Characters of the id of a job whose data is its message alone.
const PLAIN_ID: usize = 26;

/// The message of a job, and its attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) message: Vec<u8>,
    pub(super) attributes: BTreeMap<String, String>,
}

impl Payload {
    /// Reads the data of the job `id`: the message, or for an id with a version a message of
    /// Protocol Buffers with the message (1) and the attributes (2, of a name and a value). Data
    /// of another form is the message.
    pub(super) fn read(id: &str, data: Vec<u8>) -> Self {
        if id.len() == PLAIN_ID + 1
            && let Some(fields) = fields(&data)
            && fields.iter().all(|(number, _)| matches!(number, 1 | 2))
        {
            return Self::of(fields);
        }
        Self {
            message: data,
            attributes: BTreeMap::new(),
        }
    }

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

/// The fields of a message of Protocol Buffers that has bytes alone; `None` for anything else.
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

    #[test]
    fn data_is_a_message_or_has_attributes_by_the_id() {
        let (plain, versioned) = ("0".repeat(26), "1".repeat(27));
        let data = b"\x0a\x02hi\x12\x06\x0a\x01a\x12\x01b".to_vec();
        assert_eq!(Payload::read(&plain, data.clone()).message, data);
        let payload = Payload::read(&versioned, data);
        assert_eq!(payload.message, b"hi");
        assert_eq!(payload.attributes["a"], "b");
        for odd in [&b"hello"[..], b"*\x02hi"] {
            assert_eq!(Payload::read(&versioned, odd.to_vec()).message, odd);
        }
    }
}
