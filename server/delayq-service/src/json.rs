//! JSON from clients.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A span or time: a whole number of milliseconds, also as `1000.0`, or a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MillisOrText {
    Millis(i64),
    Text(String),
}

struct MillisOrTextVisitor;

impl Visitor<'_> for MillisOrTextVisitor {
    type Value = MillisOrText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of milliseconds, or a text such as \"30s\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<MillisOrText, E> {
        Ok(MillisOrText::Millis(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<MillisOrText, E> {
        let millis = i64::try_from(number);
        let millis = millis.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self));
        millis.map(MillisOrText::Millis)
    }

    /// Some languages have doubles as their only numbers.
    fn visit_f64<E: Error>(self, number: f64) -> Result<MillisOrText, E> {
        // A whole number is written without an exponent.
        let whole = (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok());
        let whole = whole.flatten().map(MillisOrText::Millis);
        whole.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MillisOrText, E> {
        Ok(MillisOrText::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for MillisOrText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(MillisOrTextVisitor)
    }
}

/// An object whose names are all different. A map of serde keeps the last value of a name, and
/// drops the others without a word.
struct Distinct<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Distinct<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut read = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, T>()? {
            if read.contains_key(&name) {
                return Err(A::Error::custom(format!("{name:?} is there twice")));
            }
            read.insert(name, value);
        }
        Ok(read)
    }
}

/// Reads an object whose names are all different.
///
/// # Errors
/// A name is there twice, and the errors of the format.
pub fn distinct<'de, D, T>(from: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_map(Distinct(PhantomData))
}

/// Reads a field that may be any JSON value as it is written. An absent field is `None`; a `null`
/// is a value as any other.
///
/// # Errors
/// Those of the format.
pub fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(from).map(Some)
}

/// Reads a JSON object. Refuses a list, which serde would otherwise read as the fields in order.
pub fn read_object<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(serde::de::Error::custom("send a JSON object, not a list"));
    }
    serde_json::from_slice(text)
}
