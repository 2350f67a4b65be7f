//! Delivers claimed tasks of cold to hot, and says how each is settled in cold.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, Settlement, SubmitOutcome};
use delayq_core::{
    ClaimedTask, Clock, Error, Lock, NewTask, OnConflict, Result, SystemClock, TaskType, seconds,
};
use futures_util::future::join_all;

use super::doubt::{Verdict, judge};
use crate::far::to_hot;
use crate::parts::{Parts, unasked};

/// How long a task waits in cold that hot did not take.
const AGAIN: Duration = seconds(1);

/// What is to be settled in cold.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    pub(super) settlements: Vec<Settlement>,
    pub(super) done: u64,
    /// The reason why hot did not take a task.
    pub(super) refused: Option<Error>,
}

impl Delivered {
    fn settle(&mut self, lock: Lock, end: AttemptEnd) {
        self.done += u64::from(end == AttemptEnd::Done);
        self.settlements.push(Settlement::new(lock, end));
    }
}

/// A task on its way.
#[derive(Debug)]
struct Parcel {
    lock: Lock,
    task: NewTask,
    /// True if an earlier promoter may have submitted it.
    is_in_doubt: bool,
}

/// Submits tasks that were claimed after `began` to hot.
pub(super) async fn deliver(
    parts: &Parts,
    task_type: &TaskType,
    claimed: Vec<ClaimedTask>,
    began: Duration,
) -> Result<Delivered> {
    let packed = claimed.into_iter().map(|task| pack(parts, task_type, task));
    let mut parcels = Vec::new();
    for packed in join_all(packed).await {
        parcels.push(packed?);
    }
    let mut delivered = Delivered::default();
    let parcels = without_known(parts, task_type, parcels, &mut delivered).await?;
    if SystemClock.elapsed() >= began + parts.options.lock / 2 {
        // Another promoter may soon have the locks.
        let detail = "moving a batch took too long: it is moved again";
        return Err(Error::unavailable(parts.name(), detail));
    }
    let batch: Vec<_> = parcels.iter().map(|parcel| parcel.task.clone()).collect();
    if batch.is_empty() {
        return Ok(delivered);
    }
    let answers = parts.hot.submit(batch).await;
    let mut reborn = Vec::new();
    for (parcel, answer) in parcels.into_iter().zip(answers) {
        match answer {
            // An end of an earlier task with the same content: this one was accepted after it.
            Ok(SubmitOutcome::AlreadyExists { state })
                if state.is_ended() && !parcel.is_in_doubt =>
            {
                reborn.push(parcel);
            }
            answer => conclude(&mut delivered, parcel, answer),
        }
    }
    for parcel in &mut reborn {
        parcel.task.on_conflict = OnConflict::Replace;
    }
    let batch: Vec<_> = reborn.iter().map(|parcel| parcel.task.clone()).collect();
    if !batch.is_empty() {
        let answers = parts.hot.submit(batch).await;
        for (parcel, answer) in reborn.into_iter().zip(answers) {
            conclude(&mut delivered, parcel, answer);
        }
    }
    Ok(delivered)
}

/// The form for hot of a claimed task.
async fn pack(parts: &Parts, task_type: &TaskType, task: ClaimedTask) -> Result<Parcel> {
    let (lock, history) = (task.lock.clone(), &task.history);
    let is_in_doubt = history.failures + history.lock_expiries > 0;
    let has_waited = history.failures + history.releases > 0;
    let due = if has_waited {
        // The due time of an attempt after a wait is the end of the wait.
        let found = parts.cold.find(task_type, &lock.id).await?;
        found.and_then(|info| info.due_at).unwrap_or(task.due_at)
    } else {
        task.due_at
    };
    let empty = NewTask::new(task_type.clone(), lock.id.clone(), Vec::new());
    Ok(Parcel {
        lock,
        task: to_hot(task, empty, due, parts.lead()),
        is_in_doubt,
    })
}

/// Settles the tasks that hot has had already, and sets those aside that it may have had.
async fn without_known(
    parts: &Parts,
    task_type: &TaskType,
    parcels: Vec<Parcel>,
    delivered: &mut Delivered,
) -> Result<Vec<Parcel>> {
    if parcels.iter().all(|parcel| !parcel.is_in_doubt) {
        return Ok(parcels);
    }
    let since = parts.hot.stats(task_type).await.map_err(unasked)?;
    let judged = parcels.into_iter().map(|parcel| async {
        let verdict = if parcel.is_in_doubt {
            judge(parts, &since, &parcel.task).await?
        } else {
            Verdict::Submit
        };
        Ok::<_, Error>((parcel, verdict))
    });
    let mut open = Vec::new();
    for judged in join_all(judged).await {
        let (mut parcel, verdict) = judged?;
        match verdict {
            Verdict::Submit => open.push(parcel),
            Verdict::Anew => {
                parcel.is_in_doubt = false;
                open.push(parcel);
            }
            Verdict::Moved => delivered.settle(parcel.lock, AttemptEnd::Done),
            Verdict::Unknown => delivered.settle(parcel.lock, set_aside(SET_ASIDE)),
        }
    }
    Ok(open)
}

/// The error of a task that may have run.
const SET_ASIDE: &str = "it may have run already: a move to the hot store was broken off, and \
    since its due time the hot store has forgotten ended tasks. Requeue it to run it, or discard it";

fn set_aside(error: &str) -> AttemptEnd {
    AttemptEnd::Dead {
        error: error.to_owned(),
        succeeded: Vec::new(),
    }
}

/// Settles a task by the answer of hot.
fn conclude(delivered: &mut Delivered, parcel: Parcel, answer: Result<SubmitOutcome>) {
    let succeeded = Vec::new();
    let end = match answer {
        Ok(SubmitOutcome::Conflict { state }) if !parcel.is_in_doubt => {
            let error = format!(
                "the hot store has another task with its id, which is {state}. Requeue it once \
                 that has ended, or discard it"
            );
            set_aside(&error)
        }
        Ok(_) => AttemptEnd::Done,
        Err(error) => {
            let text = format!("it could not be moved to the hot store: {error}");
            let is_in_doubt = error.is_indeterminate();
            delivered.refused = Some(error);
            if is_in_doubt {
                AttemptEnd::Retry {
                    after: AGAIN,
                    error: text,
                    succeeded,
                }
            } else {
                AttemptEnd::Release {
                    after: AGAIN,
                    succeeded,
                }
            }
        }
    };
    delivered.settle(parcel.lock, end);
}
