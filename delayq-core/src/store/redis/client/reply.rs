//! What the server answers.

use std::collections::HashMap;

use redis::Value;

use crate::error::{Error, Result};
use crate::name::TaskId;
use crate::time::Timestamp;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Reply {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
}

impl Reply {
    /// `None`: an answer of a kind that no script or command used here gives.
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

    /// The fields of a list; a single value is a list of one.
    pub(in super::super) fn fields(self) -> Fields {
        let fields = match self {
            Self::List(fields) => fields,
            Self::Nil => Vec::new(),
            single => vec![single],
        };
        Fields(fields.into_iter())
    }

    /// The pairs of a map in which both are text; the others are left out.
    pub(in super::super) fn texts(self) -> HashMap<String, String> {
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

/// The fields of an answer, read one after the other.
#[derive(Debug)]
pub(in super::super) struct Fields(std::vec::IntoIter<Reply>);

impl Fields {
    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub(in super::super) fn int(&mut self) -> Result<i64> {
        match self.0.next() {
            Some(Reply::Int(number)) => Ok(number),
            Some(Reply::Bytes(text)) => std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| unexpected("a number")),
            _ => Err(unexpected("a number")),
        }
    }

    pub(in super::super) fn count(&mut self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| unexpected("a count"))
    }

    /// A count, or a negative number for none.
    pub(in super::super) fn optional_count(&mut self) -> Result<Option<u64>> {
        Ok(u64::try_from(self.int()?).ok())
    }

    /// The one of `all` whose place, counted from 0, comes next.
    pub(in super::super) fn place_in<'a, T>(&mut self, all: &'a mut [T]) -> Result<&'a mut T> {
        let place = usize::try_from(self.int()?).ok();
        let found = place.and_then(|place| all.get_mut(place));
        found.ok_or_else(|| unexpected("a place in a list"))
    }

    pub(in super::super) fn flag(&mut self) -> Result<bool> {
        Ok(self.int()? != 0)
    }

    pub(in super::super) fn time(&mut self) -> Result<Timestamp> {
        self.int().map(Timestamp::from_millis)
    }

    /// A time, or a negative number for none.
    pub(in super::super) fn optional_time(&mut self) -> Result<Option<Timestamp>> {
        let ms = self.int()?;
        Ok((ms >= 0).then(|| Timestamp::from_millis(ms)))
    }

    pub(in super::super) fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.0.next() {
            Some(Reply::Bytes(bytes)) => Ok(bytes),
            _ => Err(unexpected("bytes")),
        }
    }

    pub(in super::super) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?).map_err(|_| unexpected("text"))
    }

    /// A text, if there is one.
    pub(in super::super) fn optional_text(&mut self) -> Result<Option<String>> {
        match self.0.as_slice() {
            [Reply::Nil, ..] => {
                self.0.next();
                Ok(None)
            }
            _ => self.text().map(Some),
        }
    }

    pub(in super::super) fn id(&mut self) -> Result<TaskId> {
        let id = self.text()?;
        TaskId::new(&id).map_err(|_| Error::Corrupt {
            key: id,
            detail: "it is stored as a task's id, and is none".to_owned(),
        })
    }

    /// The ids that are left.
    pub(in super::super) fn ids(mut self) -> Result<Vec<TaskId>> {
        let mut ids = Vec::with_capacity(self.0.len());
        while !self.is_empty() {
            ids.push(self.id()?);
        }
        Ok(ids)
    }

    pub(in super::super) fn list(&mut self) -> Result<Self> {
        match self.0.next() {
            Some(Reply::List(fields)) => Ok(Self(fields.into_iter())),
            _ => Err(unexpected("a list")),
        }
    }
}

fn unexpected(wanted: &str) -> Error {
    Error::Corrupt {
        key: "the answer of a script".to_owned(),
        detail: format!("it has not {wanted} where it should: is the server a Redis?"),
    }
}
