//! Entrances of the fuzz targets: what registries answer, and names of DNS.

use axum::http::Uri;
use serde_json::Value;
use url::Url;

use super::config::{ServiceConfig, check_name};
use super::eureka::{home, instances};
use super::registry::Registry;

/// All applications of a registry: the URLs of those that serve types, and the types.
///
/// # Panics
/// If the whole as a change leads elsewhere, or a URL to another host than that of its record.
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
            // What is called is what this says; nothing that is no URI is called.
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

/// A change of a registry, applied to what it answered before: whether the copy is then the same
/// as that of a client which asks for everything, where the change says what everything is.
///
/// # Panics
/// If the same change twice is not one.
#[must_use]
pub fn registry_change(before: &[u8], change: &[u8]) -> Option<bool> {
    let before: Value = serde_json::from_slice(before).ok()?;
    let change: Value = serde_json::from_slice(change).ok()?;
    let mut copy = Registry::of(&before);
    let first = copy.apply(&change);
    // The same change twice is one.
    assert_eq!(copy.apply(&change), first);
    Some(first)
}

/// A name of DNS in the configuration.
///
/// # Panics
/// If a name that was checked is no URL with a host.
#[must_use]
pub fn dns_name(text: &str) -> Option<String> {
    check_name(text).ok()?;
    let url = Url::parse(text).expect("a name that was checked is a URL");
    assert!(url.host_str().is_some_and(|host| !host.is_empty()));
    Some(url.into())
}

/// The options of service mode.
#[must_use]
pub fn service(text: &str) -> Option<String> {
    let config: ServiceConfig = serde_json::from_str(text).ok()?;
    config.check().ok()?;
    serde_json::to_string(&config).ok()
}
