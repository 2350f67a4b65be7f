//! Times and spans in text form.

use std::cmp::Ordering;
use std::time::Duration;

use delayq_plugin::{IntoDelay, IntoTime, Timestamp};

/// Parses a span on the command line, such as `30m` or `7d`.
pub(crate) fn read_span(text: &str) -> Result<Duration, String> {
    text.into_delay().map_err(|error| error.to_string())
}

/// Parses the delay of a task on the command line, which is not negative.
pub(crate) fn read_delay(text: &str) -> Result<Duration, String> {
    if text.trim_start().starts_with('-') {
        let way_out = "a delay is not negative: write one such as 30m, or leave it out for now";
        return Err(way_out.to_owned());
    }
    read_span(text)
}

/// Parses a time on the command line, such as `2026-12-24T17:00Z`.
pub(crate) fn read_time(text: &str) -> Result<Timestamp, String> {
    text.into_time().map_err(|error| error.to_string())
}

/// A span in its two largest units: `450ms`, `12s`, `3m 20s`, `2d 4h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{small_unit}"),
    };
    match (days, hours, minutes, rest) {
        (0, 0, 0, 0) => format!("{}ms", span.as_millis()),
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => two(minutes, "m", seconds, "s"),
        (0, hours, minutes, _) => two(hours, "h", minutes, "m"),
        (days, hours, ..) => two(days, "d", hours, "h"),
    }
}

/// A rate per second in a suitable unit: `120/s`, `2.5/s`, `3.0/min`.
pub(crate) fn per_time(rate: f64) -> String {
    match rate {
        ..=0.0 => "0".to_owned(),
        ..0.1 => format!("{:.1}/min", rate * 60.0),
        ..10.0 => format!("{rate:.1}/s"),
        _ => format!("{rate:.0}/s"),
    }
}

/// `in 5m` or `3s ago`, relative to `now`.
pub(crate) fn relative(time: Timestamp, now: Timestamp) -> String {
    match time.cmp(&now) {
        Ordering::Less => format!("{} ago", span(now.since(time))),
        Ordering::Equal => "now".to_owned(),
        Ordering::Greater => format!("in {}", span(time.since(now))),
    }
}

/// The time and how far away it is: `2026-12-24T17:00:00.000Z (in 5m)`.
pub(crate) fn moment(time: Timestamp, now: Timestamp) -> String {
    format!("{time} ({})", relative(time, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_their_two_largest_units() {
        let of = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(span(Duration::from_millis(450)), "450ms");
        assert_eq!(of(59), "59s");
        assert_eq!(of(200), "3m 20s");
        assert_eq!(of(7_200), "2h");
        assert_eq!(of(187_200), "2d 4h");
    }

    #[test]
    fn a_rate_has_the_unit_that_fits() {
        assert_eq!(
            [0.0, 0.05, 2.5, 120.4].map(per_time),
            ["0", "3.0/min", "2.5/s", "120/s"]
        );
    }
}
