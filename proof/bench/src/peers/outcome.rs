//! What a process printed about its case.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One case of one contender, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Tasks a second.
    Rate(f64),
    /// Bytes a task.
    Bytes(f64),
    /// What the server has counted for each task.
    Each(f64),
    LatenessUs(Starts),
    Herd(Starts),
    /// It has no such call.
    Unsupported(String),
    /// It did not come to the end in time.
    Stopped(String),
    /// It ended with an error, or hung.
    Failed(String),
}

/// When tasks started against when they were due, in µs; `None` when none has started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Starts {
    pub(crate) tasks: u64,
    /// Tasks that started.
    pub(crate) ran: u64,
    /// Starts of a task that had started before.
    pub(crate) repeats: u64,
    pub(crate) early: u64,
    pub(crate) min: Option<i64>,
    pub(crate) p50: Option<i64>,
    pub(crate) p90: Option<i64>,
    pub(crate) p99: Option<i64>,
    pub(crate) max: Option<i64>,
    /// Why the worker ended by itself.
    #[serde(default)]
    pub(crate) ended: Option<String>,
    /// Of a herd: whether all were sent before they were due.
    #[serde(default)]
    pub(crate) sent_in_time: Option<bool>,
}

impl Outcome {
    /// The last line that the process printed.
    pub(crate) fn of(output: &str) -> Option<Self> {
        serde_json::from_str(output.lines().last()?).ok()
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Rate(number) | Self::Bytes(number) | Self::Each(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn starts(&self) -> Option<&Starts> {
        match self {
            Self::LatenessUs(starts) | Self::Herd(starts) => Some(starts),
            _ => None,
        }
    }

    /// Why there is no figure.
    pub(crate) fn remark(&self) -> Option<String> {
        match self {
            Self::Unsupported(why) => Some(why.clone()),
            Self::Stopped(why) => Some(format!("**stopped**: {why}")),
            Self::Failed(why) => Some(format!("**failed**: {why}")),
            Self::Rate(_)
            | Self::Bytes(_)
            | Self::Each(_)
            | Self::LatenessUs(_)
            | Self::Herd(_) => None,
        }
    }
}

impl Starts {
    /// The cells of a table: how many, and when, in ms.
    pub(crate) fn cells(&self) -> [String; 9] {
        let [min, p50, p90, p99, max] = [self.min, self.p50, self.p90, self.p99, self.max].map(ms);
        let (tasks, ran) = (
            self.tasks.to_string(),
            marked(self.ran, self.ran < self.tasks),
        );
        let repeats = marked(self.repeats, self.repeats > 0);
        let early = marked(self.early, self.early > 0);
        [tasks, ran, repeats, early, min, p50, p90, p99, max]
    }
}

/// Bold when it should not be so.
fn marked(count: u64, is_bad: bool) -> String {
    if is_bad {
        format!("**{count}**")
    } else {
        count.to_string()
    }
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
fn ms(us: Option<i64>) -> String {
    us.map_or_else(String::new, |us| format!("{:.1}", us as f64 / 1_000.0))
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(number) = self.number() {
            return write!(f, "{number:.0}");
        }
        match (self.starts(), self.remark()) {
            (Some(starts), _) => {
                let [tasks, ran, repeats, early, min, p50, p90, p99, max] = starts.cells();
                write!(
                    f,
                    "{ran} of {tasks} ran, {repeats} repeated, {early} early, ms: "
                )?;
                write!(f, "{min} / {p50} / {p90} / {p99} / {max}")
            }
            (None, remark) => f.write_str(&remark.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_prints_is_understood() {
        assert_eq!(Outcome::of("{\"rate\":12.5}\n"), Some(Outcome::Rate(12.5)));
        let stopped = Outcome::of("a warning\n{\"stopped\":\"3 of 9 ran\"}").unwrap();
        assert_eq!(stopped.remark().as_deref(), Some("**stopped**: 3 of 9 ran"));
        let starts = r#"{"lateness_us":{"tasks":3,"ran":2,"repeats":0,"early":1,"min":-1500,
            "p50":-1500,"p90":250,"p99":250,"max":250}}"#
            .replace('\n', "");
        let starts = Outcome::of(&starts).unwrap();
        assert_eq!(
            starts.to_string(),
            "**2** of 3 ran, 0 repeated, **1** early, ms: -1.5 / -1.5 / 0.2 / 0.2 / 0.2"
        );
        assert_eq!(Outcome::of("no JSON"), None);
    }
}
