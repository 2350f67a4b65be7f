//! Signatures of calls, by Standard Webhooks.

use std::fmt;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_core::{Error, Result, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes that a key may have, by the specification.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The largest difference between the clocks of server and endpoint, and the largest age of a
/// call.
const TOLERANCE_MS: i64 = 5 * 60 * 1_000;

/// The keys of the servers that may call.
#[derive(Clone)]
pub(crate) struct Verifier(Vec<Hmac<Sha256>>);

impl Verifier {
    pub(crate) fn new<T: AsRef<str>>(secrets: impl IntoIterator<Item = T>) -> Result<Self> {
        let keys = secrets.into_iter().map(|secret| {
            let text = secret.as_ref();
            let key = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text));
            let key = key.ok().filter(|key| KEY_BYTES.contains(&key.len()));
            let key = key.and_then(|key| Hmac::new_from_slice(&key).ok());
            key.ok_or_else(|| refused("each is whsec_ and 24 to 64 bytes in base64"))
        });
        let keys: Vec<_> = keys.collect::<Result<_>>()?;
        if keys.is_empty() {
            return Err(refused("give at least one, or leave the call out"));
        }
        Ok(Self(keys))
    }

    /// Refuses a call that no server has signed, or that is old.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), &'static str> {
        let header = |name: &str| headers.get(name).and_then(|one| one.to_str().ok());
        let (Some(id), Some(timestamp)) = (header("webhook-id"), header("webhook-timestamp"))
        else {
            return Err("the call is not signed: give the server service.secrets");
        };
        let at: i64 = timestamp.parse().unwrap_or(i64::MIN / 1_000);
        if at.saturating_mul(1_000).abs_diff(now.as_millis()) > TOLERANCE_MS.unsigned_abs() {
            return Err("the call was signed more than 5 minutes ago, by the clock here");
        }
        let given = header("webhook-signature").unwrap_or_default().split(' ');
        let mut given = given.filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
        let is_signed = |signature: Vec<u8>| {
            self.0.iter().any(|key| {
                let mut mac = key.clone();
                mac.update(format!("{id}.{timestamp}.").as_bytes());
                mac.update(body);
                mac.verify_slice(&signature).is_ok()
            })
        };
        if given.any(is_signed) {
            return Ok(());
        }
        Err("the call is not signed with a secret that is known here")
    }
}

fn refused(reason: &str) -> Error {
    Error::invalid("secrets", reason)
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({} secrets)", self.0.len())
    }
}
