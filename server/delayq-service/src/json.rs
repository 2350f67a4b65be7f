//! JSON from clients.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

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

/// Reads a JSON object. Refuses a list, which serde would otherwise read as the fields in order.
pub fn read_object<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(serde::de::Error::custom("send a JSON object, not a list"));
    }
    serde_json::from_slice(text)
}
