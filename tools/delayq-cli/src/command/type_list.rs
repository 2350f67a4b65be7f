//! `types`: one line for each type.

use std::time::Duration;

use clap::Args;
use delayq_ops::{Overview, Trouble, TypeOverview, known_types, overview_of};
use delayq_plugin::store::Figures;
use delayq_plugin::{Namespace, TaskSubmitService, TaskType, Timestamp, TypeStats};
use serde::Serialize;

use super::figures::below;
use crate::answer::{CommandResult, Report};
use crate::failure::Failure;
use crate::paging::{self, Paging};
use crate::span::{per_time, relative, span};
use crate::table::{Column, Table, column};
use crate::text::{BAD, STRONG, styled};

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

/// The types to list.
#[derive(Debug, Args)]
pub(crate) struct TypesArgs {
    /// The types, as a pattern such as `mail.*`, or one; default: all.
    #[arg(value_name = "TYPE", default_value = "*")]
    types: String,
    #[command(flatten)]
    paging: Paging,
}

/// The columns of the table.
const COLUMNS: [Column; 11] = [
    column("TYPE"),
    column("SCHEDULED"),
    column("DUE"),
    column("OLDEST DUE").minor(1),
    column("RUNNING").minor(2),
    column("DEAD"),
    column("DONE").wide(),
    column("LATE p50").wide(),
    column("LATE p99").wide(),
    column("SERVED BY").minor(3),
    column("STATE").text(),
];

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &TypesArgs,
) -> Result<CommandResult, Failure> {
    let listed = tasks.types().await?;
    if listed.is_empty() {
        return nothing(tasks);
    }
    let types = match args.types.as_str() {
        "*" => listed,
        types => known_types(tasks, types).await?,
    };
    let (page, next) = args.paging.page(types, ToString::to_string);
    let lines = lines(overview_of(tasks, page).await?);
    let mut table = Table::new(&COLUMNS);
    for line in &lines {
        table.row(cells(line));
    }
    let report = match &next {
        Some(next) => Report::from(table).lines(paging::more(next)),
        None => Report::from(table),
    };
    CommandResult::new(report, lines)
}

/// The answer of an empty namespace. One that was named, and has nothing, is probably a slip.
fn nothing(tasks: &TaskSubmitService) -> Result<CommandResult, Failure> {
    let namespace = tasks.store().namespace().cloned().unwrap_or_default();
    if namespace != Namespace::default() {
        let text = format!("there is no task type in namespace {namespace} of this store");
        return Err(Failure::refused(text));
    }
    let text = "no types: nothing was sent to this store and namespace yet";
    CommandResult::new(text, serde_json::json!([]))
}

fn cells(line: &TypeLine) -> [String; 11] {
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
    [
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
    ]
}
