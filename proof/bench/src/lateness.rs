//! How late tasks start that another process has sent.

use std::time::Duration;

use delayq_plugin::{DelayQueueJob, hours};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::Failure;
use crate::child::{Child, Role};
use crate::figure::met;
use crate::load::{Message, Size, TASK_TYPE};
use crate::sender::Pace;
use crate::stage::{Place, Stage, end};
use crate::worker::Stopwatch;

/// What the other process sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// So many tasks a second, due 1 to 5 s later.
    Steady(u32),
    /// A task now and then that is due soon, while the handler sleeps and waits for another one
    /// that is due in an hour. It is due sooner than the handler polls, so that only a wake-up
    /// finds it in time.
    Sooner,
}

/// Tasks of [`Load::Sooner`] a second: the one before has run and is settled when the next is sent.
const SOONER_PER_SECOND: u32 = 4;

impl Load {
    fn pace(self, size: &Size) -> Result<Pace, Failure> {
        let steady = |rate: u32, span: Duration| usize::try_from(u64::from(rate) * span.as_secs());
        Ok(match self {
            Self::Steady(per_second) => Pace {
                per_second,
                count: steady(per_second, size.span)?,
                delays_ms: 1_000..=5_000,
            },
            Self::Sooner => Pace {
                per_second: SOONER_PER_SECOND,
                count: size.sooner,
                delays_ms: 20..=200,
            },
        })
    }

    pub(crate) fn label(self) -> String {
        match self {
            Self::Steady(rate) => format!("{rate} tasks/s"),
            Self::Sooner => "a sooner task".to_owned(),
        }
    }

    fn goal(self, place: Place) -> Goal {
        let none = Goal::default();
        match (place, self) {
            (Place::Postgres, Self::Steady(_)) => Goal {
                p50: Some(3.0),
                p99: Some(10.0),
                ..none
            },
            (_, Self::Steady(5)) => Goal {
                p50: Some(1.5),
                p99: Some(3.0),
                max: Some(20.0),
            },
            (Place::Redis, Self::Steady(2_000)) => Goal {
                p99: Some(3.0),
                ..none
            },
            (Place::Redis, Self::Steady(20_000)) => Goal {
                p99: Some(10.0),
                ..none
            },
            (Place::Redis, Self::Sooner) => Goal {
                max: Some(5.0),
                ..none
            },
            _ => none,
        }
    }
}

/// The most that lateness should be, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Goal {
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Goal {
    fn parts(self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let all = [
            ("p50", 50.0, self.p50),
            ("p99", 99.0, self.p99),
            ("max", 100.0, self.max),
        ];
        all.into_iter()
            .filter_map(|(name, percentile, limit)| Some((name, percentile, limit?)))
    }

    fn text(self) -> String {
        let parts = self
            .parts()
            .map(|(name, _, limit)| format!("{name} <= {limit}"));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// One early task breaks any goal, and where there is none, too.
    fn is_met(self, lateness: &Lateness) -> Option<bool> {
        if lateness.early > 0 {
            return Some(false);
        }
        let within =
            |(_, percentile, limit): (_, f64, f64)| lateness.percentile_ms(percentile) <= limit;
        self.parts().next()?;
        Some(self.parts().all(within))
    }
}

/// What is later than an hour counts as an hour late.
const LONGEST_US: u64 = 3_600_000_000;

/// The start times of tasks against their due times.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    pub(crate) place: Place,
    pub(crate) load: Load,
    /// In µs; what started early is not in it.
    pub(crate) histogram: Histogram<u64>,
    /// How many tasks started before they were due. One is a defect.
    pub(crate) early: u64,
    /// The least lateness of all.
    min_us: i64,
}

impl Lateness {
    pub(crate) fn new(place: Place, load: Load) -> Result<Self, Failure> {
        let histogram = Histogram::new_with_max(LONGEST_US, 3)?;
        Ok(Self {
            place,
            load,
            histogram,
            early: 0,
            min_us: i64::MAX,
        })
    }

    pub(crate) fn record(&mut self, late_us: i64) {
        self.min_us = self.min_us.min(late_us);
        match u64::try_from(late_us) {
            Ok(us) => self.histogram.saturating_record(us),
            Err(_) => self.early += 1,
        }
    }

    pub(crate) fn percentile_ms(&self, percentile: f64) -> f64 {
        thousandth(self.histogram.value_at_percentile(percentile))
    }

    /// The line of a Markdown table with the head [`Self::HEAD`].
    pub(crate) fn line(&self) -> String {
        let goal = self.load.goal(self.place);
        let (store, load) = (self.place.name(), self.load.label());
        let (tasks, early) = (self.histogram.len() + self.early, self.early);
        #[allow(clippy::cast_precision_loss, reason = "lateness is far below 2^52 µs")]
        let min = self.min_us as f64 / 1_000.0;
        let percentiles = [50.0, 90.0, 99.0, 99.9, 100.0]
            .map(|percentile| format!("{:.2}", self.percentile_ms(percentile)));
        let (percentiles, text) = (percentiles.join(" | "), goal.text());
        let met = met(goal.is_met(self));
        format!(
            "| {store} | {load} | {tasks} | {text} | {early} | {min:.2} | {percentiles} | {met} |"
        )
    }

    /// The head of the table; times are in ms.
    pub(crate) const HEAD: [&str; 2] = [
        "| store | load | tasks | goal, ms | early | min | p50 | p90 | p99 | p99.9 | max | met |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ];

    pub(crate) fn json(&self) -> Value {
        let counts = self.histogram.iter_recorded();
        let counts: Vec<_> = counts
            .map(|v| (v.value_iterated_to(), v.count_at_value()))
            .collect();
        json!({
            "store": self.place.name(), "load": self.load.label(),
            "tasks": self.histogram.len() + self.early, "early": self.early,
            "min_us": self.min_us, "max_us": self.histogram.max(),
            "p50_ms": self.percentile_ms(50.0), "p90_ms": self.percentile_ms(90.0),
            "p99_ms": self.percentile_ms(99.0), "p999_ms": self.percentile_ms(99.9),
            "counts_by_us": counts,
        })
    }
}

/// Milliseconds of microseconds, or these of nanoseconds.
#[allow(clippy::cast_precision_loss, reason = "times are far below 2^52 ns")]
pub(crate) fn thousandth(number: u64) -> f64 {
    number as f64 / 1_000.0
}

/// Lets another process send, and waits for the last task.
pub(crate) async fn measure(stage: &Stage, load: Load, size: &Size) -> Result<Lateness, Failure> {
    let pace = load.pace(size)?;
    let watch = Stopwatch::new(Lateness::new(stage.place, load)?, pace.count);
    let here = stage.site().await?;
    let plugin = here.clone().plugin(watch.clone()).await?;
    if load == Load::Sooner {
        let far = DelayQueueJob::new(TASK_TYPE, &Message::new(0))?.after(hours(1));
        plugin.submit_service().send(far).await?;
    }
    let sender = Child::start(&Role::Sender { site: here, pace })?;
    tokio::try_join!(sender.end(), watch.counter.wait())?;
    end(plugin).await;
    Ok(watch.lateness())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lateness(here: Place, load: Load, late_us: &[i64]) -> Lateness {
        let mut lateness = Lateness::new(here, load).unwrap();
        for us in late_us {
            lateness.record(*us);
        }
        lateness
    }

    #[test]
    fn an_early_start_is_counted_and_never_hidden_by_the_histogram() {
        let lateness = lateness(Place::Memory, Load::Steady(1), &[3_100, 0, -1]);
        assert_eq!(
            (lateness.early, lateness.min_us, lateness.histogram.len()),
            (1, -1, 2)
        );
        assert_eq!(lateness.json()["tasks"], 3);
        assert!(lateness.line().contains("**no**"), "{}", lateness.line());
    }

    #[test]
    fn what_is_very_late_is_not_taken_for_punctual() {
        let lateness = lateness(Place::Memory, Load::Steady(1), &[4_000_000, i64::MAX]);
        assert!(lateness.percentile_ms(50.0) >= 4_000.0);
        assert!(lateness.percentile_ms(100.0) >= 3_600_000.0);
    }

    #[test]
    fn a_line_shows_fractions_of_a_ms_and_whether_each_limit_is_kept() {
        let idle = Load::Steady(5);
        let punctual = lateness(Place::Redis, idle, &[400, 410, 1_490]);
        assert_eq!(
            punctual.line(),
            "| redis | 5 tasks/s | 3 | p50 <= 1.5, p99 <= 3, max <= 20 | 0 | 0.40 | 0.41 | 1.49 | 1.49 | 1.49 | 1.49 | yes |"
        );
        for late in [[400, 1_600, 1_700], [400, 410, 3_100]] {
            let line = lateness(Place::Redis, idle, &late).line();
            assert!(line.contains("**no**"), "{line}");
        }
        let without_goal = lateness(Place::Redis, Load::Steady(500), &[2_000]).line();
        assert!(without_goal.ends_with("| 2.00 |  |"), "{without_goal}");
    }

    #[test]
    fn every_load_of_a_full_run_has_a_pace() {
        let count = |load: Load| load.pace(&Size::FULL).unwrap().count;
        assert_eq!(count(Load::Steady(20_000)), 600_000);
        assert_eq!(count(Load::Sooner), 200);
    }
}
