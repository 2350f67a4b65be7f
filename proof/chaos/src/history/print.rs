//! The history of a task, for people.

use std::fmt::Write;

use super::{History, NEVER, Row};

impl History {
    /// One line a row: milliseconds since `origin_ns`, the process, what.
    #[must_use]
    pub fn line(&self, row: &Row, origin_ns: u64) -> String {
        let mut line = format!("{:>12} ms", ms(row.from, origin_ns));
        if row.to == NEVER {
            line.push_str(" .. (no answer)");
        } else if row.to != row.from {
            let _infallible = write!(line, " .. {} ms", ms(row.to, origin_ns));
        }
        if let Some(process) = self.process_of(row) {
            let _infallible = write!(line, "  {}.{}", process.name, process.incarnation);
        }
        let _infallible = write!(line, "  {:?}", row.step);
        line
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "for people: microseconds are enough"
)]
fn ms(at_ns: u64, origin_ns: u64) -> String {
    format!(
        "{:.3}",
        (i128::from(at_ns) - i128::from(origin_ns)) as f64 / 1e6
    )
}
