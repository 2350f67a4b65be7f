//! The events of the shop: one JSON object a line.

use std::time::Duration;

use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
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
    /// How long the customer may take to pay, such as `30m` or `1h 30m`.
    pub(crate) timeout: jiff::SignedDuration,
}

impl Order {
    /// The time-out; a negative one is none.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::try_from(self.timeout).unwrap_or_default()
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
    /// Reads one line.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|e| e.to_string())
    }

    /// When it happened.
    pub(crate) fn time(&self) -> Moment {
        match self {
            Self::Placed { time, .. } | Self::Paid { time, .. } => *time,
        }
    }
}
