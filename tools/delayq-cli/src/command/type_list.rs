//! `types`: one line for each type.

use std::time::Duration;

use delayq_ops::{Overview, Trouble, TypeOverview, overview_of_all};
use delayq_plugin::store::Figures;
use delayq_plugin::{TaskSubmitService, TaskType, Timestamp, TypeStats};
use serde::Serialize;

use super::figures::below;
use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::span::{per_time, relative, span};
use crate::text::{BAD, STRONG, styled, table};

/// A type and its numbers, which come from counts of the store, without reading tasks.
#[derive(Debug, Serialize)]
pub(super) struct TypeLine {
    #[serde(rename = "type")]
    pub(super) task_type: TaskType,
    #[serde(flatten)]
    pub(super) stats: TypeStats,
    /// How long the first due task has been due, ms.
    pub(super) oldest_due_ms: u64,
    /// The number of running instances that may serve it.
    pub(super) served_by: usize,
    /// The figures of the last minutes; `None` if the store keeps no figures.
    pub(super) recent: Option<Figures>,
    /// Tasks done per second in that time.
    pub(super) done_per_second: Option<f64>,
    pub(super) late_p50_ms: Option<u64>,
    pub(super) late_p99_ms: Option<u64>,
    pub(super) troubles: Vec<Trouble>,
}

/// The lines of an overview.
pub(super) fn lines(overview: Overview) -> Vec<TypeLine> {
    overview.types.into_iter().map(TypeLine::from).collect()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl From<TypeOverview> for TypeLine {
    fn from(seen: TypeOverview) -> Self {
        let late = |q| {
            let recent = seen.recent.as_ref()?;
            recent.lateness.quantile(q).map(millis)
        };
        Self {
            oldest_due_ms: millis(seen.stats.oldest_age()),
            served_by: seen.serving,
            done_per_second: seen.rate(),
            late_p50_ms: late(0.5),
            late_p99_ms: late(0.99),
            recent: seen.recent,
            task_type: seen.task_type,
            stats: seen.stats,
            troubles: seen.troubles,
        }
    }
}

impl TypeLine {
    /// Its problems in words; empty if there are none. Dead tasks have their own column.
    fn state(&self) -> String {
        let worse = self.troubles.iter().map(|trouble| match trouble {
            Trouble::Paused => self.pause(),
            Trouble::Dead => String::new(),
            trouble => styled(BAD, trouble.as_str()),
        });
        let words: Vec<_> = worse.filter(|word| !word.is_empty()).collect();
        words.join(", ")
    }

    fn pause(&self) -> String {
        match self.stats.paused_until {
            None => String::new(),
            Some(Timestamp::MAX) => "paused until resumed".to_owned(),
            Some(until) => format!("paused, ends {}", relative(until, self.stats.now)),
        }
    }

    /// How long the first due task has been due; empty if none is due.
    pub(super) fn oldest(&self) -> String {
        match self.stats.due {
            0 => String::new(),
            _ => span(self.stats.oldest_age()),
        }
    }

    /// The pace of the last minutes; a dash if it is not known.
    pub(super) fn pace(&self) -> String {
        self.done_per_second.map_or("-".to_owned(), per_time)
    }

    /// The lateness below which half of the starts were in the last minutes, and that of 99 of a
    /// hundred.
    pub(super) fn lateness(&self) -> [String; 2] {
        [self.late_p50_ms, self.late_p99_ms]
            .map(|ms| ms.map_or("-".to_owned(), |ms| below(Duration::from_millis(ms))))
    }

    /// True if it has this problem.
    pub(super) fn is(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }

    /// True if tasks are waiting that no instance will run.
    fn is_unserved(&self) -> bool {
        self.served_by == 0 && self.stats.scheduled > 0
    }
}

/// Runs the command.
pub(super) async fn run(tasks: &TaskSubmitService) -> Result<CommandResult, Failure> {
    let overview = overview_of_all(tasks).await?;
    let count = overview.type_count;
    let lines = lines(overview);
    let heads = [
        "TYPE",
        "SCHEDULED",
        "DUE",
        "OLDEST DUE",
        "RUNNING",
        "DEAD",
        "DONE",
        "LATE p50",
        "p99",
        "SERVED BY",
        "STATE",
    ];
    let mut table = table(&heads);
    for line in &lines {
        let stats = &line.stats;
        let dead = match stats.dead {
            0 => "0".to_owned(),
            dead => styled(BAD, dead),
        };
        let servers = match line.served_by {
            0 if line.is_unserved() => styled(BAD, "nobody"),
            servers => servers.to_string(),
        };
        let [half, most] = line.lateness();
        table.add_row([
            styled(STRONG, &line.task_type),
            stats.scheduled.to_string(),
            stats.due.to_string(),
            line.oldest(),
            stats.running.to_string(),
            dead,
            line.pace(),
            half,
            most,
            servers,
            line.state(),
        ]);
    }
    let mut text = if lines.is_empty() {
        "no types: nothing was sent to this store and namespace yet".to_owned()
    } else {
        table.to_string()
    };
    if count > lines.len() {
        let shown = lines.len();
        text += &format!("\n{shown} of {count} types are shown: `delayq stats TYPE` shows one");
    }
    CommandResult::new(text, lines)
}
