//! Values of options, with the words and limits of `#[task_worker]`.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use delayq_core::history::Recording;
use delayq_core::store::{Durability, MAX_CALL_TIMEOUT};
use delayq_core::time::MAX_DELAY;
use delayq_core::{Rate, millis, seconds};
use delayq_history::FOREVER;
use jiff::{SignedDuration, SpanRelativeTo};
use serde::de::{Deserializer, Error, Visitor};

const SPAN: &str = "a span as text, such as \"30s\" (units: ms, s, m, h, d; they combine as in \
                    \"1m 30s\")";

/// A value that is a number or text in the file.
trait Scalar: Sized {
    const EXPECTED: &'static str;

    fn of_text(text: &str) -> Result<Self, String> {
        Err(format!("{text:?} is text: expected {}", Self::EXPECTED))
    }

    fn of_number(number: f64) -> Result<Self, String> {
        Err(format!("{number} is a number: expected {}", Self::EXPECTED))
    }

    fn of_integer(number: i64) -> Result<Self, String> {
        Err(format!("{number} is a number: expected {}", Self::EXPECTED))
    }
}

struct ScalarVisitor<T>(PhantomData<T>);

impl<T: Scalar> Visitor<'_> for ScalarVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::of_text(text).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        T::of_number(number).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        T::of_integer(number).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

fn scalar<'de, T: Scalar, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(ScalarVisitor(PhantomData))
}

struct SpanValue(Duration);

impl Scalar for SpanValue {
    const EXPECTED: &'static str = SPAN;

    fn of_integer(number: i64) -> Result<Self, String> {
        Err(format!(
            "`{number}` has no unit: write \"{number}s\" (units: ms, s, m, h, d)"
        ))
    }

    fn of_text(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse() {
            return Self::of_integer(number);
        }
        let span = parse_span(text);
        let span = span.ok_or_else(|| format!("{text:?} is not a span: write {SPAN}"))?;
        if span > MAX_DELAY {
            return Err(format!(
                "{text:?} is longer than the limit of 10 years: write at most \"3650d\""
            ));
        }
        Ok(Self(span))
    }
}

/// Durations in the syntax of `#[task_worker]`.
fn parse_span(text: &str) -> Option<Duration> {
    let days = SpanRelativeTo::days_are_24_hours();
    let span = match text.parse::<SignedDuration>() {
        Ok(span) => span,
        // jiff's durations have no days, but its spans do. A day has 24 hours, as everywhere in
        // delayq.
        Err(_) => text.parse::<jiff::Span>().ok()?.to_duration(days).ok()?,
    };
    Duration::try_from(span).ok()
}

pub(super) fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    scalar::<SpanValue, _>(from).map(|span| Some(span.0))
}

struct RetentionValue(Duration);

impl Scalar for RetentionValue {
    const EXPECTED: &'static str = "a span such as \"30d\", or \"forever\"";

    fn of_integer(number: i64) -> Result<Self, String> {
        SpanValue::of_integer(number).map(|span| Self(span.0))
    }

    fn of_text(text: &str) -> Result<Self, String> {
        match text {
            "forever" => Ok(Self(FOREVER)),
            _ => SpanValue::of_text(text).map(|span| Self(span.0)),
        }
    }
}

/// How long a history is kept.
pub(super) fn kept_for<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    scalar::<RetentionValue, _>(from).map(|span| Some(span.0))
}

fn at_least<'de, D: Deserializer<'de>>(
    from: D,
    least: Duration,
    rule: &str,
) -> Result<Option<Duration>, D::Error> {
    let span = span(from)?;
    match span {
        Some(short) if short < least => Err(D::Error::custom(rule)),
        span => Ok(span),
    }
}

pub(super) fn lock<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let rule = "a lock lasts at least 1 s: write \"1s\" or more";
    at_least(from, seconds(1), rule)
}

pub(super) fn timeout<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let rule = "an attempt has at least 1 ms: write for example \"30s\"";
    at_least(from, millis(1), rule)
}

pub(super) fn call_timeout<'de, D>(from: D) -> Result<Option<Duration>, D::Error>
where
    D: Deserializer<'de>,
{
    let rule = "a call has 1 ms to a day: write for example \"5s\"";
    match at_least(from, millis(1), rule)? {
        Some(long) if long > MAX_CALL_TIMEOUT => Err(D::Error::custom(rule)),
        span => Ok(span),
    }
}

struct CountValue(u32);

impl Scalar for CountValue {
    const EXPECTED: &'static str = "a whole number, 1 or more";

    fn of_integer(number: i64) -> Result<Self, String> {
        match u32::try_from(number) {
            Ok(count @ 1..) => Ok(Self(count)),
            _ => Err(format!("{number}: expected {}", Self::EXPECTED)),
        }
    }
}

pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    scalar::<CountValue, _>(from).map(|count| Some(count.0))
}

struct Percent(u8);

impl Scalar for Percent {
    const EXPECTED: &'static str =
        "a fraction of the wait from 0.0 to 1.0 in whole percents, such as 0.1";

    fn of_number(fraction: f64) -> Result<Self, String> {
        let mut percents = 0..=100_u8;
        let percent = percents.find(|p| (f64::from(*p) - fraction * 100.0).abs() < 1e-6);
        let percent = percent.map(Self);
        percent.ok_or_else(|| format!("{fraction}: expected {}", Self::EXPECTED))
    }

    fn of_integer(number: i64) -> Result<Self, String> {
        match number {
            0 => Ok(Self(0)),
            1 => Ok(Self(100)),
            _ => Err(format!("{number}: expected {}", Self::EXPECTED)),
        }
    }
}

pub(super) fn percent<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    scalar::<Percent, _>(from).map(|percent| Some(percent.0))
}

impl Scalar for Rate {
    const EXPECTED: &'static str = "a rate as text, such as \"100/s\" (units: s, min, h)";

    /// `100/s`, `10/min`, `5/h`; spaces around the `/` are allowed.
    fn of_text(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a rate: write {}", Self::EXPECTED);
        let (starts, unit) = text.split_once('/').ok_or_else(wrong)?;
        let rate: fn(u32) -> Self = match unit.trim() {
            "s" => Self::per_second,
            "min" => Self::per_minute,
            "h" => Self::per_hour,
            _ => return Err(wrong()),
        };
        let starts = starts.trim();
        let is_number = !starts.is_empty() && starts.bytes().all(|byte| byte.is_ascii_digit());
        match starts.parse() {
            Ok(starts @ 1..=1_000_000) if is_number => Ok(rate(starts)),
            _ => Err(format!(
                "{text:?}: the starts of a rate are a whole number, 1 to 1000000"
            )),
        }
    }
}

pub(super) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
    scalar(from).map(Some)
}

impl Scalar for Durability {
    const EXPECTED: &'static str = "\"memory\", \"process\", \"disk\" or \"replicated\"";

    fn of_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: delayq_core::Error| error.to_string())
    }
}

pub(super) fn durability<'de, D>(from: D) -> Result<Option<Durability>, D::Error>
where
    D: Deserializer<'de>,
{
    scalar(from).map(Some)
}

impl Scalar for Recording {
    const EXPECTED: &'static str = "\"off\", \"on\" (without messages), \"all\", or the bytes of a message to keep, \
         such as \"1kB\"";

    fn of_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: delayq_core::Error| error.to_string())
    }
}

pub(super) fn recording<'de, D>(from: D) -> Result<Option<Recording>, D::Error>
where
    D: Deserializer<'de>,
{
    scalar(from).map(Some)
}
