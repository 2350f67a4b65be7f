//! JSON from clients.

use serde::de::DeserializeOwned;

/// Reads a JSON object. Refuses a list, which serde would otherwise read as the fields in order.
pub fn read_object<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(serde::de::Error::custom("send a JSON object, not a list"));
    }
    serde_json::from_slice(text)
}
