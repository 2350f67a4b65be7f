//! Operations on one task by its id. Tasks move from cold to hot and never back, so a task that is
//! alive is found by asking hot, then cold, then hot again.

use std::time::Duration;

use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_core::task::Headers;
use delayq_core::{
    Clock, Result, Store, SystemClock, TaskId, TaskInfo, TaskState, TaskType, Timestamp, When,
};

use crate::far::{MARK, earlier, is_on_its_way, show};
use crate::parts::{Parts, is_live, may_be_moved, unasked};

/// A change of a task that is scheduled.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Move(When),
    Message(Vec<u8>, Option<Headers>),
}

impl Change {
    async fn apply(
        &self,
        store: &dyn Store,
        task_type: &TaskType,
        id: &TaskId,
    ) -> Result<ChangeOutcome> {
        match self {
            Self::Move(when) => store.reschedule(task_type, id, *when).await,
            Self::Message(message, None) => store.update(task_type, id, message.clone()).await,
            Self::Message(message, Some(headers)) => {
                let update = store.update_with(task_type, id, message.clone(), headers);
                update.await
            }
        }
    }
}

/// How often an operation is tried on a task that a promoter gives back meanwhile, within the time
/// of a call.
const TRIES: u32 = 5;

fn is_known<T: PartialEq>(outcome: &T, none: &T) -> bool {
    outcome != none
}

/// The state of a task.
pub(crate) async fn find(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
) -> Result<Option<TaskInfo>> {
    let near = parts.hot.find(task_type, id).await?;
    if near.as_ref().is_some_and(is_live) {
        return Ok(near);
    }
    let asked = parts.cold.find(task_type, id);
    let mut far = parts.far(task_type, asked).await?.flatten();
    if let Some(task) = &mut far {
        let is_waiting = matches!(task.state, TaskState::Scheduled | TaskState::Dead);
        let is_ended = task.state == TaskState::Done;
        show(task, parts.lead());
        if is_waiting {
            return Ok(far);
        }
        if is_ended {
            far = None;
        }
    }
    // It may have been moved in between.
    let near = parts.hot.find(task_type, id).await?;
    let is_moving = far.as_ref().is_some_and(is_live);
    Ok(match (near, far) {
        (Some(near), _) if is_live(&near) => Some(near),
        (_, Some(far)) if is_moving => Some(far),
        // Both remember an end: the later one is that of the last task.
        (Some(near), Some(far)) if far.at > near.at => Some(far),
        (Some(near), _) => Some(near),
        (None, far) => far,
    })
}

/// The state of a task that has ended in both stores, perhaps.
async fn ended(parts: &Parts, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskState>> {
    let found = find(parts, task_type, id).await?;
    Ok(found
        .map(|task| task.state)
        .filter(|state| state.is_ended()))
}

/// Cancels a task.
pub(crate) async fn cancel(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
) -> Result<CancelOutcome> {
    let end = parts.end();
    for _ in 0..TRIES {
        if let Some(outcome) = try_cancel(parts, task_type, id, end).await? {
            return Ok(outcome);
        }
        if SystemClock.elapsed() >= end {
            break;
        }
    }
    // It may be cancelled in cold.
    Err(parts.doubt(&parts.moving(task_type, id)))
}

/// The same; `None` if it is to be tried again.
async fn try_cancel(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
    end: Duration,
) -> Result<Option<CancelOutcome>> {
    let near = parts.hot.cancel(task_type, id).await?;
    if matches!(near, CancelOutcome::Cancelled | CancelOutcome::Running) {
        return Ok(Some(near));
    }
    let far = async {
        out_of_doubt(parts, task_type, id, end).await?;
        parts.cold.cancel(task_type, id).await
    };
    let Some(far) = parts.far(task_type, far).await? else {
        return Ok(Some(near));
    };
    match far {
        CancelOutcome::Cancelled | CancelOutcome::Finished(TaskState::Dead) => {
            return Ok(Some(far));
        }
        CancelOutcome::Running => return cancelled_on_its_way(parts, task_type, id, end).await,
        _ => {}
    }
    let near = parts.hot.cancel(task_type, id).await?;
    let none = CancelOutcome::NotFound;
    Ok(Some(match far {
        CancelOutcome::Finished(state) if state != TaskState::Done && is_known(&near, &none) => {
            let state = ended(parts, task_type, id).await?;
            state.map_or(near, CancelOutcome::Finished)
        }
        _ if is_known(&near, &none) => near,
        CancelOutcome::Finished(TaskState::Done) => none,
        far => far,
    }))
}

/// The outcome of the cancel of a task that was being moved, and has a mark of it in cold; `None`
/// if it is to be tried again.
async fn cancelled_on_its_way(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
    end: Duration,
) -> Result<Option<CancelOutcome>> {
    let moved = parts.moved(task_type, id, end).await;
    // From here on the task may be cancelled in cold.
    let near = parts.hot.cancel(task_type, id).await;
    let near = near.map_err(|error| parts.doubt(&error))?;
    if matches!(near, CancelOutcome::Cancelled | CancelOutcome::Running) {
        return Ok(Some(near));
    }
    match moved.map_err(|error| parts.doubt(&error))? {
        Some(TaskState::Scheduled | TaskState::Running) => Ok(None),
        // What hot knows may be the end of an earlier task.
        Some(TaskState::Cancelled) => Ok(Some(CancelOutcome::Cancelled)),
        Some(TaskState::Done) => Ok(Some(near)),
        Some(state) => Ok(Some(CancelOutcome::Finished(state))),
        None if near == CancelOutcome::NotFound => Ok(Some(CancelOutcome::Cancelled)),
        None => Ok(Some(near)),
    }
}

/// Waits for the move of a task of which nobody knows whether hot has had it.
async fn out_of_doubt(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
    end: Duration,
) -> Result<()> {
    let found = parts.cold.find(task_type, id).await.map_err(unasked)?;
    match found {
        Some(task) if task.state == TaskState::Scheduled && may_be_moved(&task) => {
            parts.arrived(task_type, id, end).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// Changes a task.
pub(crate) async fn change(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
    change: Change,
) -> Result<ChangeOutcome> {
    let end = parts.end();
    for _ in 0..TRIES {
        if let Some(outcome) = try_change(parts, task_type, id, &change, end).await? {
            return Ok(outcome);
        }
        if SystemClock.elapsed() >= end {
            break;
        }
    }
    Err(parts.moving(task_type, id))
}

/// Changes a task that is in cold.
async fn change_far(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
    change: &Change,
    end: Duration,
) -> Result<ChangeOutcome> {
    if let Change::Move(when) = change {
        return reschedule(parts, task_type, id, *when, end).await;
    }
    out_of_doubt(parts, task_type, id, end).await?;
    let outcome = change.apply(&*parts.cold, task_type, id).await?;
    Ok(shown(outcome, parts.lead()))
}

/// Changes a task; `None` if it is to be tried again.
async fn try_change(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
    change: &Change,
    end: Duration,
) -> Result<Option<ChangeOutcome>> {
    let near = change.apply(&*parts.hot, task_type, id).await?;
    if matches!(near, ChangeOutcome::Changed { .. } | ChangeOutcome::Running) {
        return Ok(Some(near));
    }
    let far = change_far(parts, task_type, id, change, end);
    let Some(mut far) = parts.far(task_type, far).await? else {
        return Ok(Some(near));
    };
    if far == ChangeOutcome::Running {
        match parts.moved(task_type, id, end).await? {
            Some(TaskState::Scheduled | TaskState::Running) => return Ok(None),
            Some(TaskState::Done) | None => {}
            Some(state) => far = ChangeOutcome::Finished(state),
        }
    }
    match far {
        ChangeOutcome::Changed { .. } | ChangeOutcome::Finished(TaskState::Dead) => {
            return Ok(Some(far));
        }
        _ => {}
    }
    let near = change.apply(&*parts.hot, task_type, id).await?;
    let none = ChangeOutcome::NotFound;
    Ok(Some(match far {
        ChangeOutcome::Finished(state) if state != TaskState::Done && is_known(&near, &none) => {
            let state = ended(parts, task_type, id).await?;
            state.map_or(near, ChangeOutcome::Finished)
        }
        _ if is_known(&near, &none) => near,
        ChangeOutcome::Running | ChangeOutcome::Finished(TaskState::Done) => none,
        far => far,
    }))
}

/// The header of the tier cannot be changed from outside.
pub(crate) fn without_mark(mut headers: Headers) -> Headers {
    headers.remove(MARK);
    headers
}

fn shown(outcome: ChangeOutcome, lead: std::time::Duration) -> ChangeOutcome {
    match outcome {
        ChangeOutcome::Changed { due_at } => ChangeOutcome::Changed {
            due_at: due_at.plus(lead),
        },
        other => other,
    }
}

/// Moves a task of cold to another time.
pub(crate) async fn reschedule(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
    when: When,
    end: Duration,
) -> Result<ChangeOutcome> {
    let found = parts.cold.find(task_type, id).await.map_err(unasked)?;
    let Some(task) = found else {
        return Ok(ChangeOutcome::NotFound);
    };
    let is_leaving = is_on_its_way(&task.headers) || may_be_moved(&task);
    if task.state == TaskState::Scheduled && is_leaving {
        let state = parts.arrived(task_type, id, end).await?;
        return Ok(match state.filter(|state| *state != TaskState::Done) {
            Some(state) => ChangeOutcome::Finished(state),
            None => ChangeOutcome::NotFound,
        });
    }
    let lead = parts.lead();
    let is_soon = match when {
        When::After(delay) => delay < lead,
        When::At(time) => time < parts.now().plus(lead),
    };
    if !is_soon {
        let outcome = parts
            .cold
            .reschedule(task_type, id, earlier(when, lead))
            .await?;
        return Ok(shown(outcome, lead));
    }
    // Its real due time cannot be told in cold: it is moved at once, and then rescheduled in hot.
    let now = When::At(Timestamp::ZERO);
    let at_once = match when {
        When::After(_) => When::After(std::time::Duration::ZERO),
        When::At(_) => now,
    };
    let outcome = parts.cold.reschedule(task_type, id, at_once).await?;
    let ChangeOutcome::Changed { due_at } = outcome else {
        return Ok(outcome);
    };
    let target = match when {
        When::After(delay) => due_at.plus(delay),
        When::At(time) => time,
    };
    let arrived = parts.arrived(task_type, id, end).await;
    match arrived.map_err(|error| parts.doubt(&error))? {
        None | Some(TaskState::Done) => {}
        Some(state) => return Ok(ChangeOutcome::Finished(state)),
    }
    let moved = parts.hot.reschedule(task_type, id, When::At(target)).await;
    moved.map_err(|error| parts.doubt(&error))
}
