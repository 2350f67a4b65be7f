//! `types`: one line a type.

use delayq_plugin::{InstanceInfo, Result, TaskSubmitService, TaskType, Timestamp, TypeStats};
use serde::Serialize;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::span::{relative, span};
use crate::text::{BAD, STRONG, styled, table};

/// A type and its numbers. They come from counts of the store, which reads no task for them.
#[derive(Debug, Serialize)]
pub(super) struct TypeLine {
    #[serde(rename = "type")]
    pub(super) task_type: TaskType,
    #[serde(flatten)]
    pub(super) stats: TypeStats,
    /// How long the first due task has been due, ms.
    pub(super) oldest_due_ms: u64,
    /// How many running instances name it.
    pub(super) served_by: usize,
    /// Whether an instance serves more types than it names, so that `served_by` may be too small.
    pub(super) is_served_by_exact: bool,
}

/// All types of the store with their numbers.
pub(super) async fn read(tasks: &TaskSubmitService) -> Result<Vec<TypeLine>> {
    let instances = tasks.instances().await?;
    let mut lines = Vec::new();
    for task_type in tasks.types().await? {
        let stats = tasks.stats(task_type.as_str()).await?;
        lines.push(TypeLine::new(task_type, stats, &instances));
    }
    Ok(lines)
}

impl TypeLine {
    fn new(task_type: TaskType, stats: TypeStats, instances: &[InstanceInfo]) -> Self {
        let names = |instance: &&InstanceInfo| instance.types.contains(&task_type);
        let oldest = stats.oldest_age().as_millis();
        Self {
            served_by: instances.iter().filter(names).count(),
            is_served_by_exact: instances
                .iter()
                .all(|one| one.type_count == one.types.len()),
            oldest_due_ms: u64::try_from(oldest).unwrap_or(u64::MAX),
            task_type,
            stats,
        }
    }

    /// `no`, `until ..` or nothing.
    pub(super) fn pause(&self) -> String {
        match self.stats.paused_until {
            None => String::new(),
            Some(Timestamp::MAX) => "until resumed".to_owned(),
            Some(until) => relative(until, self.stats.now),
        }
    }

    /// How long the first due task has been due; nothing when none is.
    pub(super) fn oldest(&self) -> String {
        match self.stats.due {
            0 => String::new(),
            _ => span(self.stats.oldest_age()),
        }
    }

    /// How many instances serve it, as text: `3`, `1+`.
    pub(super) fn servers(&self) -> String {
        let more = if self.is_served_by_exact { "" } else { "+" };
        format!("{}{more}", self.served_by)
    }

    /// Whether tasks wait that nobody will run.
    pub(super) fn is_unserved(&self) -> bool {
        self.is_served_by_exact && self.served_by == 0 && self.stats.scheduled > 0
    }
}

/// Runs the command.
pub(super) async fn run(tasks: &TaskSubmitService) -> Result<Answer, Failure> {
    let lines = read(tasks).await?;
    let heads = [
        "TYPE",
        "SCHEDULED",
        "DUE",
        "RUNNING",
        "DEAD",
        "OLDEST DUE",
        "PAUSED",
        "SERVED BY",
    ];
    let mut table = table(&heads);
    for line in &lines {
        let stats = &line.stats;
        let dead = match stats.dead {
            0 => "0".to_owned(),
            dead => styled(BAD, dead),
        };
        let servers = if line.is_unserved() {
            styled(BAD, "nobody")
        } else {
            line.servers()
        };
        table.add_row([
            styled(STRONG, &line.task_type),
            stats.scheduled.to_string(),
            stats.due.to_string(),
            stats.running.to_string(),
            dead,
            line.oldest(),
            line.pause(),
            servers,
        ]);
    }
    let text = if lines.is_empty() {
        "no types: nothing was sent to this store and namespace yet".to_owned()
    } else {
        table.to_string()
    };
    Answer::new(text, lines)
}
