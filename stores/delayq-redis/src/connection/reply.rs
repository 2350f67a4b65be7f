//! Answers of the server.

use std::collections::HashMap;

use redis::Value;

use delayq_core::{Error, Result, Timestamp};

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RespValue {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    List(Vec<RespValue>),
}

impl RespValue {
    /// `None` for a kind of answer that no script or command used here returns.
    pub(super) fn from_value(value: Value) -> Option<Self> {
        Some(match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Int(number),
            Value::Boolean(flag) => Self::Int(flag.into()),
            Value::BulkString(bytes) => Self::Bytes(bytes),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => {
                Self::Bytes(text.into_bytes())
            }
            Value::Okay => Self::Bytes(b"OK".to_vec()),
            Value::Array(values) | Value::Set(values) => {
                let list: Option<Vec<Self>> = values.into_iter().map(Self::from_value).collect();
                Self::List(list?)
            }
            Value::Map(pairs) => {
                let values = pairs.into_iter().flat_map(|(key, value)| [key, value]);
                let list: Option<Vec<Self>> = values.map(Self::from_value).collect();
                Self::List(list?)
            }
            _ => return None,
        })
    }

    /// The fields of a list; a single value counts as a list of one.
    pub(crate) fn fields(self) -> Fields {
        let fields = match self {
            Self::List(fields) => fields,
            Self::Nil => Vec::new(),
            single => vec![single],
        };
        Fields(fields.into_iter())
    }

    /// The pairs of a map in which both are text; others are left out.
    pub(crate) fn texts(self) -> HashMap<String, String> {
        let text = |field| match field {
            Some(Self::Bytes(bytes)) => String::from_utf8(bytes).ok(),
            _ => None,
        };
        let mut fields = self.fields().0;
        let mut texts = HashMap::new();
        while let Some(name) = fields.next() {
            if let (Some(name), Some(value)) = (text(Some(name)), text(fields.next())) {
                texts.insert(name, value);
            }
        }
        texts
    }
}

/// The fields of an INFO answer.
pub(crate) fn info(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name, value.trim()))
}

/// The fields of an answer, read one after the other.
#[derive(Debug)]
pub(crate) struct Fields(std::vec::IntoIter<RespValue>);

impl Fields {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        match self.0.next() {
            Some(RespValue::Int(number)) => Ok(number),
            Some(RespValue::Bytes(text)) => std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| unexpected("a number")),
            _ => Err(unexpected("a number")),
        }
    }

    pub(crate) fn count(&mut self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| unexpected("a count"))
    }

    /// A count, or `None` for a negative number.
    pub(crate) fn optional_count(&mut self) -> Result<Option<u64>> {
        Ok(u64::try_from(self.int()?).ok())
    }

    /// The element of `all` with the next field as its index.
    pub(crate) fn item_of<'a, T>(&mut self, all: &'a mut [T]) -> Result<&'a mut T> {
        let index = usize::try_from(self.int()?).ok();
        let found = index.and_then(|index| all.get_mut(index));
        found.ok_or_else(|| unexpected("an index"))
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        Ok(self.int()? != 0)
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        self.int().map(Timestamp::from_millis)
    }

    /// A time, or `None` for a negative number.
    pub(crate) fn optional_time(&mut self) -> Result<Option<Timestamp>> {
        let ms = self.int()?;
        Ok((ms >= 0).then(|| Timestamp::from_millis(ms)))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.0.next() {
            Some(RespValue::Bytes(bytes)) => Ok(bytes),
            _ => Err(unexpected("bytes")),
        }
    }

    /// Bytes, if present.
    pub(crate) fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        if let [RespValue::Nil, ..] = self.0.as_slice() {
            self.0.next();
            return Ok(None);
        }
        self.bytes().map(Some)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?).map_err(|_| unexpected("text"))
    }

    /// A text, if present.
    pub(crate) fn optional_text(&mut self) -> Result<Option<String>> {
        let text = |bytes| String::from_utf8(bytes).map_err(|_| unexpected("text"));
        self.optional_bytes()?.map(text).transpose()
    }

    pub(crate) fn list(&mut self) -> Result<Self> {
        match self.0.next() {
            Some(RespValue::List(fields)) => Ok(Self(fields.into_iter())),
            _ => Err(unexpected("a list")),
        }
    }
}

fn unexpected(wanted: &str) -> Error {
    Error::corrupt(
        "unexpected reply of a script",
        format!("expected {wanted}: is this a Redis server?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> RespValue {
        RespValue::Bytes(text.as_bytes().to_vec())
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn each_kind_of_answer_is_read() {
        let verbatim = Value::VerbatimString {
            format: redis::VerbatimFormat::Text,
            text: "a".to_owned(),
        };
        let pair = || vec![bytes("a"), RespValue::Int(1)];
        for (value, reply) in [
            (Value::Nil, RespValue::Nil),
            (Value::Int(-7), RespValue::Int(-7)),
            (Value::Boolean(true), RespValue::Int(1)),
            (bulk("a"), bytes("a")),
            (Value::SimpleString("a".to_owned()), bytes("a")),
            (verbatim, bytes("a")),
            (Value::Okay, bytes("OK")),
            (
                Value::Array(vec![bulk("a"), Value::Int(1)]),
                RespValue::List(pair()),
            ),
            (
                Value::Set(vec![bulk("a"), Value::Int(1)]),
                RespValue::List(pair()),
            ),
            (
                Value::Map(vec![(bulk("a"), Value::Int(1))]),
                RespValue::List(pair()),
            ),
        ] {
            assert_eq!(
                RespValue::from_value(value.clone()),
                Some(reply),
                "{value:?}"
            );
        }
        for unknown in [
            Value::Double(1.0),
            Value::Array(vec![bulk("a"), Value::Double(1.0)]),
            Value::Map(vec![(bulk("a"), Value::Double(1.0))]),
        ] {
            assert_eq!(RespValue::from_value(unknown.clone()), None, "{unknown:?}");
        }
    }

    #[test]
    fn fields_are_read_one_after_the_other_each_as_what_it_should_be() {
        let inner = RespValue::List(vec![bytes("b")]);
        let all = [
            RespValue::Int(2),
            bytes("3"),
            RespValue::Int(-1),
            RespValue::Int(-1),
            RespValue::Int(0),
            RespValue::Int(4),
            RespValue::Nil,
            bytes("a"),
            inner,
        ];
        let mut fields = RespValue::List(all.to_vec()).fields();
        assert_eq!((fields.int(), fields.count()), (Ok(2), Ok(3)));
        assert_eq!(fields.optional_count(), Ok(None));
        assert_eq!(fields.optional_time(), Ok(None));
        assert_eq!((fields.flag(), fields.flag()), (Ok(false), Ok(true)));
        assert_eq!(fields.optional_text(), Ok(None));
        assert_eq!(fields.optional_text(), Ok(Some("a".to_owned())));
        assert_eq!(fields.list().unwrap().text(), Ok("b".to_owned()));
        assert!(fields.is_empty());
    }

    #[test]
    fn a_field_of_another_kind_or_none_is_named() {
        let wrong = |reply: RespValue| reply.fields();
        for result in [
            wrong(bytes("x")).int().map(drop),
            wrong(RespValue::Nil).int().map(drop),
            wrong(RespValue::Int(-1)).count().map(drop),
            wrong(RespValue::Int(1)).bytes().map(drop),
            wrong(RespValue::Bytes(vec![0xff])).text().map(drop),
            wrong(RespValue::Int(1)).optional_text().map(drop),
            wrong(RespValue::Int(1)).list().map(drop),
            wrong(RespValue::Int(2)).item_of(&mut [(), ()]).map(drop),
            wrong(RespValue::Int(-1)).item_of(&mut [(), ()]).map(drop),
        ] {
            assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
        }
        let mut all = [1, 2];
        assert_eq!(RespValue::Int(1).fields().item_of(&mut all), Ok(&mut 2));
    }

    #[test]
    fn pairs_that_are_not_text_are_left_out() {
        let list = [
            bytes("a"),
            bytes("1"),
            bytes("b"),
            RespValue::Int(2),
            bytes("c"),
            bytes("3"),
            bytes("d"),
        ];
        let texts = RespValue::List(list.to_vec()).texts();
        let expected = [("a", "1"), ("c", "3")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(texts, HashMap::from(expected));
    }
}
