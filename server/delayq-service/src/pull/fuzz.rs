//! Entrances of the fuzz targets: locks as they are given back.

use super::LockText;

/// The text of a lock.
#[must_use]
pub fn lock(text: &str) -> Option<String> {
    let lock: LockText = text.parse().ok()?;
    Some(lock.to_string())
}
