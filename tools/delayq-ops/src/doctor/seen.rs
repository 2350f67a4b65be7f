//! What was seen of a type, and its problems.

use std::time::Duration;

use delayq_plugin::store::{MAX_INSTANCES, serving};
use delayq_plugin::{
    InstanceInfo, Result, TaskId, TaskInfo, TaskState, TaskSubmitService, TaskType, Timestamp,
    minutes,
};

use super::finding::{Finding, Severity, Symptom};
use super::{counted, crashes};
use crate::look::Look;
use crate::span::said;

/// Maximum number of running tasks of a type checked: those whose locks expire first.
const MOST_LOCKS: usize = 128;

/// How long a task may be due before that is a finding.
const OVERDUE: Duration = minutes(1);

/// How long an expired lock may remain: a running handler takes it over at once.
const STALE: Duration = Duration::from_secs(10);

/// How bad a finding is, and what kind of trouble.
#[derive(Clone, Copy, Debug)]
struct Grade {
    severity: Severity,
    symptom: Symptom,
}

impl Grade {
    fn error(symptom: Symptom) -> Self {
        let severity = Severity::Error;
        Self { severity, symptom }
    }

    fn warning(symptom: Symptom) -> Self {
        let severity = Severity::Warning;
        Self { severity, symptom }
    }
}

/// A type, its counts, and the instances of its namespace.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) task_type: &'a TaskType,
    pub(super) look: &'a Look,
    pub(super) instances: &'a [InstanceInfo],
}

impl Seen<'_> {
    /// All problems of the type.
    pub(super) async fn examine(&self, tasks: &TaskSubmitService) -> Result<Vec<Finding>> {
        let mut found: Vec<_> = self.unserved().into_iter().collect();
        found.extend(self.paused());
        if self.is_overdue() {
            found.push(self.overdue(self.first(tasks, TaskState::Scheduled).await?));
        }
        if self.look.stats.dead > 0 {
            found.push(self.dead(self.first(tasks, TaskState::Dead).await?));
        }
        found.extend(self.full());
        if self.look.stats.running > 0 {
            let name = self.task_type.as_str();
            let running = tasks.list(name, TaskState::Running, None, MOST_LOCKS);
            let running = running.await?.tasks;
            found.extend(crashes::of_running(
                self.task_type,
                &running,
                self.look.stats.now,
            ));
            found.extend(self.locks(&running));
        }
        Ok(found)
    }

    /// The first task in this state.
    async fn first(&self, tasks: &TaskSubmitService, state: TaskState) -> Result<Option<TaskId>> {
        let page = tasks.list(self.task_type.as_str(), state, None, 1).await?;
        Ok(page.tasks.into_iter().next().map(|task| task.id))
    }

    fn is_served(&self) -> bool {
        serving(self.instances, self.task_type) > 0
    }

    /// A finding about this type.
    fn finding(&self, grade: Grade, found: String, why: &str, fix: &str) -> Finding {
        let Grade { severity, symptom } = grade;
        Finding::new(severity, symptom, found, why, fix).of_type(self.task_type)
    }

    fn unserved(&self) -> Option<Finding> {
        let scheduled = self.look.stats.scheduled;
        if self.is_served() || scheduled == 0 {
            return None;
        }
        let waits = counted(scheduled, "task waits", "tasks wait");
        let found = format!("{waits}, and no announced instance serves it");
        let why = if scheduled == 1 {
            "it does not start"
        } else {
            "none of them starts"
        };
        let fix = "start an instance with a worker for it, or correct its name where it is sent; the \
                   list shows who serves what";
        let grade = Grade::error(Symptom::Unserved);
        let finding = self.finding(grade, found, why, fix);
        Some(finding.with_command("delayq instances"))
    }

    fn paused(&self) -> Option<Finding> {
        let stats = &self.look.stats;
        let until = stats.paused_until.filter(|_| stats.due > 0)?;
        let end = if until == Timestamp::MAX {
            "without an end".to_owned()
        } else {
            format!("until {until}")
        };
        let due = counted(stats.due, "task is due", "tasks are due");
        let found = format!("it is paused {end}, and {due}");
        let why = if stats.due == 1 {
            "it does not start while its type is paused"
        } else {
            "none of them starts while the type is paused"
        };
        let grade = Grade::warning(Symptom::Paused);
        let finding = self.finding(grade, found, why, "resume it, if the reason is gone");
        Some(finding.with_command(format!("delayq resume {}", self.task_type)))
    }

    fn is_overdue(&self) -> bool {
        let stats = &self.look.stats;
        let is_held = stats.paused_until.is_some() && stats.due > 0;
        !is_held && self.is_served() && stats.oldest_age() > OVERDUE
    }

    fn overdue(&self, first: Option<TaskId>) -> Finding {
        let stats = &self.look.stats;
        let age = said(stats.oldest_age());
        let found = if stats.due == 1 {
            format!("1 task is due, for {age}")
        } else {
            format!("{} tasks are due, the first one for {age}", stats.due)
        };
        let why = if stats.due == 1 {
            "it starts late"
        } else {
            "they start late"
        };
        let fix = "explain the first one: the answer names what holds it";
        let finding = self.finding(Grade::warning(Symptom::Overdue), found, why, fix);
        self.with_task(finding, "explain", first)
    }

    fn dead(&self, first: Option<TaskId>) -> Finding {
        let dead = self.look.stats.dead;
        let found = counted(dead, "task is dead", "tasks are dead");
        let (why, fix) = if dead == 1 {
            (
                "it waits for an operator, and is kept until then",
                "look at its error, then requeue or discard it",
            )
        } else {
            (
                "they wait for an operator, and are kept until then",
                "look at what killed them, then requeue or discard them",
            )
        };
        let finding = self.finding(Grade::warning(Symptom::Dead), found, why, fix);
        if dead == 1 {
            return self.with_task(finding, "show", first);
        }
        let mut finding = finding.with_command(format!("delayq dead groups {}", self.task_type));
        finding.task_id = first;
        finding
    }

    fn with_task(&self, finding: Finding, verb: &str, id: Option<TaskId>) -> Finding {
        match id {
            Some(id) => finding.of_task(verb, self.task_type, &id),
            None => finding,
        }
    }

    fn full(&self) -> Option<Finding> {
        let stats = &self.look.stats;
        let limit = stats
            .max_pending
            .filter(|limit| stats.scheduled >= *limit)?;
        let waits = counted(stats.scheduled, "task waits", "tasks wait");
        let found = format!("{waits}, and max_pending is {limit}");
        let fix = "let more instances serve it, or raise max_pending";
        let grade = Grade::error(Symptom::Full);
        let finding = self.finding(grade, found, "new ones are refused", fix);
        let more = limit.saturating_mul(2).max(1);
        let command = format!("delayq configure {} --max-pending {more}", self.task_type);
        Some(finding.with_command(command))
    }

    /// Expired locks, and locks of instances that are gone.
    fn locks(&self, running: &[TaskInfo]) -> Option<Finding> {
        let now = self.look.stats.now;
        let is_stale = |task: &&TaskInfo| now.since(task.at) > STALE;
        let is_gone = |holder: &str| !self.instances.iter().any(|one| one.id.short() == holder);
        let is_listed = self.instances.len() < MAX_INSTANCES;
        let is_orphan = |task: &&TaskInfo| {
            is_listed && !is_stale(task) && task.holder.as_deref().is_some_and(is_gone)
        };
        let stale: Vec<_> = running.iter().filter(is_stale).collect();
        let orphans: Vec<_> = running.iter().filter(is_orphan).collect();
        let mut parts = Vec::new();
        if !stale.is_empty() {
            let one = "has a lock that has expired and nobody took over";
            let many = "have locks that have expired and nobody took over";
            parts.push(counted(stale.len() as u64, one, many));
        }
        if !orphans.is_empty() {
            let one = "is locked by an instance that is no longer announced";
            let many = "are locked by instances that are no longer announced";
            parts.push(counted(orphans.len() as u64, one, many));
        }
        let first = stale.first().or_else(|| orphans.first())?;
        let found = format!(
            "of the first {} that run {}",
            running.len(),
            parts.join(", ")
        );
        let why = "a task starts again only when its lock has expired and an instance claims";
        let fix = "start an instance that serves the type; a shorter `lock` of its worker brings tasks \
                   back sooner";
        let finding = self.finding(Grade::warning(Symptom::Locks), found, why, fix);
        Some(finding.of_task("explain", self.task_type, &first.id))
    }
}
