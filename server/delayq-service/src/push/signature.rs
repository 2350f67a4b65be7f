//! Signatures of Standard Webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::hidden::Hidden;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes that a key may have, by the specification.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Bytes of a key that is made here.
const NEW_KEY_BYTES: usize = 32;

/// The keys of a target.
#[derive(Clone)]
pub(super) struct Signer {
    keys: Vec<Hmac<Sha256>>,
}

impl Signer {
    /// Reads secrets.
    pub(super) fn new(secrets: &[Hidden]) -> Result<Self, String> {
        let keys = secrets.iter().map(|secret| {
            let text = secret.text();
            let key = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text));
            let key = key.ok().filter(|key| KEY_BYTES.contains(&key.len()));
            let key = key.and_then(|key| Hmac::new_from_slice(&key).ok());
            key.ok_or_else(|| "secrets: each is whsec_ and 24 to 64 bytes in base64".to_owned())
        });
        Ok(Self {
            keys: keys.collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The header `webhook-signature`: one signature by each key.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let signatures = self.keys.iter().map(|key| {
            let mut mac = key.clone();
            mac.update(format!("{id}.{timestamp}.").as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

/// A new secret.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn new_secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; NEW_KEY_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", STANDARD.encode(bytes)))
}
