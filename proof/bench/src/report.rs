//! What was measured, as tables and as JSON.

use serde_json::json;

use crate::Failure;
use crate::case::Outcome;
use crate::figure::Figure;
use crate::lateness::Lateness;
use crate::load::Size;
use crate::machine::Machine;

/// All of one run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) stores: Vec<String>,
    pub(crate) lateness: Vec<Lateness>,
    figures: Vec<Figure>,
    size: Size,
}

impl Report {
    pub(crate) fn new(machine: Machine, size: Size) -> Self {
        Self {
            machine,
            size,
            stores: Vec::new(),
            lateness: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// Adds what a case yielded, and shows it.
    pub(crate) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Figure(figure) => {
                println!("    {}", figure.line());
                self.figures.push(figure);
            }
            Outcome::Lateness(lateness) => {
                println!("    {}", lateness.line());
                self.lateness.push(lateness);
            }
        }
    }

    /// Two tables in Markdown: figures, lateness.
    pub(crate) fn tables(&self) -> String {
        let mut lines = vec![
            "| store | case | unit | goal | min | median | max | met | bare | ratio |".to_owned(),
            "|---|---|---|---|---:|---:|---:|---|---:|---:|".to_owned(),
        ];
        lines.extend(self.figures.iter().map(Figure::line));
        lines.push(String::new());
        lines.extend(Lateness::HEAD.map(str::to_owned));
        lines.extend(self.lateness.iter().map(Lateness::line));
        lines.join("\n")
    }

    /// Every sample.
    pub(crate) fn json(&self) -> Result<String, Failure> {
        let lateness: Vec<_> = self.lateness.iter().map(Lateness::json).collect();
        let report = json!({
            "machine": self.machine, "stores": self.stores, "size": self.size,
            "figures": self.figures, "lateness": lateness,
        });
        Ok(serde_json::to_string_pretty(&report)? + "\n")
    }
}
