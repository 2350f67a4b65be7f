//! Times and spans.

use std::time::Duration;

use delayq_core::job::Expiry;
use delayq_core::{Error, Result, Timestamp, When};

use crate::field::required;
use crate::pb;

/// Converts a time to a message.
#[must_use]
pub fn time(time: Timestamp) -> prost_types::Timestamp {
    let ms = time.as_millis();
    prost_types::Timestamp {
        seconds: ms.div_euclid(1_000),
        nanos: i32::try_from(ms.rem_euclid(1_000) * 1_000_000).unwrap_or_default(),
    }
}

/// Reads a time and rounds it up to whole milliseconds, so that nothing starts too early.
///
/// # Errors
/// `InvalidInput` that names the field.
pub fn read_time(field: &'static str, time: prost_types::Timestamp) -> Result<Timestamp> {
    if !(0..1_000_000_000).contains(&time.nanos) {
        return Err(Error::invalid(field, "its nanos are 0 to 999,999,999"));
    }
    let ms = time.seconds.saturating_mul(1_000);
    let part = i64::from(time.nanos).div_euclid(1_000_000)
        + i64::from(i64::from(time.nanos).rem_euclid(1_000_000) > 0);
    Ok(Timestamp::from_millis(ms.saturating_add(part)))
}

/// A time that may be absent.
///
/// # Errors
/// `InvalidInput` that names the field.
pub fn read_time_if(
    field: &'static str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>> {
    time.map(|time| read_time(field, time)).transpose()
}

/// Converts a span to a message. A span too long for a message becomes the longest possible one.
#[must_use]
pub fn span(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
    }
}

/// Reads a span.
///
/// # Errors
/// `InvalidInput` that names the field.
pub fn read_span(field: &'static str, span: prost_types::Duration) -> Result<Duration> {
    let negative = || Error::invalid(field, "a span is not negative");
    let seconds = u64::try_from(span.seconds).map_err(|_| negative())?;
    let nanos = u32::try_from(span.nanos).map_err(|_| negative())?;
    if nanos >= 1_000_000_000 {
        return Err(Error::invalid(field, "its nanos are 0 to 999,999,999"));
    }
    Ok(Duration::new(seconds, nanos))
}

/// Reads an optional span; absent means zero.
///
/// # Errors
/// `InvalidInput` that names the field.
pub fn read_span_or_zero(
    field: &'static str,
    span: Option<prost_types::Duration>,
) -> Result<Duration> {
    span.map_or(Ok(Duration::ZERO), |span| read_span(field, span))
}

impl From<When> for pb::When {
    fn from(when: When) -> Self {
        use pb::when::When as Form;
        let when = match when {
            When::After(delay) => Form::After(span(delay)),
            When::At(at) => Form::At(time(at)),
        };
        Self { when: Some(when) }
    }
}

impl TryFrom<pb::When> for When {
    type Error = Error;

    fn try_from(when: pb::When) -> Result<Self> {
        use pb::when::When as Form;
        match required("when", when.when)? {
            Form::After(delay) => Ok(Self::After(read_span("when.after", delay)?)),
            Form::At(at) => Ok(Self::At(read_time("when.at", at)?)),
        }
    }
}

impl From<Expiry> for pb::Expiry {
    fn from(expiry: Expiry) -> Self {
        use pb::expiry::Expiry as Form;
        let expiry = match expiry {
            Expiry::At(at) => Form::At(time(at)),
            Expiry::AfterDue(after) => Form::AfterDue(span(after)),
        };
        Self {
            expiry: Some(expiry),
        }
    }
}

impl TryFrom<pb::Expiry> for Expiry {
    type Error = Error;

    fn try_from(expiry: pb::Expiry) -> Result<Self> {
        use pb::expiry::Expiry as Form;
        match required("expiry", expiry.expiry)? {
            Form::At(at) => Ok(Self::At(read_time("expiry.at", at)?)),
            Form::AfterDue(after) => Ok(Self::AfterDue(read_span("expiry.after_due", after)?)),
        }
    }
}
