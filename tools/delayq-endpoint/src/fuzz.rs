//! Entrances of the fuzz targets in `proof/fuzz`, for them alone: calls, as whoever reaches an
//! application sends them.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use delayq_core::Timestamp;

use crate::call::Invocation;
use crate::spring::SpringJob;
use crate::verifier::Verifier;

/// Headers, by name and value.
pub type Headers<'a> = &'a [(&'a [u8], &'a [u8])];

fn map(headers: Headers<'_>) -> Option<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name).ok()?;
        map.insert(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(map)
}

/// A call: its type and id, and whether these are what its headers say that was signed.
#[must_use]
pub fn call(headers: Headers<'_>, body: &[u8]) -> Option<(String, String, bool)> {
    let headers = map(headers)?;
    let call = Invocation::read(&headers, body.to_vec()).ok()?;
    assert_eq!(call.message, body);
    let is_signed = call.is_what_was_signed(&headers);
    Some((call.task_type.to_string(), call.id.to_string(), is_signed))
}

/// A call in the form of the Spring delay queue: its type, its id and its message.
#[must_use]
pub fn spring_call(headers: Headers<'_>, body: &[u8]) -> Option<(String, String, Vec<u8>)> {
    let headers = map(headers)?;
    let job: SpringJob = serde_json::from_slice(body).ok()?;
    let app = job.app_name.clone();
    let call = job.into_call().ok()?.with(&headers);
    let _ = call.is_what_was_signed_for(app.as_deref(), &headers);
    Some((
        call.task_type.to_string(),
        call.id.to_string(),
        call.message,
    ))
}

/// Whether a call counts as signed with a secret at `now_ms`; `None` if the secret is invalid.
#[must_use]
pub fn is_signed(secret: &str, headers: Headers<'_>, body: &[u8], now_ms: i64) -> Option<bool> {
    let verifier = Verifier::new([secret]).ok()?;
    let now = Timestamp::from_millis(now_ms);
    let headers = map(headers)?;
    Some(verifier.check(&headers, body, now).is_ok())
}
