//! Entry points of the fuzz targets for registry answers and DNS names.

use axum::http::Uri;
use serde_json::Value;
use url::Url;

use super::config::{ServiceConfig, check_name};
use super::eureka::{home, instances};
use super::registry::Registry;

/// Reads a registry's list of applications. Returns the URL and the types of each instance.
///
/// # Panics
/// If the URL of an instance has another host than its record.
#[must_use]
pub fn registry(answer: &[u8]) -> Option<Vec<String>> {
    let document: Value = serde_json::from_slice(answer).ok()?;
    let copy = Registry::of(&document);
    let mut found = Vec::new();
    for record in copy.all() {
        let host = record.get("hostName").and_then(Value::as_str);
        for instance in instances(record, "delayq.types") {
            assert!(home(record).is_some_and(|home| instance.url.starts_with(&home)));
            assert!(!instance.types.is_empty());
            // A URL that is not a valid URI is never called.
            if let Ok(uri) = instance.url.parse::<Uri>() {
                assert_eq!(uri.host(), host, "{}", instance.url);
            }
            let types = instance.types.iter().map(ToString::to_string);
            found.push(format!(
                "{} {}",
                instance.url,
                types.collect::<Vec<_>>().join(",")
            ));
        }
    }
    Some(found)
}

/// Applies a delta to an earlier answer of a registry. Returns true if the copy then matches the
/// hash in the delta.
///
/// # Panics
/// If applying the delta a second time gives another result.
#[must_use]
pub fn registry_change(before: &[u8], change: &[u8]) -> Option<bool> {
    let before: Value = serde_json::from_slice(before).ok()?;
    let change: Value = serde_json::from_slice(change).ok()?;
    let mut copy = Registry::of(&before);
    let first = copy.apply(&change);
    // Applying the same delta twice must change nothing.
    assert_eq!(copy.apply(&change), first);
    Some(first)
}

/// Reads a DNS name of the configuration.
///
/// # Panics
/// If a checked name is not a URL with a host.
#[must_use]
pub fn dns_name(text: &str) -> Option<String> {
    check_name(text).ok()?;
    let url = Url::parse(text).expect("a name that was checked is a URL");
    assert!(url.host_str().is_some_and(|host| !host.is_empty()));
    Some(url.into())
}

/// Reads the options of service mode.
#[must_use]
pub fn service(text: &str) -> Option<String> {
    let config: ServiceConfig = serde_json::from_str(text).ok()?;
    config.check().ok()?;
    serde_json::to_string(&config).ok()
}
