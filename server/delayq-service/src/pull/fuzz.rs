//! Entry points of the fuzz targets for the text of locks.

use super::LockText;

/// Reads the text of a lock.
#[must_use]
pub fn lock(text: &str) -> Option<String> {
    let lock: LockText = text.parse().ok()?;
    Some(lock.to_string())
}
