//! The data of a type's charts.

use std::time::Duration;

use delayq_plugin::Timestamp;
use delayq_plugin::store::{Figures, Spell};
use serde::Serialize;

use crate::look::Range;

/// The values, point by point; spans are in seconds.
#[derive(Default, Serialize)]
pub(super) struct Series {
    unit: &'static str,
    at: Vec<i64>,
    done: Vec<u64>,
    failed: Vec<u64>,
    late_p50: Vec<Option<f64>>,
    late_p99: Vec<Option<f64>>,
    run_mean: Vec<Option<f64>>,
    run_longest: Vec<Option<f64>>,
}

impl Series {
    /// The complete points of the range. Counts are zero where nothing happened.
    pub(super) fn read(range: Range, spells: &[Spell], now: Timestamp) -> Self {
        let (step, point) = (range.step(), range.point());
        let mut series = Self {
            unit: if range == Range::Month { "h" } else { "min" },
            ..Self::default()
        };
        let end = step.begin(now);
        let mut at = end.minus(range.span());
        let mut spells = spells.iter().peekable();
        while at < end {
            let next = at.plus(point);
            let mut sum = Figures::default();
            while let Some(spell) = spells.next_if(|spell| spell.at < next) {
                if spell.at >= at {
                    sum += &spell.figures;
                }
            }
            series.push(at, &sum);
            at = next;
        }
        series
    }

    fn push(&mut self, at: Timestamp, figures: &Figures) {
        // Twice the bound where there is none: the page's script shows it as "at least".
        let late = |q| {
            let beyond = if figures.lateness.is_beyond(q) { 2 } else { 1 };
            figures
                .lateness
                .quantile(q)
                .map(|late| seconds(late * beyond))
        };
        let mean = figures.mean_run();
        let longest = mean.map(|_| Duration::from_millis(figures.longest_run_ms));
        self.at.push(at.as_millis() / 1_000);
        self.done.push(figures.done);
        self.failed.push(figures.failed);
        self.late_p50.push(late(0.5));
        self.late_p99.push(late(0.99));
        self.run_mean.push(mean.map(seconds));
        self.run_longest.push(longest.map(seconds));
    }

    /// The JSON for the page's attribute.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use delayq_plugin::minutes;
    use delayq_plugin::store::Step;

    use super::*;

    #[test]
    fn a_series_has_a_point_for_each_minute_that_is_over() {
        let now = Timestamp::from_millis(1_767_268_830_000);
        let spell = |ago| {
            let mut figures = Figures::default();
            figures.done = 7;
            figures.lateness.add(1, 1);
            let at = Step::Minute.begin(now).minus(minutes(ago));
            Spell { at, figures }
        };
        let spells = [90, 60, 2, 0].map(spell);
        let series = Series::read(Range::Hour, &spells, now);
        assert_eq!((series.at.len(), series.done.iter().sum::<u64>()), (60, 14));
        assert_eq!(
            (series.done[0], series.done[58], series.done[59]),
            (7, 7, 0)
        );
        assert_eq!(
            (series.late_p50[58], series.late_p50[59]),
            (Some(0.002), None)
        );
    }
}
