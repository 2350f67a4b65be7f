//! A histogram with the buckets of the original.

use std::fmt::Write;

/// How often which length of time was seen.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    /// Upper bounds in milliseconds, and how many were not above each.
    buckets: Vec<(f64, u64)>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn new(factor: f64, count: i32) -> Self {
        let bounds = (0..count).map(|power| 15.0 * factor.powi(power));
        Self {
            buckets: bounds.map(|bound| (bound, 0)).collect(),
            sum: 0.0,
            count: 0,
        }
    }

    /// Of requests.
    pub(super) fn of_requests() -> Self {
        Self::new(2.5, 9)
    }

    /// Of jobs.
    pub(super) fn of_jobs() -> Self {
        Self::new(3.5, 7)
    }

    pub(super) fn observe(&mut self, ms: f64) {
        for (bound, count) in &mut self.buckets {
            *count += u64::from(ms <= *bound);
        }
        self.sum += ms;
        self.count += 1;
    }

    pub(super) fn render(&self, name: &str, labels: &str, text: &mut String) {
        for (bound, count) in &self.buckets {
            writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}").ok();
        }
        let (sum, count) = (self.sum, self.count);
        writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}").ok();
        writeln!(text, "{name}_sum{{{labels}}} {sum}").ok();
        writeln!(text, "{name}_count{{{labels}}} {count}").ok();
    }
}
