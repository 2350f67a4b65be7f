//! Times in text form.

use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::time::Timestamp;

/// A time for [`DelayQueueJob::at`](super::DelayQueueJob::at): a [`Timestamp`], a [`SystemTime`], a
/// [`jiff::Timestamp`] or [`jiff::Zoned`], or text such as `"2026-12-24T18:00[Europe/Berlin]"`,
/// `"2026-12-24T18:00+01:00"` or `"2026-12-24T17:00Z"`.
///
/// A local time in a zone becomes a point in time when the job is built: later changes of the
/// zone's rules do not move it. A time that the clocks skip (a gap) is moved by as much as the
/// clocks are put forward: 02:30 becomes 03:30. For a time that the clocks show twice (an overlap)
/// the first one counts. Fractions of a millisecond are rounded up.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no time",
    label = "write `Timestamp::from_millis(..)`, milliseconds since 1970, or \"2026-12-24T17:00Z\""
)]
pub trait IntoTime {
    /// Converts to the time.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for text that is not a time, or that has neither zone nor offset.
    fn into_time(self) -> Result<Timestamp>;
}

impl IntoTime for Timestamp {
    fn into_time(self) -> Result<Timestamp> {
        Ok(self)
    }
}

impl IntoTime for SystemTime {
    fn into_time(self) -> Result<Timestamp> {
        Ok(self.into())
    }
}

impl IntoTime for jiff::Timestamp {
    fn into_time(self) -> Result<Timestamp> {
        SystemTime::from(self).into_time()
    }
}

impl IntoTime for jiff::Zoned {
    fn into_time(self) -> Result<Timestamp> {
        self.timestamp().into_time()
    }
}

impl IntoTime for &jiff::Zoned {
    fn into_time(self) -> Result<Timestamp> {
        self.timestamp().into_time()
    }
}

impl IntoTime for &str {
    fn into_time(self) -> Result<Timestamp> {
        let is_zoned = self.contains('[');
        let time = if is_zoned {
            self.parse().map(|zoned: jiff::Zoned| zoned.timestamp())
        } else {
            self.parse::<jiff::Timestamp>()
        };
        time.map_err(|_| {
            let text: String = self.chars().take(60).collect();
            let why = why_no_time(self);
            let like = "2026-12-24T18:00[Europe/Berlin] or 2026-12-24T17:00Z";
            Error::invalid("time", format!("{text:?}: {why}; write such as {like}"))
        })?
        .into_time()
    }
}

/// The missing part that keeps a text from being a time.
fn why_no_time(text: &str) -> &'static str {
    let zone = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(zone, _)| zone);
    match zone {
        Some(zone) if jiff::tz::TimeZone::get(zone).is_err() => "there is no such time zone",
        None if text.parse::<jiff::civil::DateTime>().is_ok() => "its zone is missing",
        _ => "it is no time",
    }
}

impl IntoTime for String {
    fn into_time(self) -> Result<Timestamp> {
        self.as_str().into_time()
    }
}

impl IntoTime for &String {
    fn into_time(self) -> Result<Timestamp> {
        self.as_str().into_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{DelayQueueJob, Expiry, Limits, NewTask, When};

    fn check(job: DelayQueueJob) -> Result<NewTask> {
        job.into_task(&Limits::default(), at("2026-01-01T00:00Z"))
    }

    fn at(text: &str) -> Timestamp {
        text.into_time().unwrap()
    }

    #[test]
    fn a_time_is_a_point_in_time_whatever_it_is_written_in() {
        let ms = 1_798_131_600_000;
        for text in [
            "2026-12-24T18:00[Europe/Berlin]",
            "2026-12-24T18:00+01:00",
            "2026-12-24T17:00Z",
            "2026-12-24T18:00+01:00[Europe/Berlin]",
        ] {
            assert_eq!(at(text).as_millis(), ms, "{text}");
            let zoned = || DelayQueueJob::raw("a", "").at(text).expires_at(text);
            let task = check(zoned()).unwrap();
            assert_eq!(task.when, When::At(at(text)));
            assert_eq!(task.expiry, Some(Expiry::At(at(text))));
        }
        let zoned: jiff::Zoned = "2026-12-24T18:00[Europe/Berlin]".parse().unwrap();
        assert_eq!(zoned.timestamp().into_time().unwrap().as_millis(), ms);
        assert_eq!((&zoned).into_time(), zoned.into_time());
        assert_eq!(at("2026-12-24T17:00:00.0000001Z").as_millis(), ms + 1);
    }

    #[test]
    fn a_time_in_a_gap_is_later_and_one_in_an_overlap_the_first() {
        let gap = at("2026-03-29T02:30[Europe/Berlin]");
        assert_eq!(gap, at("2026-03-29T03:30+02:00"));
        let overlap = at("2026-10-25T02:30[Europe/Berlin]");
        assert_eq!(overlap, at("2026-10-25T02:30+02:00"));
    }

    #[test]
    fn text_that_is_no_time_is_refused_by_the_send() {
        for bad in [
            "2026-12-24T18:00",
            "2026-12-24T18:00[Berlin]",
            "2026-12-24T18:00+02:00[Europe/Berlin]",
            "tomorrow",
            "",
        ] {
            let error = check(DelayQueueJob::raw("a", "").at(bad)).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with("invalid time: ") && text.contains("17:00Z"),
                "{text}"
            );
            assert!(check(DelayQueueJob::raw("a", "").expires_at(bad)).is_err());
        }
    }
}
