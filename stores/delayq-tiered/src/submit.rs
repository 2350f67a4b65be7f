//! Submit: near tasks go to hot, far ones to cold, and an id that one of them has stays there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use delayq_core::store::{CancelOutcome, ChangeOutcome, MAX_BATCH, SubmitOutcome};
use delayq_core::{
    Error, NewTask, OnConflict, Result, Store, TaskInfo, TaskState, TaskType, Timestamp, When,
};
use futures_util::future::join_all;

use crate::change::reschedule;
use crate::far::{
    due_in_place_of, is_soon, later_to_cold, moved_due, real_due, soon_to_cold, to_cold,
};
use crate::parts::{Parts, is_live, may_be_moved, unasked};

type Outcome = Result<SubmitOutcome>;

/// Where a task goes.
#[derive(Debug)]
enum Route {
    Hot,
    /// Its form for cold.
    Cold(Box<NewTask>, Place),
    Refused(Error),
}

/// What a task finds in cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Its id is free there, and its form is exact.
    Free,
    /// A task with its id.
    Known,
    /// Its id is free there, and its due time is to be moved to that of the request.
    Soon,
}

/// Submits tasks; one outcome each, in order.
pub(crate) async fn submit(parts: &Parts, tasks: Vec<NewTask>) -> Vec<Outcome> {
    if all_near(parts, &tasks).await {
        return parts.hot.submit(tasks).await;
    }
    let mut outcomes = Vec::with_capacity(tasks.len());
    let mut rest = tasks.into_iter().peekable();
    while rest.peek().is_some() {
        // Equal ids are judged in order, one after the other.
        let (mut part, mut ids) = (Vec::new(), HashSet::new());
        while part.len() < MAX_BATCH
            && let Some(task) =
                rest.next_if(|task| ids.insert((task.task_type.clone(), task.id.clone())))
        {
            part.push(task);
        }
        outcomes.extend(submit_part(parts, part).await);
    }
    outcomes
}

/// True if no task is far and no type has a task in cold: hot takes the whole batch.
async fn all_near(parts: &Parts, tasks: &[NewTask]) -> bool {
    let mut types: Vec<&TaskType> = Vec::new();
    for task in tasks {
        if parts.is_far(task.when) {
            return false;
        }
        if !types.contains(&&task.task_type) {
            types.push(&task.task_type);
        }
    }
    for task_type in types {
        let count = parts.count(task_type).await;
        if !count.is_ok_and(|count| count.tasks == 0) {
            return false;
        }
    }
    true
}

/// Submits tasks with different ids.
async fn submit_part(parts: &Parts, tasks: Vec<NewTask>) -> Vec<Outcome> {
    let routes = tasks.iter().map(|task| async {
        let route = route(parts, task).await;
        route.unwrap_or_else(Route::Refused)
    });
    let mut routes = join_all(routes).await;
    keep_bounds(parts, &tasks, &mut routes).await;
    let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(tasks.len());
    let mut far = Vec::new();
    for (at, route) in routes.into_iter().enumerate() {
        outcomes.push(match route {
            Route::Refused(error) => Some(Err(error)),
            Route::Hot => None,
            Route::Cold(task, place) => {
                far.push((at, *task, place));
                None
            }
        });
    }
    for (at, outcome) in to_cold_store(parts, &tasks, far).await {
        if let Some(place) = outcomes.get_mut(at) {
            *place = outcome;
        }
    }
    to_hot_store(parts, &tasks, &mut outcomes).await;
    let none = || Err(Error::Closed("the store"));
    let outcomes = outcomes.into_iter();
    outcomes.map(|one| one.unwrap_or_else(none)).collect()
}

/// Finds out which store has the id of a task, and which one takes it.
async fn route(parts: &Parts, task: &NewTask) -> Result<Route> {
    let is_far = parts.is_far(task.when);
    if !is_far && parts.count(&task.task_type).await?.tasks == 0 {
        return Ok(Route::Hot);
    }
    let ask = async |store: &Arc<dyn Store>| {
        let found = store.find(&task.task_type, &task.id).await;
        found.map_err(unasked)
    };
    let hot = if is_far { ask(&parts.hot).await? } else { None };
    if hot.as_ref().is_some_and(is_live) {
        return Ok(Route::Hot);
    }
    if is_far && hot.is_none() && !task.on_conflict.replaces() {
        return Ok(free(parts, task));
    }
    let cold = ask(&parts.cold).await?;
    let runs_again = task.on_conflict.replaces() || task.again_if_running;
    let Some(cold) = cold.filter(|info| info.state != TaskState::Done) else {
        let is_free = hot.is_none() || runs_again;
        let goes_to_hot = !is_far || !is_free;
        return Ok(if goes_to_hot {
            Route::Hot
        } else {
            free(parts, task)
        });
    };
    if is_live(&cold) {
        let is_moved = may_be_moved(&cold) && ask(&parts.hot).await?.as_ref().is_some_and(is_live);
        return Ok(if is_moved {
            Route::Hot
        } else {
            beside(parts, task, &cold)
        });
    }
    if runs_again && !is_far {
        return Ok(Route::Hot);
    }
    // Both remember an end, perhaps: the later one counts.
    let hot = if is_far { hot } else { ask(&parts.hot).await? };
    if !runs_again && hot.is_some_and(|hot| is_live(&hot) || hot.at >= cold.at) {
        return Ok(Route::Hot);
    }
    // Cold alone can tell whether it is the same request.
    Ok(free(parts, task))
}

/// The form of a task for cold, where its id is free.
fn free(parts: &Parts, task: &NewTask) -> Route {
    let (now, lead) = (parts.now(), parts.lead());
    if is_soon(task.when, now, lead) {
        Route::Cold(Box::new(later_to_cold(task, now, lead)), Place::Soon)
    } else {
        Route::Cold(Box::new(to_cold(task, lead)), Place::Free)
    }
}

/// The form of a task for cold, which has a task with its id.
fn beside(parts: &Parts, task: &NewTask, present: &TaskInfo) -> Route {
    let mut far = to_cold(task, parts.lead());
    if task.on_conflict.replaces() {
        let due = due_in_place_of(task, present, parts.now());
        if due < parts.now().plus(parts.lead()) {
            far = soon_to_cold(task, due, parts.lead());
        }
    }
    Route::Cold(Box::new(far), Place::Known)
}

/// Refuses new far tasks beyond the limit of their type, which counts both stores. Near ones are
/// counted by hot, unless there are far ones.
async fn keep_bounds(parts: &Parts, tasks: &[NewTask], routes: &mut [Route]) {
    let mut rooms: HashMap<TaskType, Result<Option<Room>>> = HashMap::new();
    for (task, route) in tasks.iter().zip(routes) {
        let is_new = match route {
            Route::Cold(_, place) => *place != Place::Known,
            Route::Hot => true,
            Route::Refused(_) => false,
        };
        if !is_new {
            continue;
        }
        if !rooms.contains_key(&task.task_type) {
            let room = room(parts, &task.task_type).await.map_err(unasked);
            rooms.insert(task.task_type.clone(), room);
        }
        let room = match rooms.get_mut(&task.task_type) {
            Some(Ok(Some(room))) => room,
            Some(Err(error)) => {
                *route = Route::Refused(error.clone());
                continue;
            }
            _ => continue,
        };
        if room.pending < room.limit {
            room.pending += 1;
            continue;
        }
        match is_taken(parts, task).await {
            Ok(true) => {}
            Ok(false) => {
                *route = Route::Refused(Error::QueueFull {
                    task_type: task.task_type.to_string(),
                    pending: room.pending,
                    limit: room.limit,
                });
            }
            Err(error) => *route = Route::Refused(unasked(error)),
        }
    }
}

/// The scheduled tasks of a type in both stores, and their limit.
#[derive(Clone, Copy, Debug)]
struct Room {
    pending: u64,
    limit: u64,
}

/// The room of a type; `None` without a limit, which is a setting of hot.
async fn room(parts: &Parts, task_type: &TaskType) -> Result<Option<Room>> {
    let Some(limit) = parts.counts.limit(&*parts.hot, task_type).await? else {
        return Ok(None);
    };
    let cold = parts.cold.stats(task_type).await?;
    let hot = parts.hot.stats(task_type).await?;
    Ok(Some(Room {
        pending: hot.scheduled + cold.scheduled + cold.running,
        limit,
    }))
}

/// True if one of the stores knows the id.
async fn is_taken(parts: &Parts, task: &NewTask) -> Result<bool> {
    let (task_type, id) = (&task.task_type, &task.id);
    let is_taken = |found: Option<TaskInfo>| found.is_some_and(|info| is_live(&info));
    if is_taken(parts.cold.find(task_type, id).await?) {
        return Ok(true);
    }
    // Whether an ended task is the same request is for hot to say.
    Ok(parts.hot.find(task_type, id).await?.is_some())
}

/// Submits tasks to cold. Answers the outcome of each; `None` if hot decides.
async fn to_cold_store(
    parts: &Parts,
    tasks: &[NewTask],
    far: Vec<(usize, NewTask, Place)>,
) -> Vec<(usize, Option<Outcome>)> {
    if far.is_empty() {
        return Vec::new();
    }
    let (mut sent, mut batch, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (at, task, place) in far {
        match introduce(parts, &task.task_type).await {
            Ok(()) => {
                sent.push((at, place, task.headers.clone()));
                batch.push(task);
            }
            Err(error) => refused.push((at, Some(Err(unasked(error))))),
        }
    }
    let answers = sent.into_iter().zip(parts.cold.submit(batch).await);
    let judged = answers.map(|((at, place, headers), answer)| async move {
        let Some(task) = tasks.get(at) else {
            return (at, None);
        };
        let judged = match answer {
            Ok(SubmitOutcome::Accepted { due_at, replaced }) => {
                let due_at = real_due(&headers, due_at, parts.lead());
                parts.counts.add(&task.task_type);
                if replaced {
                    Some(Ok(SubmitOutcome::Accepted { due_at, replaced }))
                } else {
                    judge_accepted(parts, task, due_at, place).await
                }
            }
            Ok(outcome) => judge_known(parts, task, outcome).await,
            Err(error) => Some(Err(error)),
        };
        (at, judged)
    });
    refused.extend(join_all(judged).await);
    refused
}

/// Has both stores know a type before its first far task.
async fn introduce(parts: &Parts, task_type: &TaskType) -> Result<()> {
    parts.marks.mark(&*parts.hot, task_type).await?;
    parts.marks.tell(&*parts.cold, task_type).await
}

/// Looks whether hot has the id of a task that cold has just accepted, due at `due_at`. Then hot
/// decides, and cold gives its task up.
async fn judge_accepted(
    parts: &Parts,
    task: &NewTask,
    due_at: Timestamp,
    place: Place,
) -> Option<Outcome> {
    let (task_type, id) = (&task.task_type, &task.id);
    let replaced = false;
    let accepted = Some(Ok(SubmitOutcome::Accepted { due_at, replaced }));
    let is_in_hot = match parts.hot.find(task_type, id).await {
        Ok(found) => found.is_some_and(|info| is_live(&info)),
        // The task is accepted: that hot cannot be asked is no reason to refuse it.
        Err(_) => false,
    };
    match place {
        _ if is_in_hot => {}
        Place::Free => return accepted,
        Place::Soon => return Some(Ok(soon(parts, task, due_at).await)),
        // It is gone from cold since: it has been moved, or cancelled.
        Place::Known => {}
    }
    let none = match parts.cold.cancel(task_type, id).await {
        Ok(CancelOutcome::Cancelled | CancelOutcome::Finished(TaskState::Done)) => Ok(()),
        Ok(CancelOutcome::Running) => parts.moved(task_type, id).await,
        Ok(_) => return accepted,
        Err(error) => Err(error),
    };
    // Nobody knows whether cold still has it.
    none.err().map(|error| Err(parts.doubt(&error)))
}

/// Moves a task that cold has accepted, due too late at `due_at`, to its time. Answers the outcome
/// of its submit: if it cannot be moved, it stays as it is.
async fn soon(parts: &Parts, task: &NewTask, due_at: Timestamp) -> SubmitOutcome {
    let due = match task.when {
        When::After(delay) => due_at.minus(parts.lead() * 2).plus(delay),
        When::At(time) => time,
    };
    let moved = reschedule(parts, &task.task_type, &task.id, When::At(due)).await;
    let due_at = match moved {
        Ok(ChangeOutcome::Changed { due_at }) => due_at,
        _ => due_at,
    };
    let replaced = false;
    SubmitOutcome::Accepted { due_at, replaced }
}

/// The outcome for a task whose id cold knows. A task that is being moved, or was, is hot's.
async fn judge_known(parts: &Parts, task: &NewTask, outcome: SubmitOutcome) -> Option<Outcome> {
    let (SubmitOutcome::AlreadyExists { state } | SubmitOutcome::Conflict { state }) = outcome
    else {
        return Some(Ok(outcome));
    };
    match state {
        TaskState::Running => parts.moved(&task.task_type, &task.id).await.err().map(Err),
        TaskState::Done => None,
        _ => Some(Ok(outcome)),
    }
}

/// Submits to hot what has no outcome yet.
async fn to_hot_store(parts: &Parts, tasks: &[NewTask], outcomes: &mut [Option<Outcome>]) {
    let open = tasks.iter().zip(outcomes.iter());
    let open = open.filter(|(_, outcome)| outcome.is_none());
    let batch: Vec<_> = open.map(|(task, _)| task.clone()).collect();
    if batch.is_empty() {
        return;
    }
    let answers = parts.hot.submit(batch.clone()).await;
    let answers = batch.iter().zip(answers);
    let answers = answers.map(|(task, answer)| async move { twin(parts, task, answer).await });
    let mut answers = join_all(answers).await.into_iter();
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
        *outcome = answers.next();
    }
}

/// The answer for a request that hot takes for another one. A delay is a time once its task was
/// moved, so that the repeat of the same request looks different.
async fn twin(parts: &Parts, task: &NewTask, answer: Outcome) -> Outcome {
    let Ok(SubmitOutcome::Conflict { .. }) = answer else {
        return answer;
    };
    let is_delay = matches!(task.when, When::After(_));
    if !is_delay || task.on_conflict != OnConflict::Reject || !parts.is_far(task.when) {
        return answer;
    }
    let found = parts.hot.find(&task.task_type, &task.id).await;
    let due = found
        .ok()
        .flatten()
        .and_then(|info| moved_due(&info, parts.lead()));
    let Some(due) = due else {
        return answer;
    };
    // The request in the form in which a promoter submits it.
    let mut moved = task.clone();
    moved.when = When::At(due);
    let known = parts.hot.submit(vec![moved]).await.pop();
    match known {
        Some(Ok(exists @ SubmitOutcome::AlreadyExists { .. })) => Ok(exists),
        _ => answer,
    }
}
