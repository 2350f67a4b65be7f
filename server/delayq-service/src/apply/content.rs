//! A value of a thing: what is shown of it, and a digest of all of it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    /// It without secrets.
    pub(super) shown: Value,
    /// The [digest] of all of it, secrets included.
    pub(super) print: String,
}

impl Content {
    /// A value without secrets, all of which is shown.
    pub(super) fn plain(shown: Value) -> Self {
        let print = digest(shown.to_string());
        Self { shown, print }
    }

    /// A value of which `whole` is the stored form.
    pub(super) fn of(shown: Value, whole: &Value) -> Self {
        let print = digest(whole.to_string());
        Self { shown, print }
    }
}

/// The digest of a text, which tells nothing about it.
pub(super) fn digest(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}
