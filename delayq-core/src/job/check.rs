//! Checks of a job before it is sent to a store.

use std::time::Duration;

use super::delay::check_unit;
use super::{
    Expiry, Limits, MAX_HEADER_BYTES, MAX_HEADERS, MAX_MESSAGE_BYTES, NewTask, OnConflict,
    VERSION_HEADER, When, check_delay,
};
use crate::error::{Error, Result};
use crate::task::Headers;
use crate::time::Timestamp;

/// Refuses an option that depends on the id, if the id is generated and so differs in every job.
pub(super) fn refuse_generated_id(option: &'static str, is_generated: bool) -> Result<()> {
    let reason = "it goes by the id, and this one is generated: write .id(..)";
    (!is_generated)
        .then_some(())
        .ok_or_else(|| Error::invalid(option, reason))
}

/// Checks the times of a task: each within the limit of a delay, and in milliseconds. `now` is the
/// caller's clock.
///
/// # Errors
/// [`Error::InvalidInput`], naming the field.
pub fn check_times(task: &NewTask, limits: &Limits, now: Timestamp) -> Result<()> {
    if let OnConflict::Debounce { max_wait } = task.on_conflict {
        check_max_wait(max_wait, task.when, limits)?;
    }
    check_delay("delay", task.when, limits, now)?;
    match task.expiry {
        Some(Expiry::AfterDue(span)) => {
            check_delay("expires_after", When::After(span), limits, now)
        }
        Some(Expiry::At(time)) => check_unit("expires_at", time, now),
        None => Ok(()),
    }
}

fn check_max_wait(max_wait: Duration, when: When, limits: &Limits) -> Result<()> {
    let max = When::After(max_wait);
    check_delay("max_wait of debounce", max, limits, Timestamp::ZERO)?;
    match when {
        When::After(delay) if delay <= max_wait => Ok(()),
        When::After(delay) => {
            let reason = format!("max_wait is {max_wait:?}, shorter than the delay of {delay:?}");
            Err(Error::invalid("debounce", reason))
        }
        When::At(_) => {
            let reason = "it counts a delay from each send: leave out .at(..)";
            Err(Error::invalid("debounce", reason))
        }
    }
}

/// Checks the size of a message that replaces another one.
///
/// # Errors
/// [`Error::LimitExceeded`].
pub fn check_message(message: &[u8], limits: &Limits) -> Result<()> {
    check_size(
        "message size in bytes",
        message.len(),
        limits.max_message_bytes,
    )
}

fn check_size(what: &'static str, actual: usize, limit: usize) -> Result<()> {
    let limit = limit.min(MAX_MESSAGE_BYTES);
    if actual <= limit {
        return Ok(());
    }
    Err(Error::LimitExceeded {
        what,
        actual: actual as u64,
        limit: limit as u64,
    })
}

/// The version of a message with these headers; 1 without the header.
///
/// # Errors
/// [`Error::InvalidInput`] if the header is not a number of at least 1.
pub fn version_of(headers: &Headers) -> Result<u32> {
    let Some(text) = headers.get(VERSION_HEADER) else {
        return Ok(1);
    };
    let version = text.parse().ok().filter(|version| *version > 0);
    version.ok_or_else(|| {
        let text: String = text.chars().take(40).collect();
        let reason = format!("{text:?} in the header {VERSION_HEADER} is no number of 1 or more");
        Error::invalid("version", reason)
    })
}

/// Checks the headers of a task: their number, size, names and version.
///
/// # Errors
/// [`Error::LimitExceeded`], [`Error::InvalidName`] or [`Error::InvalidInput`].
pub fn check_headers(headers: &Headers) -> Result<()> {
    check_size("number of headers", headers.len(), MAX_HEADERS)?;
    let bytes = headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    check_size("size of all headers in bytes", bytes, MAX_HEADER_BYTES)?;
    version_of(headers)?;
    let reason = "a header name is 1 or more visible ASCII characters, without blanks";
    for name in headers.keys() {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic()) {
            let value = name.chars().take(40).collect();
            return Err(Error::InvalidName {
                what: "header",
                value,
                reason,
            });
        }
    }
    Ok(())
}
