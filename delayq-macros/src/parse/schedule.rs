//! The options `every` and `zone`.

use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions, parse_crontab_with};
use darling::util::SpannedValue;
use darling::{Error, Result};
use jiff::tz::TimeZone;
use syn::Meta;

use super::value::{TypeName, Value, parse_duration, spanned, text, wrong};

/// As in delayq-plugin's `Schedule`.
const MAX_EVERY: Duration = Duration::from_hours(24 * 366);

/// A cron expression or an interval, with its text.
pub(crate) enum Every {
    Cron(String),
    Interval(String),
}

impl Every {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Cron(text) | Self::Interval(text) => text,
        }
    }
}

pub(super) fn every(item: &Meta) -> Value<Every> {
    let (text, span) = text(item, "\"0 9 * * *\"")?;
    let refused = |reason: &str| wrong(&span, format!("{text:?} is no schedule: {reason}"));
    let every = match parse_duration(&text) {
        Some(interval) => {
            if interval < Duration::from_secs(1)
                || interval > MAX_EVERY
                || interval.subsec_nanos() != 0
            {
                return Err(refused(
                    "an interval is of whole seconds, 1 second to 366 days",
                ));
            }
            Every::Interval(text)
        }
        None if text.split_whitespace().count() == 5 => {
            check_cron(&text).map_err(|reason| refused(&reason))?;
            Every::Cron(text)
        }
        None => {
            return Err(refused(
                "write five fields (minute, hour, day of month, month, day of week) such as \
                 `every = \"0 9 * * *\"`, or an interval such as `every = \"15m\"`",
            ));
        }
    };
    Ok(Some(spanned(every, &span)))
}

fn check_cron(text: &str) -> std::result::Result<(), String> {
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    let crontab = parse_crontab_with(text, options).map_err(|error| {
        let error = error.to_string();
        let reason = error.rsplit_once('^').map_or(&*error, |(_, reason)| reason);
        reason.trim().to_owned()
    })?;
    if comes(&crontab) {
        return Ok(());
    }
    Err("it never comes; is there such a day?".to_owned())
}

/// True if it ever matches, from shortly before a whole cycle of leap days.
fn comes(crontab: &Crontab) -> bool {
    crontab.find_next("2023-12-31T00:00:00Z").is_ok()
}

pub(super) fn zone(item: &Meta) -> Value<String> {
    let (text, span) = text(item, "\"Europe/Berlin\"")?;
    if TimeZone::get(&text).is_err() {
        let message = format!(
            "{text:?} is no time zone: write its name in the IANA database, such as \
             `zone = \"Europe/Berlin\"`"
        );
        return Err(wrong(&span, message));
    }
    Ok(Some(spanned(text, &span)))
}

/// Checks `every` and `zone` against each other, and against the type.
pub(super) fn check(
    task_type: Option<&TypeName>,
    every: Option<&SpannedValue<Every>>,
    zone: Option<&SpannedValue<String>>,
) -> Result<()> {
    let refused = |span, message: &str| Err(Error::custom(message).with_span(&span));
    match (every, zone) {
        (None, Some(zone)) => refused(
            zone.span(),
            "a zone is that of a schedule: add for example `every = \"0 9 * * *\"`",
        ),
        (Some(every), Some(zone)) if matches!(**every, Every::Interval(_)) => refused(
            zone.span(),
            "an interval has no zone: remove `zone`, or write `every` in five fields, such as \
             `every = \"0 9 * * *\"`",
        ),
        (Some(every), _) if task_type.is_some_and(TypeName::is_pattern) => refused(
            every.span(),
            "a pattern is no type that could recur: remove `every`, and declare each type with \
             `.recurring(..)` of the builder",
        ),
        _ => Ok(()),
    }
}
