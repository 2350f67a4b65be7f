//! Findings of a check of a store.

use std::borrow::Cow;

use delayq_plugin::{TaskId, TaskType};
use serde::Serialize;

/// The command that mends the structure of all types.
pub(super) const REPAIR: &str = "delayq audit --repair";

/// One problem, or possible problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The kind of problem.
    pub symptom: Symptom,
    /// The type concerned; `None` for the store or its instances.
    pub task_type: Option<TaskType>,
    /// The finding, with its figures.
    pub found: String,
    /// The reason why it matters.
    pub why: String,
    /// The action to take, or the line to change.
    pub fix: String,
    /// The command of a shell that does it, or that shows what there is to decide, such as
    /// `delayq resume report.nightly`; `None` if none helps.
    pub command: Option<String>,
    /// The task concerned, of several the one that waits longest or lost most locks.
    pub task_id: Option<TaskId>,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        symptom: Symptom,
        found: String,
        why: &str,
        fix: &str,
    ) -> Self {
        Self {
            severity,
            symptom,
            task_type: None,
            found,
            why: why.to_owned(),
            fix: fix.to_owned(),
            command: None,
            task_id: None,
        }
    }

    /// The same finding, about a type.
    pub(super) fn of_type(mut self, task_type: &TaskType) -> Self {
        self.found = format!("{task_type}: {}", self.found);
        self.task_type = Some(task_type.clone());
        self
    }

    /// The same finding of the store, at a look at one type: a repair of all is one of this type.
    pub(super) fn about(mut self, task_type: &TaskType) -> Self {
        if self.command.as_deref() == Some(REPAIR) {
            self.command = Some(format!("delayq audit {task_type} --repair"));
        }
        self.of_type(task_type)
    }

    /// The same finding, with a command.
    pub(super) fn with_command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// The same finding, about a task, with a command that takes its type and its id.
    pub(super) fn of_task(mut self, verb: &str, task_type: &TaskType, id: &TaskId) -> Self {
        self.command = Some(format!("delayq {verb} {task_type} {}", quoted(id.as_str())));
        self.task_id = Some(id.clone());
        self
    }
}

/// The text, such as an id, as one word of a shell.
#[must_use]
pub fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', "'\\''")))
}

/// The severity of a finding; a larger one is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Tasks are late, or need somebody's attention.
    Warning,
    /// Tasks do not start, are refused, or are not as safe as promised.
    Error,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Symptom {
    /// The store cannot be reached, or its settings or data break a promise.
    Store,
    /// The store keeps tasks in memory only.
    Volatile,
    /// It becomes a problem of the store later.
    Concern,
    /// The clocks of this host and of the store differ by more than 500 ms.
    Clocks,
    /// Instances of several releases run.
    Versions,
    /// No announced instance serves a type with scheduled tasks.
    Unserved,
    /// A paused type has due tasks.
    Paused,
    /// The first task of a served type has been due for more than a minute.
    Overdue,
    /// A type has dead tasks.
    Dead,
    /// A type has reached its limit of scheduled tasks.
    Full,
    /// Locks remain after their expiry, or belong to instances that are gone.
    Locks,
    /// Processes end without an orderly stop, again and again: a task lost its lock several times,
    /// or a host has several instances that fell silent.
    Crashes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_word_of_a_shell() {
        assert_eq!(quoted("order-42"), "order-42");
        assert_eq!(quoted("a'b;$(c)"), r"'a'\''b;$(c)'");
        assert_eq!(quoted("-rf"), "'-rf'");
    }
}
