//! The pace at which a type works through its tasks.

use std::time::Duration;

use delayq_plugin::store::{Spell, Step};
use delayq_plugin::{Error, Result, TaskSubmitService, TaskType, Timestamp};
use serde::Serialize;

use crate::span;

/// How far back figures count for the present pace.
const PRESENT: Duration = Duration::from_mins(5);

/// The shortest time for calculating a pace.
const LEAST: Duration = Duration::from_secs(1);

/// The number of attempts of a type that ended per second, from its figures of the last five
/// minutes; if the first figures of the last hour are more recent, since those.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pace {
    /// Attempts that succeeded or failed, per second.
    pub per_second: f64,
    /// The time covered.
    #[serde(rename = "over_ms", serialize_with = "span::millis")]
    pub over: Duration,
}

impl Pace {
    /// The pace from the store's figures of the last five minutes. `None` if it keeps no figures,
    /// or has none for the last hour: instances of earlier releases do not count.
    pub(super) async fn present(
        tasks: &TaskSubmitService,
        task_type: &TaskType,
        now: Timestamp,
    ) -> Result<Option<Self>> {
        let hour = now.minus(Step::Hour.length());
        let figures = tasks.store().figures(task_type, Step::Minute, hour);
        let minutes = match figures.await {
            Ok(minutes) => minutes,
            Err(Error::Unsupported(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let since = Step::Minute.begin(now.minus(PRESENT));
        // A type that started two minutes ago must not appear to run at two fifths of its pace.
        let since = minutes.first().map_or(since, |first| first.at.max(since));
        let ended = |minute: &Spell| minute.figures.done + minute.figures.failed;
        let present = minutes.iter().filter(|minute| minute.at >= since);
        let ended: u64 = present.map(ended).sum();
        let over = now.since(since).max(LEAST);
        #[allow(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
        let per_second = ended as f64 / over.as_secs_f64();
        Ok((!minutes.is_empty()).then_some(Self { per_second, over }))
    }

    /// The time that `count` tasks take at this pace; `None` if nothing ends, or if it is longer
    /// than a hundred years.
    #[must_use]
    pub fn time_for(&self, count: u64) -> Option<Duration> {
        const CENTURY: f64 = 100.0 * 365.0 * 86_400.0;
        #[allow(clippy::cast_precision_loss, reason = "an estimate needs no 53 bits")]
        let seconds = count as f64 / self.per_second;
        (self.per_second > 0.0 && seconds < CENTURY).then(|| Duration::from_secs_f64(seconds))
    }
}
