//! Schedule: the times of a recurring task.

use std::fmt;
use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions, parse_crontab_with};
use delayq_core::job::IntoDelay;
use delayq_core::{Error, Result, Timestamp, seconds};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Zoned};

#[cfg(test)]
mod tests;

/// Time after which a schedule must have an occurrence: a day before the start of a whole cycle of
/// leap days.
const PROBE_MS: i64 = 1_704_000_000_000;
/// The longest interval.
const MAX_EVERY: Duration = Duration::from_hours(24 * 366);
/// Maximum number of steps in the search for the next time: more than a day of minutes.
const MAX_STEPS: usize = 3_000;

/// The times of a recurring task: a cron expression in a time zone, or an interval.
///
/// A cron expression has five fields: minute, hour, day of month, month, day of week (0 or 7 is
/// Sunday, and names such as `MON` are allowed). Its zone is UTC unless [`zone`](Self::zone) names
/// one. When the zone's clocks are put forward, a skipped time runs at the moment of the change.
/// When they are put back, a repeated time runs only the first time. An expression that runs in
/// every hour, however that is written, follows the clock instead: it skips the skipped times and
/// runs at both repeated ones.
///
/// An interval, such as `"15m"`, counts from 1970 in UTC, so that all instances agree: `"15m"` is
/// at 0, 15, 30 and 45 minutes past each hour, `"24h"` at midnight.
///
/// ```
/// use delayq_plugin::{IntoTime, Schedule};
///
/// # fn main() -> delayq_plugin::Result<()> {
/// let nine = Schedule::new("0 9 * * MON-FRI")?.zone("Europe/Berlin")?;
/// let friday = "2026-11-27T12:00[Europe/Berlin]".into_time()?;
/// let monday = "2026-11-30T09:00[Europe/Berlin]".into_time()?;
/// assert_eq!(nine.next_after(friday), Some(monday));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Schedule {
    text: String,
    zone: Option<TimeZone>,
    kind: ScheduleKind,
}

#[derive(Clone)]
enum ScheduleKind {
    /// Matched against local time as if it were UTC.
    Cron {
        crontab: Box<Crontab>,
        is_hourly: bool,
    },
    Every(Duration),
}

impl Schedule {
    /// The schedule for `every`: five fields such as `"0 9 * * *"`, or an interval of 1 second to
    /// 366 days such as `"15m"`.
    ///
    /// # Errors
    /// `InvalidInput`, with what to write; also for an expression that never matches, such as the
    /// 31st of February.
    pub fn new(every: &str) -> Result<Self> {
        let text = every.split_whitespace().collect::<Vec<_>>().join(" ");
        let fields = text.split(' ').count();
        let kind = match interval(&text) {
            Some(interval) => ScheduleKind::Every(interval?),
            None if fields == 5 => ScheduleKind::cron(&text)?,
            None => return Err(not_understood(every)),
        };
        let zone = None;
        let schedule = Self { text, zone, kind };
        let probe = Timestamp::from_millis(PROBE_MS);
        if schedule.next_after(probe).is_none() {
            return Err(invalid(every, "it never comes: is there such a day?"));
        }
        Ok(schedule)
    }

    /// Parses the text written by [`Display`](fmt::Display).
    pub(crate) fn read(text: &str) -> Result<Self> {
        match text.rsplit_once(' ') {
            Some((every, zone)) if every.split(' ').count() == 5 => Self::new(every)?.zone(zone),
            _ => Self::new(text),
        }
    }

    /// The same schedule by the clock of this time zone, such as `"Europe/Berlin"`.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown zone, and for an interval, which has none.
    pub fn zone(mut self, name: &str) -> Result<Self> {
        if matches!(self.kind, ScheduleKind::Every(_)) {
            let reason = "an interval has no zone: leave the zone out, or write five fields";
            return Err(invalid(&self.text, reason));
        }
        let zone = TimeZone::get(name).map_err(|error| {
            let name: String = name.chars().take(40).collect();
            Error::invalid(
                "zone",
                format!("{name:?}: {error}; write such as Europe/Berlin"),
            )
        })?;
        self.zone = Some(zone);
        Ok(self)
    }

    /// The first of its times after `time`; `None` if there is none in the range of years.
    #[must_use]
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let next = match &self.kind {
            ScheduleKind::Every(every) => {
                let every = i64::try_from(every.as_millis()).ok()?;
                Some(Timestamp::from_millis(
                    (time.as_millis() / every + 1) * every,
                ))
            }
            ScheduleKind::Cron { crontab, is_hourly } => {
                let after = jiff::Timestamp::from_millisecond(time.as_millis()).ok()?;
                let zone = self.time_zone();
                let next = if *is_hourly {
                    next_on_the_clock(crontab, &zone, after)
                } else {
                    next_of_the_day(crontab, &zone, after)
                };
                next.map(|next| Timestamp::from_millis(next.as_millisecond()))
            }
        };
        next.filter(|next| *next > time)
    }

    /// True if `time` is one of its times.
    #[must_use]
    pub fn has(&self, time: Timestamp) -> bool {
        self.next_after(Timestamp::from_millis(time.as_millis() - 1)) == Some(time)
    }

    /// `time` in the schedule's zone, such as `2026-11-24T09:00:00+01:00[Europe/Berlin]`.
    pub(crate) fn in_zone(&self, time: Timestamp) -> String {
        match jiff::Timestamp::from_millisecond(time.as_millis()) {
            Ok(time) => time.to_zoned(self.time_zone()).to_string(),
            Err(_) => time.to_string(),
        }
    }

    fn time_zone(&self) -> TimeZone {
        self.zone.clone().unwrap_or(TimeZone::UTC)
    }
}

impl fmt::Display for Schedule {
    /// The text as given, and the zone if one was named. The same text means the same schedule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.zone.as_ref().and_then(TimeZone::iana_name) {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({self})")
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Schedule {}

/// The interval in `text`; `None` if it does not look like one.
fn interval(text: &str) -> Option<Result<Duration>> {
    let interval = text.into_delay().ok()?;
    if !(seconds(1)..=MAX_EVERY).contains(&interval) || interval.subsec_nanos() != 0 {
        let reason = "an interval is of whole seconds, 1 second to 366 days";
        return Some(Err(invalid(text, reason)));
    }
    Some(Ok(interval))
}

impl ScheduleKind {
    fn cron(text: &str) -> Result<Self> {
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let crontab = parse_crontab_with(text, options).map_err(|error| {
            // The first line repeats the expression, and a marker precedes the reason.
            let error = error.to_string();
            let reason = error.rsplit_once('^').map_or(&*error, |(_, reason)| reason);
            invalid(text, reason.trim())
        })?;
        Ok(Self::Cron {
            crontab: Box::new(crontab),
            is_hourly: is_hourly(text),
        })
    }
}

/// True if the hour of an expression, such as `*`, `*/1` or `0-23`, means all hours of a day.
fn is_hourly(text: &str) -> bool {
    let hours = text.split_whitespace().nth(1).unwrap_or_default();
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    let Ok(crontab) = parse_crontab_with(&format!("0 {hours} * * *"), options) else {
        return false;
    };
    let day = DateTime::constant(2024, 1, 1, 0, 0, 0, 0);
    let hours = std::iter::successors(next_civil(&crontab, day), |hour| {
        next_civil(&crontab, *hour)
    });
    // The first one is at one o'clock.
    hours
        .take(24)
        .zip(1..)
        .all(|(hour, n)| day.checked_add(SignedDuration::from_hours(n)).ok() == Some(hour))
}

fn invalid(text: &str, reason: &str) -> Error {
    let text: String = text.chars().take(60).collect();
    Error::invalid("schedule", format!("{text:?}: {reason}"))
}

fn not_understood(text: &str) -> Error {
    let reason = "write five fields (minute, hour, day of month, month, day of week) such as \
                  \"0 9 * * *\", or an interval such as \"15m\"";
    invalid(text, reason)
}

/// The first time of `crontab` after `civil`, on a clock that never changes its offset.
fn next_civil(crontab: &Crontab, civil: DateTime) -> Option<DateTime> {
    let after = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let next = crontab.find_next(cronexpr::MakeTimestamp(after)).ok()?;
    Some(next.datetime())
}

/// For an expression with an hour: each local time once.
fn next_of_the_day(
    crontab: &Crontab,
    zone: &TimeZone,
    after: jiff::Timestamp,
) -> Option<jiff::Timestamp> {
    // Starts a day back, to find times that the clocks have skipped.
    let from = after.to_zoned(zone.clone()).datetime();
    let mut civil = from.checked_sub(SignedDuration::from_hours(24)).ok()?;
    for _ in 0..MAX_STEPS {
        civil = next_civil(crontab, civil)?;
        let time = first_showing(zone, civil)?;
        if time > after {
            return Some(time);
        }
    }
    None
}

/// For an expression of every hour: each time that the local clock shows it.
fn next_on_the_clock(
    crontab: &Crontab,
    zone: &TimeZone,
    after: jiff::Timestamp,
) -> Option<jiff::Timestamp> {
    let mut from = after.to_zoned(zone.clone());
    for _ in 0..MAX_STEPS {
        let civil = next_civil(crontab, from.datetime())?;
        let change = zone.following(from.timestamp()).next();
        let end = change.map(|change| change.timestamp());
        let next = from.offset().to_timestamp(civil).ok()?;
        match end {
            // The clocks change before `next`. From the change on, inclusive, they show other
            // times.
            Some(end) if next >= end => {
                let shown = end.to_zoned(zone.clone());
                if is_shown(crontab, &shown)? {
                    return Some(end);
                }
                from = shown;
            }
            _ => return Some(next),
        }
    }
    None
}

/// True if `crontab` matches the time that a clock shows.
fn is_shown(crontab: &Crontab, shown: &Zoned) -> Option<bool> {
    let shown = shown.datetime().to_zoned(TimeZone::UTC).ok()?.timestamp();
    crontab.matches(cronexpr::MakeTimestamp(shown)).ok()
}

/// The moment when the clocks of `zone` first show `civil`, or skip it.
fn first_showing(zone: &TimeZone, civil: DateTime) -> Option<jiff::Timestamp> {
    let ambiguous = zone.to_ambiguous_zoned(civil);
    if let AmbiguousOffset::Gap { .. } = ambiguous.offset() {
        let before = ambiguous.earlier().ok()?.timestamp();
        return zone
            .following(before)
            .next()
            .map(|change| change.timestamp());
    }
    ambiguous.compatible().ok().map(|zoned| zoned.timestamp())
}
