//! Delays: their text form and their limits.

use std::fmt;
use std::time::Duration;

use super::{Limits, When};
use crate::error::{Error, Result};
use crate::time::{MAX_DELAY, Timestamp};

/// Checks that `when` is within the delay limit, counted from `now`, and in the right unit.
///
/// # Errors
/// [`Error::InvalidInput`], naming `what`.
pub fn check_delay(what: &'static str, when: When, limits: &Limits, now: Timestamp) -> Result<()> {
    let delay = match when {
        When::After(delay) => delay,
        When::At(time) => {
            check_unit(what, time, now)?;
            time.since(now)
        }
    };
    let limit = limits.max_delay.min(MAX_DELAY);
    if delay <= limit {
        return Ok(());
    }
    let (delay, limit) = (
        ReadableSpan(delay).to_string(),
        ReadableSpan(limit).to_string(),
    );
    let reason = if delay == limit {
        format!("it is a little above the limit of {limit}")
    } else {
        format!("{delay} is beyond the limit of {limit}")
    };
    Err(Error::invalid(what, reason))
}

/// 2001-01-01. A present time in seconds is before this if read as milliseconds.
const YEAR_2001: Timestamp = Timestamp::literal(978_307_200_000);

/// Refuses a time that was probably given in seconds. A `now` before 2001 is a test's clock, which
/// is not checked.
pub(super) fn check_unit(what: &'static str, time: Timestamp, now: Timestamp) -> Result<()> {
    if time >= YEAR_2001 || now < YEAR_2001 {
        return Ok(());
    }
    let reason = format!("{time} is before 2001: times are milliseconds, were seconds given?");
    Err(Error::invalid(what, reason))
}

/// A span in readable form, for errors.
struct ReadableSpan(Duration);

impl fmt::Display for ReadableSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.as_secs() / 86_400;
        match days {
            0..3 => write!(f, "{:?}", self.0),
            3..730 => write!(f, "{days} days"),
            _ => write!(f, "{} years ({days} days)", days / 365),
        }
    }
}

/// A delay for [`DelayQueueJob::after`](super::DelayQueueJob::after): a [`Duration`], or text such
/// as `"30m"`, `"1h 30m"`, `"7 days"` or `"PT30M"`. A day has 24 hours; months and years are
/// refused, as their length varies.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no delay: its unit is missing",
    label = "write \"30s\", \"30m\" or `Duration::from_secs(30)`"
)]
pub trait IntoDelay {
    /// Converts to the delay.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for text that is not a delay.
    fn into_delay(self) -> Result<Duration>;
}

impl IntoDelay for Duration {
    fn into_delay(self) -> Result<Duration> {
        Ok(self)
    }
}

impl IntoDelay for &str {
    fn into_delay(self) -> Result<Duration> {
        let invalid = |why: &str| {
            let text: String = self.chars().take(40).collect();
            Error::invalid(
                "delay",
                format!("{text:?}: {why}; write such as 30m, 1h 30m or 7d"),
            )
        };
        let span: jiff::Span = self.parse().map_err(|_| invalid("it is no span of time"))?;
        let relative = jiff::SpanRelativeTo::days_are_24_hours();
        let delay = span.to_duration(relative).map_err(|_| {
            let has_length = span.get_years() == 0 && span.get_months() == 0;
            invalid(if has_length {
                "it is too long"
            } else {
                "years and months have no length of their own"
            })
        })?;
        Duration::try_from(delay).map_err(|_| invalid("it is negative"))
    }
}

impl IntoDelay for String {
    fn into_delay(self) -> Result<Duration> {
        self.as_str().into_delay()
    }
}

impl IntoDelay for &String {
    fn into_delay(self) -> Result<Duration> {
        self.as_str().into_delay()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{DelayQueueJob, NewTask};
    use crate::time::days;

    fn check(job: DelayQueueJob) -> Result<NewTask> {
        job.into_task(&Limits::default(), Timestamp::ZERO)
    }

    fn job() -> DelayQueueJob {
        DelayQueueJob::new("a", &1).unwrap()
    }

    #[test]
    fn a_delay_is_a_duration_or_text_and_text_that_is_none_is_refused_by_the_send() {
        for (text, seconds) in [("30m", 1_800), ("1h 30m", 5_400), ("7 days", 604_800)] {
            let task = check(job().after(text)).unwrap();
            assert_eq!(task.when, When::After(Duration::from_secs(seconds)));
        }
        for bad in ["", "soon", "-5m", "1 month", "5"] {
            let error = check(job().after(bad)).unwrap_err().to_string();
            assert!(
                error.starts_with("invalid delay: ") && error.contains("30m"),
                "{error}"
            );
            assert!(check(job().expires_after(bad)).is_err());
        }
        let error = check(job().after(days(4_015))).unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid delay: 11 years (4015 days) is beyond the limit of 10 years (3650 days)"
        );
    }

    #[test]
    fn a_time_in_seconds_is_refused_as_one() {
        let (now, seconds) = (1_700_000_000_000, 1_700_000_000);
        let at = Timestamp::from_millis;
        let check = |job: DelayQueueJob| job.into_task(&Limits::default(), at(now));
        let refused = check(job().at(at(seconds))).unwrap_err().to_string();
        assert!(refused.contains("before 2001"), "{refused}");
        assert!(check(job().expires_at(at(seconds))).is_err());
        assert!(check(job().at(at(now - 1))).is_ok());
    }
}
