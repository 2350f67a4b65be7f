//! Submit: near tasks go to hot, far ones to cold, and an id that one of them has stays there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use delayq_core::store::{CancelOutcome, ChangeOutcome, MAX_BATCH, SubmitOutcome};
use delayq_core::{
    Error, NewTask, OnConflict, Result, Store, TaskInfo, TaskState, TaskType, Timestamp, When,
};
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::change::reschedule;
use crate::far::{
    MARK, due_in_place_of, has_content_of, is_soon, later_to_cold, looks_moved, real_due, show,
    soon_to_cold, to_cold,
};
use crate::parts::{Parts, is_live, may_be_moved, unasked};

type Outcome = Result<SubmitOutcome>;

/// Where a task goes.
#[derive(Debug)]
enum Route {
    Hot,
    /// Its form for cold.
    Cold(Box<NewTask>, Place),
    /// Nothing is submitted.
    Answered(Outcome),
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
pub(crate) async fn submit(parts: &Parts, mut tasks: Vec<NewTask>) -> Vec<Outcome> {
    for task in &mut tasks {
        // It is the tier's own.
        task.headers.remove(MARK);
    }
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
    let counts = types.into_iter().map(|task_type| parts.count(task_type));
    let mut counts = join_all(counts).await.into_iter();
    counts.all(|count| count.is_ok_and(|count| count.tasks == 0))
}

/// Submits tasks with different ids.
async fn submit_part(parts: &Parts, tasks: Vec<NewTask>) -> Vec<Outcome> {
    let routes = tasks.iter().map(|task| async {
        let route = timeout(parts.options.patience, route(parts, task)).await;
        let slow = |_| Err(Error::unavailable(parts.name(), "no answer in time"));
        let route = route.unwrap_or_else(slow);
        route.unwrap_or_else(|error| Route::Answered(Err(error)))
    });
    let mut routes = join_all(routes).await;
    keep_bounds(parts, &tasks, &mut routes).await;
    let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(tasks.len());
    let mut far = Vec::new();
    for (at, route) in routes.into_iter().enumerate() {
        outcomes.push(match route {
            Route::Answered(outcome) => Some(outcome),
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
        if is_moved {
            return Ok(Route::Hot);
        }
        if !task.on_conflict.replaces() && is_soon(task.when, parts.now(), parts.lead()) {
            return give_way(parts, task, cold).await;
        }
        return Ok(beside(parts, task, &cold));
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

/// The answer for a near task that does not replace the present one of cold. It is not submitted
/// there: if the present one ended meanwhile, cold would take this one and start it late.
async fn give_way(parts: &Parts, task: &NewTask, mut present: TaskInfo) -> Result<Route> {
    if present.state == TaskState::Running {
        // It may have ended in hot already.
        let state = parts.moved(&task.task_type, &task.id, parts.end()).await?;
        if state.is_none_or(|state| state == TaskState::Done) {
            return Ok(Route::Hot);
        }
    }
    show(&mut present, parts.lead());
    Ok(Route::Answered(Ok(given_way(task, &present))))
}

fn given_way(task: &NewTask, present: &TaskInfo) -> SubmitOutcome {
    let (state, submitted) = (present.state, present.submitted_at);
    let is_same_time = match task.when {
        When::At(time) => present.due_at == Some(submitted.map_or(time, |at| time.max(at))),
        When::After(_) => false,
    };
    let is_same = is_same_time && has_content_of(present, task);
    if is_same || task.on_conflict == OnConflict::Keep {
        SubmitOutcome::AlreadyExists { state }
    } else {
        SubmitOutcome::Conflict { state }
    }
}

/// Refuses new far tasks beyond the limit of their type, which counts both stores. Near ones are
/// counted by hot, unless there are far ones.
async fn keep_bounds(parts: &Parts, tasks: &[NewTask], routes: &mut [Route]) {
    let mut rooms: HashMap<TaskType, Result<Option<Room>>> = HashMap::new();
    for (task, route) in tasks.iter().zip(routes) {
        let is_new = match route {
            Route::Cold(_, place) => *place != Place::Known,
            Route::Hot => true,
            Route::Answered(_) => false,
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
                *route = Route::Answered(Err(error.clone()));
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
                *route = Route::Answered(Err(Error::QueueFull {
                    task_type: task.task_type.to_string(),
                    pending: room.pending,
                    limit: room.limit,
                }));
            }
            Err(error) => *route = Route::Answered(Err(unasked(error))),
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
        Ok(CancelOutcome::Running) => parts.moved(task_type, id, parts.end()).await.map(drop),
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
    let when = When::At(due);
    let moved = reschedule(parts, &task.task_type, &task.id, when, parts.end()).await;
    let due_at = match moved {
        Ok(ChangeOutcome::Changed { due_at }) => due_at,
        _ => due_at,
    };
    let replaced = false;
    SubmitOutcome::Accepted { due_at, replaced }
}

/// The outcome for a task whose id cold knows. A task that was moved is hot's.
async fn judge_known(parts: &Parts, task: &NewTask, outcome: SubmitOutcome) -> Option<Outcome> {
    let (SubmitOutcome::AlreadyExists { state } | SubmitOutcome::Conflict { state }) = outcome
    else {
        return Some(Ok(outcome));
    };
    let state = match state {
        TaskState::Running => match parts.moved(&task.task_type, &task.id, parts.end()).await {
            Ok(state) => state.unwrap_or(TaskState::Done),
            Err(error) => return Some(Err(error)),
        },
        state => state,
    };
    if state == TaskState::Done {
        return None;
    }
    // A promoter gave it back, or set it aside: hot must not have another one with its id.
    Some(match outcome {
        SubmitOutcome::AlreadyExists { .. } => Ok(SubmitOutcome::AlreadyExists { state }),
        _ if task.on_conflict.replaces() => Err(parts.moving(&task.task_type, &task.id)),
        // It had not ended when this one was submitted.
        _ if state.is_ended() => Ok(SubmitOutcome::Conflict {
            state: TaskState::Scheduled,
        }),
        _ => Ok(SubmitOutcome::Conflict { state }),
    })
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
/// moved, so that the repeat of the same request looks different. The length of the delay is not
/// compared, and nothing is submitted: the present task may end meanwhile.
async fn twin(parts: &Parts, task: &NewTask, answer: Outcome) -> Outcome {
    let Ok(SubmitOutcome::Conflict { .. }) = answer else {
        return answer;
    };
    let is_delay = matches!(task.when, When::After(_));
    if !is_delay || task.on_conflict != OnConflict::Reject || !parts.is_far(task.when) {
        return answer;
    }
    let found = parts.hot.find(&task.task_type, &task.id).await;
    let is_twin = |info: &TaskInfo| {
        is_live(info) && looks_moved(info, parts.lead()) && has_content_of(info, task)
    };
    match found.ok().flatten().filter(is_twin) {
        Some(TaskInfo { state, .. }) => Ok(SubmitOutcome::AlreadyExists { state }),
        None => answer,
    }
}
