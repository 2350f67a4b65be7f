//! How late tasks start when they come at a steady rate.

use std::time::Duration;

use delayq_plugin::DelayQueueJob;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::Failure;
use crate::load::{Message, TASK_TYPE};
use crate::stage::{Place, Stage, end};
use crate::worker::Stopwatch;

/// Tasks are due so many ms after they are sent, spread evenly.
const DELAYS_MS: std::ops::RangeInclusive<u64> = 1_000..=5_000;
/// How often the sender wakes up; it then sends what has become due to be sent.
const TICK: Duration = Duration::from_millis(10);

/// The start times of tasks against their due times.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    pub(crate) place: Place,
    /// Tasks sent a second.
    pub(crate) rate: u32,
    /// In ms; what started early is not in it.
    pub(crate) histogram: Histogram<u64>,
    /// How many tasks started before they were due. One is a defect.
    pub(crate) early: u64,
    /// The least lateness of all.
    pub(crate) min_ms: i64,
}

impl Lateness {
    pub(crate) fn new(place: Place, rate: u32) -> Result<Self, Failure> {
        let histogram = Histogram::new(3)?;
        Ok(Self {
            place,
            rate,
            histogram,
            early: 0,
            min_ms: i64::MAX,
        })
    }

    pub(crate) fn record(&mut self, late_ms: i64) {
        self.min_ms = self.min_ms.min(late_ms);
        match u64::try_from(late_ms) {
            Ok(ms) => self.histogram.saturating_record(ms),
            Err(_) => self.early += 1,
        }
    }

    pub(crate) fn percentile_ms(&self, percentile: f64) -> u64 {
        self.histogram.value_at_percentile(percentile)
    }

    pub(crate) fn json(&self) -> Value {
        let counts = self.histogram.iter_recorded();
        let counts: Vec<_> = counts
            .map(|v| (v.value_iterated_to(), v.count_at_value()))
            .collect();
        json!({
            "store": self.place.name(), "rate": self.rate, "tasks": self.histogram.len() + self.early,
            "early": self.early, "min_ms": self.min_ms, "max_ms": self.histogram.max(),
            "p50_ms": self.percentile_ms(50.0), "p90_ms": self.percentile_ms(90.0),
            "p99_ms": self.percentile_ms(99.0), "p999_ms": self.percentile_ms(99.9),
            "counts_by_ms": counts,
        })
    }
}

/// Sends `rate` tasks a second for `span`, whether or not the store keeps up, and waits for the last one.
pub(crate) async fn measure(stage: &Stage, rate: u32, span: Duration) -> Result<Lateness, Failure> {
    let count = usize::try_from(u64::from(rate) * span.as_secs())?;
    let watch = Stopwatch::new(Lateness::new(stage.place, rate)?, count);
    let plugin = stage.site().await?.plugin(watch.clone()).await?;
    let started = Instant::now();
    let gap = Duration::from_secs(1) / rate;
    let mut senders = JoinSet::new();
    for number in 0..count {
        let send_at = started + gap * u32::try_from(number)?;
        if Instant::now() < send_at {
            sleep_until(send_at.max(Instant::now() + TICK)).await;
        }
        let tasks = plugin.submit_service();
        let delay = Duration::from_millis(fastrand::u64(DELAYS_MS));
        let job = DelayQueueJob::new(TASK_TYPE, &Message::new(number))?.after(delay);
        senders.spawn(async move { tasks.send(job).await });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    watch.counter.wait().await?;
    end(plugin).await;
    Ok(watch.lateness())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_start_is_counted_and_never_hidden_by_the_histogram() {
        let mut lateness = Lateness::new(Place::Memory, 1).unwrap();
        for ms in [3, 0, -1] {
            lateness.record(ms);
        }
        assert_eq!(
            (lateness.early, lateness.min_ms, lateness.histogram.len()),
            (1, -1, 2)
        );
        assert_eq!(lateness.json()["tasks"], 3);
    }
}
