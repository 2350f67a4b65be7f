//! Submit: near tasks go to hot, far ones to cold, and an id that one of them has stays there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use delayq_core::store::{CancelOutcome, SubmitOutcome};
use delayq_core::{Error, NewTask, OnConflict, Result, Store, TaskInfo, TaskState, TaskType, When};
use futures_util::future::join_all;

use crate::far::{due_in_place_of, is_probe, moved_due, probe, real_due, soon_to_cold, to_cold};
use crate::parts::{Parts, is_live, may_be_moved, unasked};

type Outcome = Result<SubmitOutcome>;

/// Where a task goes.
#[derive(Debug)]
enum Route {
    Hot,
    /// Its form for cold. `is_known` if cold has a task with its id.
    Cold {
        far: Box<NewTask>,
        is_known: bool,
    },
    Refused(Error),
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
        while let Some(task) =
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
        let count = parts.counts.of(&*parts.cold, task_type).await;
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
            Route::Cold {
                far: task,
                is_known,
            } => {
                far.push((at, *task, is_known));
                None
            }
        });
    }
    let mut tasks = tasks;
    for (at, answer) in to_cold_store(parts, &tasks, far).await {
        let (outcome, is_anew) = match answer {
            Judged::Answered(outcome) => (Some(outcome), false),
            Judged::Hot => (None, false),
            Judged::Anew => (None, true),
        };
        if let Some(place) = outcomes.get_mut(at) {
            *place = outcome;
        }
        if let Some(task) = tasks.get_mut(at).filter(|_| is_anew) {
            task.on_conflict = OnConflict::Replace;
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
    if !is_far {
        let count = parts.counts.of(&*parts.cold, &task.task_type).await;
        if count.map_err(unasked)?.tasks == 0 {
            return Ok(Route::Hot);
        }
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
        let far = Box::new(to_cold(task, parts.lead()));
        let is_known = false;
        return Ok(Route::Cold { far, is_known });
    }
    let cold = ask(&parts.cold).await?;
    let runs_again = task.on_conflict.replaces() || task.again_if_running;
    let Some(cold) = cold.filter(|info| info.state != TaskState::Done) else {
        let is_free = hot.is_none() || runs_again;
        if !is_far || !is_free {
            return Ok(Route::Hot);
        }
        let far = Box::new(to_cold(task, parts.lead()));
        let is_known = false;
        return Ok(Route::Cold { far, is_known });
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
    let far = if is_far {
        to_cold(task, parts.lead())
    } else {
        probe(task, parts.lead())
    };
    Ok(Route::Cold {
        far: Box::new(far),
        is_known: !is_far,
    })
}

/// The form of a task for cold, which has a task with its id.
fn beside(parts: &Parts, task: &NewTask, present: &TaskInfo) -> Route {
    let is_known = true;
    let mut far = to_cold(task, parts.lead());
    if task.on_conflict.replaces() {
        let due = due_in_place_of(task, present, parts.now());
        if due < parts.now().plus(parts.lead()) {
            far = soon_to_cold(task, due, parts.lead());
        }
    }
    Route::Cold {
        far: Box::new(far),
        is_known,
    }
}

/// Refuses new far tasks beyond the limit of their type, which counts both stores. Near ones are
/// counted by hot, unless there are far ones.
async fn keep_bounds(parts: &Parts, tasks: &[NewTask], routes: &mut [Route]) {
    let mut rooms: HashMap<TaskType, Result<Option<Room>>> = HashMap::new();
    for (task, route) in tasks.iter().zip(routes) {
        let is_new = match route {
            Route::Cold { is_known, .. } => !*is_known,
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

/// The room of a type; `None` without a limit, and if hot alone counts.
async fn room(parts: &Parts, task_type: &TaskType) -> Result<Option<Room>> {
    let count = parts.counts.of(&*parts.cold, task_type).await?;
    let Some(limit) = count.limit else {
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

/// What comes of a task that was submitted to cold.
#[derive(Debug)]
enum Judged {
    Answered(Outcome),
    /// Hot decides.
    Hot,
    /// Hot takes it, whatever ended task with its id it remembers: that of cold ended later, and
    /// was another request.
    Anew,
}

/// Submits tasks to cold.
async fn to_cold_store(
    parts: &Parts,
    tasks: &[NewTask],
    far: Vec<(usize, NewTask, bool)>,
) -> Vec<(usize, Judged)> {
    if far.is_empty() {
        return Vec::new();
    }
    let (mut sent, mut batch) = (Vec::new(), Vec::new());
    for (at, task, is_known) in far {
        sent.push((at, is_known, is_probe(&task), task.headers.clone()));
        batch.push(task);
    }
    let answers = sent.into_iter().zip(parts.cold.submit(batch).await);
    let judged = answers.map(|((at, is_known, is_probe, headers), answer)| async move {
        let Some(task) = tasks.get(at) else {
            return (at, Judged::Hot);
        };
        let judged = match answer {
            Ok(SubmitOutcome::Accepted { due_at, replaced }) => {
                let due_at = real_due(&headers, due_at, parts.lead());
                parts.counts.add(&task.task_type);
                let accepted = SubmitOutcome::Accepted { due_at, replaced };
                let is_left = !replaced && (is_known || !parts.is_far(task.when));
                match judge_accepted(parts, task, accepted, is_left).await {
                    Judged::Hot if is_probe => Judged::Anew,
                    judged => judged,
                }
            }
            Ok(outcome) => judge_known(parts, task, outcome).await,
            Err(error) => Judged::Answered(Err(error)),
        };
        (at, judged)
    });
    join_all(judged).await
}

/// Looks whether hot has the id of a task that cold has just accepted. Then hot decides, and cold
/// gives its task up. `is_left` says that cold had a task with this id a moment ago.
async fn judge_accepted(
    parts: &Parts,
    task: &NewTask,
    accepted: SubmitOutcome,
    is_left: bool,
) -> Judged {
    let (task_type, id) = (&task.task_type, &task.id);
    let accepted = Judged::Answered(Ok(accepted));
    if let Judged::Answered(Ok(SubmitOutcome::Accepted { replaced: true, .. })) = accepted {
        return accepted;
    }
    let is_in_hot = match parts.hot.find(task_type, id).await {
        Ok(found) => found.is_some_and(|info| is_live(&info)),
        // The task is accepted: that hot cannot be asked is no reason to refuse it.
        Err(_) => false,
    };
    if !is_in_hot && !is_left {
        return accepted;
    }
    match parts.cold.cancel(task_type, id).await {
        Ok(CancelOutcome::Cancelled) => Judged::Hot,
        Ok(CancelOutcome::Running) => match parts.moved(task_type, id).await {
            Ok(()) => Judged::Hot,
            Err(_) => accepted,
        },
        _ => accepted,
    }
}

/// The outcome for a task whose id cold knows. A task that is being moved, or was, is hot's.
async fn judge_known(parts: &Parts, task: &NewTask, outcome: SubmitOutcome) -> Judged {
    let (SubmitOutcome::AlreadyExists { state } | SubmitOutcome::Conflict { state }) = outcome
    else {
        return Judged::Answered(Ok(outcome));
    };
    match state {
        TaskState::Running => match parts.moved(&task.task_type, &task.id).await {
            Ok(()) => Judged::Hot,
            Err(error) => Judged::Answered(Err(error)),
        },
        TaskState::Done => Judged::Hot,
        _ => Judged::Answered(Ok(outcome)),
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
