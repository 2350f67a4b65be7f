//! Table of what was run: name, duration, result.

use std::time::{Duration, Instant};

/// One line.
#[derive(Debug)]
struct Row {
    name: String,
    verdict: String,
    took: Duration,
}

/// Lines in the order of the runs.
#[derive(Debug)]
pub(crate) struct Table {
    title: &'static str,
    rows: Vec<Row>,
}

impl Default for Table {
    fn default() -> Self {
        Self::of("step")
    }
}

impl Table {
    /// An empty one of these things.
    pub(crate) fn of(title: &'static str) -> Self {
        Self {
            title,
            rows: Vec::new(),
        }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, name: &str, verdict: impl Into<String>, took: Duration) {
        self.rows.push(Row {
            name: name.to_owned(),
            verdict: verdict.into(),
            took,
        });
    }

    /// Runs a part, and adds its line.
    pub(crate) fn time<T, E>(
        &mut self,
        name: &str,
        part: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let started = Instant::now();
        let result = part();
        let verdict = if result.is_ok() { "passed" } else { "FAILED" };
        self.add(name, verdict, started.elapsed());
        result
    }

    /// Prints it with the total.
    pub(crate) fn print(&self) {
        let width = self.print_lines();
        let total: Duration = self.rows.iter().map(|row| row.took).sum();
        println!("{:width$}  {:>8.1}", "total", total.as_secs_f64());
    }

    /// Prints it without the total, of parts that ran beside each other. Returns the width of the
    /// first column.
    pub(crate) fn print_lines(&self) -> usize {
        let names = self.rows.iter().map(|row| row.name.len());
        let width = names.chain([self.title.len()]).max().unwrap_or(0);
        println!("\n{:width$}  {:>8}  result", self.title, "seconds");
        for row in &self.rows {
            let seconds = row.took.as_secs_f64();
            println!("{:width$}  {seconds:>8.1}  {}", row.name, row.verdict);
        }
        width
    }
}
