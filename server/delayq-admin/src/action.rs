//! Actions: changes made by forms, through an operator that logs them.

use axum::response::Response;
use delayq_plugin::{IntoDelay, IntoTime, Result, Timestamp, When};

use crate::fields::Link;
use crate::flash::Flash;
use crate::visit::Visit;

pub(crate) mod dead;
pub(crate) mod many;
pub(crate) mod recurring;
pub(crate) mod selected;
mod tally;
pub(crate) mod task;
pub(crate) mod task_type;

/// The answer to an action: the page that it came from, with the result.
fn answer(visit: &Visit, link: &Link, done: Result<Flash>) -> Response {
    let flash = done.unwrap_or_else(|error| Flash::failed(format!("not done: {error}")));
    visit.go(link, &flash)
}

/// The page that a form came from, or `other` if the form does not say.
fn back(visit: &Visit, other: &str) -> Link {
    Link::back(visit.fields.get("back")).unwrap_or_else(|| Link::to(other))
}

/// Parses a time such as `2026-12-24T17:00Z`, or a span from now such as `30m`.
fn read_when(text: &str) -> Result<When, String> {
    if let Ok(delay) = text.into_delay() {
        return Ok(When::After(delay));
    }
    let time = text.into_time();
    time.map(When::At).map_err(|_| {
        format!("{text:?} is neither a span such as 30m nor a time such as 2026-12-24T17:00Z")
    })
}

/// As [`read_when`], converted to a time relative to `now`.
fn read_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    read_when(text).map(|when| match when {
        When::At(time) => time,
        When::After(delay) => now.plus(delay),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_a_span_or_a_time() {
        assert_eq!(read_when("30m"), Ok(When::After(Duration::from_mins(30))));
        assert!(matches!(read_when("2026-12-24T17:00Z"), Ok(When::At(_))));
        assert!(read_when("tomorrow").is_err());
    }
}
