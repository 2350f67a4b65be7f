//! Actions: changes made by forms, through an operator that logs them.

use std::time::Duration;

use axum::response::Response;
use delayq_plugin::{IntoDelay, IntoTime, Result, Timestamp, When};

use crate::fields::Link;
use crate::flash::Flash;
use crate::visit::Visit;

pub(crate) mod dead;
pub(crate) mod many;
pub(crate) mod task;
pub(crate) mod task_type;

/// The answer to an action: the page that it came from, with the result.
fn answer(visit: &Visit, link: &Link, done: Result<Flash>) -> Response {
    let flash = done.unwrap_or_else(|error| Flash::failed(format!("not done: {error}")));
    visit.go(link, &flash)
}

/// The wait between two tasks for a rate such as `20/s`, `5/min` or `100/h`; zero for an empty
/// text.
fn read_rate(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let wrong = || format!("{text:?} is not a rate: write such as 20/s, 5/min or 100/h");
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let unit = match unit.trim() {
        "s" => Duration::from_secs(1),
        "min" => Duration::from_mins(1),
        "h" => Duration::from_hours(1),
        _ => return Err(wrong()),
    };
    match count.trim().parse::<u32>() {
        // Due times are in milliseconds, so more than 1,000 tasks a second cannot be told apart.
        Ok(count @ 1..=1_000) => Ok(unit / count),
        Ok(_) => Err(format!("{text:?}: a rate is 1 to 1000 tasks in its unit")),
        Err(_) => Err(wrong()),
    }
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
    use super::*;

    #[test]
    fn a_rate_is_a_wait_and_what_is_none_is_refused() {
        assert_eq!(read_rate(""), Ok(Duration::ZERO));
        assert_eq!(read_rate("20/s"), Ok(Duration::from_millis(50)));
        assert_eq!(read_rate(" 5 / min"), Ok(Duration::from_secs(12)));
        for bad in ["20", "0/s", "5000/s", "1/day", "x/s"] {
            assert!(read_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_is_a_span_or_a_time() {
        assert_eq!(read_when("30m"), Ok(When::After(Duration::from_mins(30))));
        assert!(matches!(read_when("2026-12-24T17:00Z"), Ok(When::At(_))));
        assert!(read_when("tomorrow").is_err());
    }
}
