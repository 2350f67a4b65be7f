//! Recurrence: makes sure that the next occurrence of each recurring task waits in the store.
//!
//! There is no leader. Each instance sends the next occurrence when it starts one, at its own start
//! and once a minute; the id consists of the name and the time, so that there is only one task. If
//! two releases have different schedules, the instance that started last is right. It cancels
//! untried occurrences that are not in its schedule. An earlier instance sends none of its own, but
//! continues the chain of the later one.

use std::collections::BTreeMap;

use delayq_core::job::check_content;
use delayq_core::store::{CancelOutcome, MAX_BATCH, SubmitOutcome};
use delayq_core::{AttemptHistory, Result, TaskContext, TaskInfo, TaskState, TaskType, Timestamp};
use tracing::{debug, info, warn};

use super::TaskSubmitService;
use crate::recurring::{
    NextOccurrence, OCCURRENCE, Occurrence, Recurring, RecurringInfo, RecurringOfType, Standing,
};

/// Maximum number of pages of waiting tasks searched for occurrences: more than 10,000 tasks.
const MAX_PAGES: usize = 80;
/// Maximum number of pages searched for the occurrences that others declare: 1,024 tasks.
const STORED_PAGES: usize = 8;
/// Maximum number of successive occurrences skipped because they ended early.
const MAX_ENDED: usize = 100;

/// A task that is an occurrence.
struct FoundOccurrence {
    info: TaskInfo,
    occurrence: Occurrence,
}

/// Makes sure that the next occurrence of every recurring task waits. Continues after an error;
/// returns the first one.
pub(crate) async fn ensure_all(tasks: &TaskSubmitService) -> Result<()> {
    let mut result = Ok(());
    for (recurring, since) in &*tasks.declared.recurring() {
        let ensured = ensure_one(tasks, recurring, *since).await;
        result = result.and(ensured.map(drop));
    }
    result
}

/// Makes sure that the next occurrence of this recurring task waits. Returns the occurrence that
/// the task waits for; `None` if it is that of another schedule.
///
/// # Errors
/// Those of the store.
pub async fn ensure_one(
    tasks: &TaskSubmitService,
    recurring: &Recurring,
    since: Timestamp,
) -> Result<Option<NextOccurrence>> {
    let chain = Chain {
        tasks,
        recurring,
        since,
    };
    chain.ensure(tasks.clock.now()).await
}

/// Called when a task starts. Returns false if its worker must not run: for an untried occurrence
/// that is no longer in the schedule, and for one that may have run before under its id.
pub(crate) async fn may_start(tasks: &TaskSubmitService, cx: &TaskContext, message: &[u8]) -> bool {
    if cx.header(OCCURRENCE).is_none() {
        return true;
    }
    let declared = tasks.declared.recurring();
    let mut started = declared.iter().filter_map(|(recurring, since)| {
        let occurrence = occurrence(recurring, cx)?;
        Some(Started {
            tasks,
            cx,
            message,
            recurring,
            since: *since,
            occurrence,
        })
    });
    let Some(started) = started.next() else {
        return true;
    };
    // Boxed, or the future of every other task would be as large.
    Box::pin(started.may_start()).await
}

/// An occurrence that has just started.
struct Started<'a> {
    tasks: &'a TaskSubmitService,
    cx: &'a TaskContext,
    message: &'a [u8],
    /// This process's recurring task of that name.
    recurring: &'a Recurring,
    /// The time of its declaration.
    since: Timestamp,
    occurrence: Occurrence,
}

impl Started<'_> {
    async fn may_start(self) -> bool {
        let (tasks, occurrence) = (self.tasks, &self.occurrence);
        let (task_type, id) = (self.cx.task_type(), self.cx.id());
        let newer;
        let (recurring, since) = match occurrence.standing(&self.recurring.schedule, self.since) {
            // An occurrence that was tried already keeps its retries, and its requeue by an
            // operator.
            Standing::Superseded if !self.cx.is_repeat() => {
                info!(%task_type, %id, schedule = %self.recurring.schedule,
                    "not run: the schedule has been changed and no longer has this occurrence");
                return false;
            }
            // The chain of the later instance goes on, whichever instance starts its occurrences.
            Standing::Newer => {
                newer = occurrence
                    .recurring(self.recurring)
                    .raw_message(self.message);
                (&newer, occurrence.since)
            }
            Standing::Own | Standing::Shared | Standing::Superseded => (self.recurring, self.since),
        };
        let chain = Chain {
            tasks,
            recurring,
            since,
        };
        let after = tasks.clock.now().max(occurrence.time);
        if let Err(error) = chain.ensure(after).await {
            warn!(%task_type, %id, %error,
                "cannot send the next occurrence yet; trying again within a minute");
        }
        // It was sent before its time but arrived after it, and may have run before under its id.
        // One that a cold store accepted in time may be moved late.
        let accepted_at = delayq_tiered::accepted_at(self.cx.headers());
        let is_belated = accepted_at.unwrap_or(self.cx.submitted_at()) > occurrence.time;
        if is_belated {
            info!(%task_type, %id, "not run: it reached the store after its time");
        }
        !is_belated
    }
}

/// The occurrence of `recurring` that a task is, if it is one.
fn occurrence(recurring: &Recurring, cx: &TaskContext) -> Option<Occurrence> {
    if recurring.task_type != *cx.task_type() {
        return None;
    }
    let header = |name: &str| cx.header(name).map(str::to_owned);
    Occurrence::of(&recurring.name, cx.id().as_str(), header)
}

/// The occurrences of one recurring task, as an instance that started at `since` declares it.
struct Chain<'a> {
    tasks: &'a TaskSubmitService,
    recurring: &'a Recurring,
    since: Timestamp,
}

impl Chain<'_> {
    /// Makes sure that an occurrence after `after` waits, unless an earlier one is waiting and will
    /// do this. An occurrence that was cancelled or ran early is not sent again.
    async fn ensure(&self, after: Timestamp) -> Result<Option<NextOccurrence>> {
        let (recurring, mut time) = (self.recurring, after);
        for _ in 0..MAX_ENDED {
            let Some(next) = recurring.schedule.next_after(time) else {
                return Ok(None);
            };
            let (task_type, id) = (recurring.task_type.as_str(), recurring.id_at(next));
            match self.tasks.find(task_type, &id).await? {
                None => return self.send(next).await,
                Some(found) if !found.state.is_ended() && found.state != TaskState::Dead => {
                    return Ok(Some(NextOccurrence {
                        id: found.id,
                        due: next,
                    }));
                }
                Some(_) => time = next,
            }
        }
        Ok(None)
    }

    /// Sends the occurrence at `time` unless another one makes it superfluous. Cancels those that
    /// are no longer in any schedule. Returns the occurrence that the chain waits for.
    async fn send(&self, time: Timestamp) -> Result<Option<NextOccurrence>> {
        let (tasks, schedule) = (self.tasks, &self.recurring.schedule);
        let task_type = self.recurring.task_type.as_str();
        let (mut is_needed, mut other) = (true, None);
        for one in waiting(tasks, task_type, &self.recurring.name).await? {
            let id = &one.info.id;
            let next = NextOccurrence {
                id: id.clone(),
                due: one.info.at,
            };
            match one.occurrence.standing(schedule, self.since) {
                Standing::Own if one.occurrence.time > time => {
                    (is_needed, other) = (false, Some(next));
                }
                // This occurrence sends the next one when it starts; one that has started already
                // did.
                Standing::Own if !one.has_started() && one.info.at <= time => {
                    (is_needed, other) = (false, Some(next));
                }
                Standing::Newer => {
                    debug!(task_type, %id, "an instance that started later has another schedule");
                    is_needed = false;
                }
                Standing::Superseded if !one.has_started() => {
                    let outcome = tasks.cancel(task_type, id.as_str()).await?;
                    info!(task_type, %id, ?outcome, %schedule,
                        "the schedule has been changed and no longer has this occurrence");
                }
                Standing::Own | Standing::Shared | Standing::Superseded => {}
            }
        }
        if !is_needed || self.is_newer_running().await? {
            return Ok(other);
        }
        let sent = tasks.send(self.recurring.job_at(time, self.since)).await?;
        debug!(task_type, %time, "the next occurrence waits");
        Ok(Some(NextOccurrence {
            id: sent.id,
            due: time,
        }))
    }

    /// True if an occurrence of a later instance has just started: the instance that runs it sends
    /// the next one of its chain.
    async fn is_newer_running(&self) -> Result<bool> {
        let (task_type, name) = (self.recurring.task_type.as_str(), &self.recurring.name);
        let running = occurrences(self.tasks, task_type, name, TaskState::Running).await?;
        let mut standings = running.iter().map(|one| {
            one.occurrence
                .standing(&self.recurring.schedule, self.since)
        });
        Ok(standings.any(|standing| standing == Standing::Newer))
    }
}

impl FoundOccurrence {
    /// The occurrence of the recurring task `name` that a task is, if it is one.
    fn of(name: &str, info: TaskInfo) -> Option<Self> {
        let occurrence = Occurrence::of_info(name, &info)?;
        Some(Self { info, occurrence })
    }

    fn has_started(&self) -> bool {
        has_started(&self.info)
    }
}

fn has_started(info: &TaskInfo) -> bool {
    info.attempt > 0 || info.history != AttemptHistory::default()
}

/// Makes the next occurrence of a recurring task that of its declaration of `since`, also if one
/// with its id was cancelled. Occurrences of earlier declarations that wait and have not started
/// are cancelled or replaced. Repeating it changes nothing.
///
/// # Errors
/// Those of the store.
pub async fn restart(
    tasks: &TaskSubmitService,
    recurring: &Recurring,
    since: Timestamp,
) -> Result<()> {
    let mut time = tasks.clock.now();
    for _ in 0..MAX_ENDED {
        let Some(next) = recurring.schedule.next_after(time) else {
            break;
        };
        let id = recurring.id_at(next);
        let job = recurring.job_at(next, since);
        let job = match clear(tasks, recurring, &id, since).await? {
            Place::Present => None,
            Place::Empty => Some(job),
            Place::Cancelled => Some(job.replace()),
            Place::Over => {
                time = next;
                continue;
            }
        };
        cancel_untried(tasks, recurring, since, Some(&id)).await?;
        let Some(job) = job else {
            return Ok(());
        };
        let outcome = tasks.send(job).await?.outcome;
        if matches!(outcome, SubmitOutcome::Accepted { .. }) {
            return Ok(());
        }
        // An instance that has not heard of the change has just sent its own.
    }
    cancel_untried(tasks, recurring, since, None)
        .await
        .map(drop)
}

/// What the store has in the place of an occurrence.
enum Place {
    /// The occurrence of this declaration, or of a later one.
    Present,
    /// No task.
    Empty,
    /// A task that was cancelled and never ran.
    Cancelled,
    /// A task that has started, or is over.
    Over,
}

/// Cancels the occurrence of an earlier declaration that waits in the place `id`.
async fn clear(
    tasks: &TaskSubmitService,
    recurring: &Recurring,
    id: &str,
    since: Timestamp,
) -> Result<Place> {
    let task_type = recurring.task_type.as_str();
    let Some(info) = tasks.find(task_type, id).await? else {
        return Ok(Place::Empty);
    };
    if info.state == TaskState::Cancelled && !has_started(&info) {
        return Ok(Place::Cancelled);
    }
    if info.state != TaskState::Scheduled || has_started(&info) {
        return Ok(Place::Over);
    }
    let one = FoundOccurrence::of(&recurring.name, info);
    if one.is_none_or(|one| one.occurrence.since >= since) {
        return Ok(Place::Present);
    }
    // It may have started since it was found, so the outcome decides.
    Ok(match tasks.cancel(task_type, id).await? {
        CancelOutcome::Cancelled | CancelOutcome::Finished(TaskState::Cancelled) => {
            Place::Cancelled
        }
        CancelOutcome::NotFound => Place::Empty,
        _ => Place::Over,
    })
}

/// Cancels the waiting occurrences of declarations up to that of `since` that have not started, but
/// not the one with the id `kept`. Returns their number. The next one is found by its id, however
/// many tasks wait before it; further ones among the first 10,240 that wait.
///
/// # Errors
/// Those of the store.
pub async fn cancel_untried(
    tasks: &TaskSubmitService,
    recurring: &Recurring,
    since: Timestamp,
    kept: Option<&str>,
) -> Result<usize> {
    let (task_type, mut count) = (recurring.task_type.as_str(), 0);
    let mut found = waiting(tasks, task_type, &recurring.name).await?;
    if let Some(next) = recurring.schedule.next_after(tasks.clock.now()) {
        let next = tasks.find(task_type, &recurring.id_at(next)).await?;
        let next = next.filter(|next| next.state == TaskState::Scheduled);
        found.extend(next.and_then(|next| FoundOccurrence::of(&recurring.name, next)));
    }
    for one in found {
        let id = one.info.id.as_str();
        if one.has_started() || one.occurrence.since > since || Some(id) == kept {
            continue;
        }
        let outcome = tasks.cancel(task_type, id).await?;
        count += usize::from(outcome == CancelOutcome::Cancelled);
    }
    Ok(count)
}

/// Refuses a recurring task whose occurrences would be refused.
///
/// # Errors
/// As [`TaskSubmitService::send`], for a bad job.
pub fn check(tasks: &TaskSubmitService, recurring: &Recurring) -> Result<()> {
    let now = tasks.clock.now();
    let task = recurring.job_at(now, now).into_task(&tasks.limits, now)?;
    check_content(&task.headers, &task.message)
}

/// The waiting occurrences of the recurring task `name`, of any schedule, by due time.
async fn waiting(
    tasks: &TaskSubmitService,
    task_type: &str,
    name: &str,
) -> Result<Vec<FoundOccurrence>> {
    occurrences(tasks, task_type, name, TaskState::Scheduled).await
}

async fn occurrences(
    tasks: &TaskSubmitService,
    task_type: &str,
    name: &str,
    state: TaskState,
) -> Result<Vec<FoundOccurrence>> {
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = tasks
            .list(task_type, state, cursor.as_ref(), MAX_BATCH)
            .await?;
        let tasks = page.tasks.into_iter();
        found.extend(tasks.filter_map(|info| FoundOccurrence::of(name, info)));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(found)
}

/// The recurring tasks of a plugin, each with its next occurrence in the store.
pub(super) async fn list(tasks: &TaskSubmitService) -> Result<Vec<RecurringInfo>> {
    let mut infos = Vec::new();
    for (recurring, since) in &*tasks.declared.recurring() {
        let waiting = waiting(tasks, recurring.task_type.as_str(), &recurring.name).await?;
        let next = waiting.iter().find(|one| {
            let standing = one.occurrence.standing(&recurring.schedule, *since);
            matches!(standing, Standing::Own | Standing::Shared)
        });
        infos.push(RecurringInfo {
            task_type: recurring.task_type.clone(),
            name: recurring.name.clone(),
            schedule: recurring.schedule.to_string(),
            next: next.map(|one| one.info.at),
            next_id: next.map(|one| one.info.id.clone()),
        });
    }
    Ok(infos)
}

/// The recurring tasks of a type by their waiting occurrences, whoever declares them, by name.
pub(super) async fn stored(
    tasks: &TaskSubmitService,
    task_type: &TaskType,
) -> Result<RecurringOfType> {
    let (mut found, mut cursor) = (BTreeMap::new(), None);
    for _ in 0..STORED_PAGES {
        let page = tasks
            .list(
                task_type.as_str(),
                TaskState::Scheduled,
                cursor.as_ref(),
                MAX_BATCH,
            )
            .await?;
        for info in page.tasks {
            let Some((name, _)) = info.id.as_str().split_once('@') else {
                continue;
            };
            let Some(occurrence) = Occurrence::of_info(name, &info) else {
                continue;
            };
            // The pages are ordered by due time, so the first one is the next.
            found
                .entry(name.to_owned())
                .or_insert_with(|| RecurringInfo {
                    task_type: task_type.clone(),
                    name: name.to_owned(),
                    schedule: occurrence.schedule.to_string(),
                    next: Some(info.at),
                    next_id: Some(info.id.clone()),
                });
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(RecurringOfType {
        recurring: found.into_values().collect(),
        is_complete: cursor.is_none(),
    })
}

/// Cancels the waiting occurrences of a recurring task. Returns their number.
pub(super) async fn remove(
    tasks: &TaskSubmitService,
    task_type: &str,
    name: &str,
) -> Result<usize> {
    let mut count = 0;
    for one in waiting(tasks, task_type, name).await? {
        let outcome = tasks.cancel(task_type, one.info.id.as_str()).await?;
        count += usize::from(outcome == CancelOutcome::Cancelled);
    }
    Ok(count)
}
