//! Secrets of targets: hidden values, secret headers and signing keys.

use std::collections::BTreeMap;
use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Shown in place of a secret. Sent as a new value, it keeps the current one.
const STARS: &str = "***";

/// A secret, or a header value that may be one. Only its stored form contains the text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The placeholder.
    pub fn stars() -> Self {
        Self(STARS.to_owned())
    }

    /// Returns true if the current value is to be kept.
    pub fn is_stars(&self) -> bool {
        self.0 == STARS
    }

    /// The secret text. It must not be shown.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

/// A URL as it is shown. Its query may contain a secret.
pub(super) fn shown_url(url: &str) -> String {
    match url.split_once('?') {
        Some((place, _)) => format!("{place}?{STARS}"),
        None => url.to_owned(),
    }
}

/// Returns true if the query of a URL is to be kept.
pub(super) fn has_hidden_query(url: &str) -> bool {
    url.split_once('?').is_some_and(|(_, query)| query == STARS)
}

/// The largest number of headers of a target.
const MAX_HEADERS: usize = 64;
/// The total size of all names and values, in bytes.
const MAX_BYTES: usize = 8 * 1_024;

/// Headers that a target's author may not set: those of the connection, length and host, and those
/// that a receiver trusts as delayq's own.
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
/// Prefixes of such headers.
const OWN_PREFIXES: [&str; 5] = ["proxy-", "delayq-", "ce-", "grpc-", "sec-"];

/// Header names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HeaderSet(BTreeMap<String, Hidden>);

impl HeaderSet {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses invalid headers and those that an author may not set.
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

    /// Adds the headers to a request.
    pub fn put_into(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_str(value.text())) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
    }

    /// Replaces all values by the placeholder.
    pub fn hide(&mut self) {
        self.0
            .values_mut()
            .for_each(|value| *value = Hidden::stars());
    }

    /// Restores the current value of every placeholder.
    pub fn keep_from(&mut self, before: Option<&Self>) {
        for (name, value) in &mut self.0 {
            let present = before.and_then(|before| before.0.get(name));
            if let Some(present) = present.filter(|_| value.is_stars()) {
                *value = present.clone();
            }
        }
    }
}

/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// The allowed key lengths, in bytes, by the Standard Webhooks specification.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The length of a newly made key, in bytes.
const NEW_KEY_BYTES: usize = 32;

/// The signing keys of a target.
#[derive(Clone)]
pub(super) struct Signer {
    keys: Vec<Hmac<Sha256>>,
}

impl Signer {
    /// Parses secrets.
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

    /// The value of the `webhook-signature` header, with one signature for each key.
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

/// Makes a new secret.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn new_secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; NEW_KEY_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", STANDARD.encode(bytes)))
}
