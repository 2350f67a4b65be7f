//! Recurrence: sees to it that the next occurrence of each recurring task waits in the store.
//!
//! No instance leads. Each one sends the next occurrence when it starts one, at its own start and
//! once a minute; its id is made of the name and the time, so that it is one task. Of two releases
//! with different schedules the instance that started last is right: it cancels what its schedule
//! has not, and an earlier one sends nothing beside a later one's.

use delayq_core::store::{CancelOutcome, MAX_BATCH};
use delayq_core::{AttemptHistory, Result, TaskContext, TaskInfo, TaskState, Timestamp};
use tracing::{debug, info, warn};

use crate::recurring::{OCCURRENCE, Occurrence, Recurring, RecurringInfo, Standing};
use crate::submit::TaskSubmitService;

/// Pages of waiting tasks that are looked through for occurrences: more than 10,000 tasks.
const MAX_PAGES: usize = 80;
/// Occurrences in a row that may have ended before their time.
const MAX_ENDED: usize = 100;

/// A waiting task that is an occurrence.
struct Waiting {
    info: TaskInfo,
    occurrence: Occurrence,
}

/// Makes sure that the next occurrence of every recurring task waits. Goes on after an error;
/// returns the first one.
pub(crate) async fn ensure_all(tasks: &TaskSubmitService) -> Result<()> {
    let mut result = Ok(());
    for recurring in tasks.own_recurring() {
        let ensured = ensure(tasks, recurring, tasks.clock().now()).await;
        result = result.and(ensured);
    }
    result
}

/// Takes in the start of a task. Returns whether its worker is to run: not when it is an occurrence
/// of a schedule that has been changed.
pub(crate) async fn may_start(tasks: &TaskSubmitService, cx: &TaskContext) -> bool {
    let all = tasks.own_recurring();
    if all.is_empty() || cx.header(OCCURRENCE).is_none() {
        return true;
    }
    let of_type = |one: &&Recurring| one.task_type == *cx.task_type();
    let found = all.iter().filter(of_type).find_map(|recurring| {
        let header = |name: &str| cx.header(name).map(str::to_owned);
        let occurrence = Occurrence::of(&recurring.name, cx.id().as_str(), header)?;
        Some((recurring, occurrence))
    });
    let Some((recurring, occurrence)) = found else {
        return true;
    };
    let (task_type, id) = (cx.task_type(), cx.id());
    match occurrence.standing(&recurring.schedule, tasks.since()) {
        Standing::Superseded => {
            info!(%task_type, %id, schedule = %recurring.schedule,
                "not run: the schedule has been changed, and has this occurrence no more");
            return false;
        }
        // Its instance sends the next one.
        Standing::Newer => return true,
        Standing::Own | Standing::Shared => {}
    }
    let after = tasks.clock().now().max(occurrence.time);
    if let Err(error) = ensure(tasks, recurring, after).await {
        warn!(%task_type, %id, %error,
            "the next occurrence is not sent yet: it is tried again within a minute");
    }
    true
}

/// Makes sure that an occurrence after `after` waits, unless an earlier one does that will see to
/// it. One that was cancelled, or run before its time, is not made again.
async fn ensure(tasks: &TaskSubmitService, recurring: &Recurring, after: Timestamp) -> Result<()> {
    let mut time = after;
    for _ in 0..MAX_ENDED {
        let Some(next) = recurring.schedule.next_after(time) else {
            return Ok(());
        };
        let id = recurring.id_at(next);
        match tasks.find(recurring.task_type.as_str(), &id).await? {
            None => return send(tasks, recurring, next).await,
            Some(found) if matches!(found.state, TaskState::Scheduled | TaskState::Running) => {
                return Ok(());
            }
            Some(_) => time = next,
        }
    }
    Ok(())
}

/// Sends the occurrence at `time` unless another one makes it superfluous, and cancels those of
/// schedules that are no more.
async fn send(tasks: &TaskSubmitService, recurring: &Recurring, time: Timestamp) -> Result<()> {
    let task_type = &recurring.task_type;
    let waiting = waiting(tasks, task_type.as_str(), &recurring.name).await?;
    let mut is_needed = true;
    for one in &waiting {
        let id = &one.info.id;
        match one.occurrence.standing(&recurring.schedule, tasks.since()) {
            Standing::Own if one.occurrence.time > time => is_needed = false,
            // It sends the next one when it starts. One that has started has done so.
            Standing::Own if !one.has_started() && one.info.at <= time => is_needed = false,
            Standing::Newer => {
                debug!(%task_type, %id, "an instance that started later has another schedule");
                is_needed = false;
            }
            Standing::Superseded => {
                let outcome = tasks.cancel(task_type.as_str(), id.as_str()).await?;
                info!(%task_type, %id, ?outcome, schedule = %recurring.schedule,
                    "the schedule has been changed, and has this occurrence no more");
            }
            Standing::Own | Standing::Shared => {}
        }
    }
    if is_needed {
        tasks.send(recurring.job_at(time, tasks.since())).await?;
        debug!(%task_type, %time, "the next occurrence waits");
    }
    Ok(())
}

impl Waiting {
    fn has_started(&self) -> bool {
        self.info.attempt > 0 || self.info.history != AttemptHistory::default()
    }
}

/// The waiting occurrences of the recurring task `name`, of any schedule, by their due times.
async fn waiting(tasks: &TaskSubmitService, task_type: &str, name: &str) -> Result<Vec<Waiting>> {
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = tasks
            .list(task_type, TaskState::Scheduled, cursor.as_ref(), MAX_BATCH)
            .await?;
        found.extend(page.tasks.into_iter().filter_map(|info| {
            let occurrence = Occurrence::of_info(name, &info)?;
            Some(Waiting { info, occurrence })
        }));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(found)
}

impl TaskSubmitService {
    /// The recurring tasks of this plugin, each with its next occurrence in the store. Empty for a
    /// service without a plugin: the schedules are declared beside the workers.
    ///
    /// # Errors
    /// As for every call.
    pub async fn recurring(&self) -> Result<Vec<RecurringInfo>> {
        let mut infos = Vec::new();
        for recurring in self.own_recurring() {
            let task_type = recurring.task_type.clone();
            let waiting = waiting(self, task_type.as_str(), &recurring.name).await?;
            let is_own = |one: &&Waiting| {
                let standing = one.occurrence.standing(&recurring.schedule, self.since());
                matches!(standing, Standing::Own | Standing::Shared)
            };
            let next = waiting.iter().find(is_own);
            infos.push(RecurringInfo {
                task_type,
                name: recurring.name.clone(),
                schedule: recurring.schedule.to_string(),
                next: next.map(|one| one.info.at),
                next_id: next.map(|one| one.info.id.clone()),
            });
        }
        Ok(infos)
    }

    /// Cancels the waiting occurrences of a recurring task (`name` is empty unless one was given)
    /// and returns how many there were: after a deploy without it. While an instance still declares
    /// it, the next one is made again within a minute.
    ///
    /// # Errors
    /// As for every call; some may have been cancelled then.
    pub async fn remove_recurring(&self, task_type: &str, name: &str) -> Result<usize> {
        let mut count = 0;
        for one in waiting(self, task_type, name).await? {
            let outcome = self.cancel(task_type, one.info.id.as_str()).await?;
            count += usize::from(outcome == CancelOutcome::Cancelled);
        }
        Ok(count)
    }
}
