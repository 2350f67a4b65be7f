//! The events of the shop: one JSON object a line.

use std::fmt;
use std::time::Duration;

use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Serialize};

/// What happened to an order, and when.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event {
    /// A customer placed it: unless it is paid within its time-out, it is cancelled.
    Placed {
        time: Moment,
        #[serde(flatten)]
        order: Order,
    },
    /// The payment came.
    Paid { time: Moment, order: String },
}

/// An order as it was placed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    /// Its number, which is also the id of its cancellation.
    #[serde(rename = "order")]
    pub(crate) number: String,
    /// Who placed it.
    #[serde(default)]
    pub(crate) customer: String,
    /// What it costs.
    #[serde(default)]
    pub(crate) total: String,
    /// How long the customer may take to pay.
    pub(crate) timeout: Timeout,
}

/// A span that is not negative, such as `30m`, `1h 30m` or `7d`; a day has 24 hours.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Timeout {
    /// As it was written.
    span: Span,
    pub(crate) length: Duration,
}

impl TryFrom<String> for Timeout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |_| format!("{text:?} is not a time-out such as 30m, 1h 30m or 7d");
        let span: Span = text.parse().map_err(wrong)?;
        let length = span
            .to_duration(SpanRelativeTo::days_are_24_hours())
            .map_err(wrong)?;
        let length = Duration::try_from(length)
            .map_err(|_| format!("{text:?}: a time-out cannot be negative"))?;
        Ok(Self { span, length })
    }
}

impl From<Timeout> for String {
    fn from(timeout: Timeout) -> Self {
        timeout.span.to_string()
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.span)
    }
}

/// A time with its UTC offset, such as `2026-03-02T08:03:10+01:00`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Moment {
    pub(crate) at: jiff::Timestamp,
    offset: Offset,
}

impl Moment {
    /// The time on the wall of the shop, such as `08:03:10`.
    pub(crate) fn clock(self) -> String {
        self.offset
            .to_datetime(self.at)
            .strftime("%H:%M:%S")
            .to_string()
    }

    /// This moment moved later.
    pub(crate) fn plus(self, span: Duration) -> Self {
        let at = self.at.checked_add(span).unwrap_or(jiff::Timestamp::MAX);
        Self { at, ..self }
    }

    /// How long after `earlier` this is; zero when it is not later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::try_from(self.at.duration_since(earlier.at)).unwrap_or_default()
    }
}

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |e: jiff::Error| {
            format!("{text:?} is not a time such as 2026-03-02T08:03:10+01:00: {e}")
        };
        let at = text.parse().map_err(wrong)?;
        let offset = Pieces::parse(&text).map_err(wrong)?.to_numeric_offset();
        Ok(Self {
            at,
            offset: offset.unwrap_or(Offset::UTC),
        })
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.at.display_with_offset(moment.offset).to_string()
    }
}

impl Event {
    /// Reads one line. An error names the column; for `serde_json` this line is always its first.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let name_column = |e: serde_json::Error| e.to_string().replace(" at line 1 ", " at ");
        serde_json::from_str(line).map_err(name_column)
    }

    /// When it happened.
    pub(crate) fn time(&self) -> Moment {
        match self {
            Self::Placed { time, .. } | Self::Paid { time, .. } => *time,
        }
    }
}
