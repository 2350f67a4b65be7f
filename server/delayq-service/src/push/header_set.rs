//! Headers of a target, by its author.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::hidden::Hidden;

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
