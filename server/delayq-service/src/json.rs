//! JSON of clients.

use serde::de::DeserializeOwned;

/// Reads a JSON object. A list would be taken as well, its items for the fields in their order.
pub fn read_object<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(serde::de::Error::custom("send a JSON object, not a list"));
    }
    serde_json::from_slice(text)
}
