//! Spans of time as readable text and in JSON, and rates that people write.

use std::time::Duration;

use delayq_plugin::Rate;
use serde::{Serialize, Serializer};

/// `0.4 s`, `12 s`, `5 min 10 s`, `3 h 4 min`, `2 days 3 h`: the two largest units.
pub(crate) fn said(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |most: u64, big: &str, least: u64, small: &str| match least {
        0 => format!("{most} {big}"),
        _ => format!("{most} {big} {least} {small}"),
    };
    match seconds {
        0 if span < Duration::from_millis(1) => "0 s".to_owned(),
        0..10 => {
            let text = format!("{seconds}.{:03}", span.subsec_millis());
            format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        10..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => {
            let days = seconds / 86_400;
            let unit = if days == 1 { "day" } else { "days" };
            two(days, unit, seconds / 3_600 % 24, "h")
        }
    }
}

fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
pub(crate) fn millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_ms(*span))
}

#[allow(clippy::ref_option, reason = "serde passes the field")]
pub(crate) fn optional_millis<S: Serializer>(
    span: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    span.map(whole_ms).serialize(serializer)
}

/// Parses a rate such as `20/s`, `5/min` or `100/h`.
///
/// # Errors
/// The text is no rate. The error shows the forms.
pub fn read_rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("{text:?} is not a rate: write such as 20/s, 5/min or 100/h");
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let unit = match unit.trim() {
        "s" => Duration::from_secs(1),
        "min" => Duration::from_mins(1),
        "h" => Duration::from_hours(1),
        _ => return Err(wrong()),
    };
    let count = count.trim().parse().map_err(|_| wrong())?;
    Ok(Rate::new(count, unit))
}

/// Parses a rate of up to 1,000 tasks in its unit, and returns the wait between two tasks.
///
/// # Errors
/// The text is no rate, or the rate is out of range.
pub fn read_pace(text: &str) -> Result<Duration, String> {
    let rate = read_rate(text)?;
    match rate.starts {
        // Due times are in milliseconds, so more than 1,000 tasks a second cannot be told apart.
        1..=1_000 => Ok(rate.per / rate.starts),
        _ => Err(format!("{text:?}: a rate is 1 to 1000 tasks in its unit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_said_in_its_two_largest_units() {
        let said = |ms| said(Duration::from_millis(ms));
        assert_eq!(
            [0, 40, 1_500, 2_256, 59_999, 60_000, 310_000].map(said),
            [
                "0 s",
                "0.04 s",
                "1.5 s",
                "2.256 s",
                "59 s",
                "1 min",
                "5 min 10 s"
            ]
        );
        assert_eq!(
            [11_040_000, 86_400_000, 183_600_000].map(said),
            ["3 h 4 min", "1 day", "2 days 3 h"]
        );
    }

    #[test]
    fn a_rate_is_a_wait_and_what_is_none_is_refused() {
        assert_eq!(read_pace("20/s"), Ok(Duration::from_millis(50)));
        assert_eq!(read_pace(" 5 / min"), Ok(Duration::from_secs(12)));
        for bad in ["", "20", "0/s", "5000/s", "1/day", "x/s"] {
            assert!(read_pace(bad).is_err(), "{bad}");
        }
    }
}
