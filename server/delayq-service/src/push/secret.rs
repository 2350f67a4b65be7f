//! Secrets of targets: hidden, in headers, and for signatures.

use std::collections::BTreeMap;
use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// What is shown instead. Sent as a new value it means the present one.
const STARS: &str = "***";

/// A secret, or the value of a header, which may be one. Only its stored form has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// What stands for it.
    pub fn stars() -> Self {
        Self(STARS.to_owned())
    }

    /// Whether the present value is meant.
    pub fn is_stars(&self) -> bool {
        self.0 == STARS
    }

    /// The text, to be used and not to be shown.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

/// Most headers of a target.
const MAX_HEADERS: usize = 64;
/// Most bytes of all names and values.
const MAX_BYTES: usize = 8 * 1_024;

/// Headers that are not the author's: of the connection, of its length and host, and what a
/// receiver takes as delayq's word.
const OWN: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
    "via",
];
/// Beginnings of such headers.
const OWN_PREFIXES: [&str; 5] = ["proxy-", "delayq-", "ce-", "grpc-", "sec-"];

/// Names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HeaderSet(BTreeMap<String, Hidden>);

impl HeaderSet {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses what cannot be a header, or is none of the author.
    pub fn check(&self) -> Result<(), String> {
        if self.0.len() > MAX_HEADERS {
            return Err(format!("headers: at most {MAX_HEADERS}"));
        }
        let bytes = self
            .0
            .iter()
            .map(|(name, value)| name.len() + value.text().len());
        if bytes.sum::<usize>() > MAX_BYTES {
            return Err(format!("headers: at most {MAX_BYTES} bytes in all"));
        }
        for (name, value) in &self.0 {
            if value.is_stars() {
                return Err(format!(
                    "header {name}: give its value: none is kept for this place"
                ));
            }
            let lower = name.to_ascii_lowercase();
            if OWN.contains(&lower.as_str())
                || OWN_PREFIXES.iter().any(|own| lower.starts_with(own))
            {
                return Err(format!("header {name}: the server sets it itself"));
            }
            if HeaderName::from_bytes(name.as_bytes()).is_err() {
                return Err(format!("header {name:?}: this cannot be a name"));
            }
            if HeaderValue::from_str(value.text()).is_err() {
                return Err(format!("header {name}: its value is no visible ASCII"));
            }
        }
        Ok(())
    }

    /// Puts them into the headers of a request.
    pub fn put_into(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_str(value.text())) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
    }

    /// Shows no value any more.
    pub fn hide(&mut self) {
        self.0
            .values_mut()
            .for_each(|value| *value = Hidden::stars());
    }

    /// Takes the present values where they are meant.
    pub fn keep_from(&mut self, before: Option<&Self>) {
        for (name, value) in &mut self.0 {
            let present = before.and_then(|before| before.0.get(name));
            if let Some(present) = present.filter(|_| value.is_stars()) {
                *value = present.clone();
            }
        }
    }
}

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
