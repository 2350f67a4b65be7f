//! How fast a type works off its tasks.

use std::time::Duration;

use delayq_plugin::TypeStats;
use serde::Serialize;

use crate::span;

/// How many attempts of a type ended a second, between two looks at its counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pace {
    /// Attempts that were done or failed, and tasks that expired, a second.
    pub per_second: f64,
    /// The time between the two looks.
    #[serde(rename = "over_ms", serialize_with = "span::millis")]
    pub over: Duration,
}

impl Pace {
    /// The pace between two looks, on the store's clock. `None` when no time has passed, or when
    /// counts have fallen: the type was dropped, or shards of it were, between them.
    #[must_use]
    pub fn between(earlier: &TypeStats, later: &TypeStats) -> Option<Self> {
        let over = later.now.since(earlier.now);
        let ended = |stats: &TypeStats| {
            let totals = stats.totals;
            totals.done + totals.failed + totals.expired
        };
        let ended = ended(later).checked_sub(ended(earlier))?;
        #[allow(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
        let per_second = ended as f64 / over.as_secs_f64();
        (over > Duration::ZERO).then_some(Self { per_second, over })
    }

    /// How long `count` tasks take at this pace; `None` if it stands still, or longer than a
    /// hundred years.
    #[must_use]
    pub fn time_for(&self, count: u64) -> Option<Duration> {
        const CENTURY: f64 = 100.0 * 365.0 * 86_400.0;
        #[allow(clippy::cast_precision_loss, reason = "an estimate needs no 53 bits")]
        let seconds = count as f64 / self.per_second;
        (self.per_second > 0.0 && seconds < CENTURY).then(|| Duration::from_secs_f64(seconds))
    }
}
