//! Delivers claimed tasks of cold to hot, and says how each is settled in cold.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, ExtendOutcome, Settlement, SubmitOutcome};
use delayq_core::{
    Bucket, ClaimedTask, Clock, Error, Lock, NewTask, Result, SystemClock, TaskState, TaskType,
    Timestamp, seconds,
};
use futures_util::future::join_all;

use super::doubt::{Suspect, Verdict, judge};
use crate::far::to_hot;
use crate::parts::{Parts, unasked};

/// How long a task waits in cold that hot did not take, for the first time.
const AGAIN: Duration = seconds(1);

/// The longest wait of a task in doubt, for whose move changes wait.
const LONGEST_DOUBT: Duration = seconds(2);

/// How often that wait is doubled at most.
const LONGEST_AGAIN: u32 = 5;

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

    fn release(&mut self, lock: Lock, after: Duration) {
        let succeeded = Vec::new();
        self.settle(lock, AttemptEnd::Release { after, succeeded });
    }
}

/// A task on its way.
#[derive(Clone, Debug)]
struct Parcel {
    lock: Lock,
    task: NewTask,
    accepted_at: Timestamp,
    /// True if an earlier promoter may have submitted it.
    is_in_doubt: bool,
    /// True if hot had another task with its id when it was submitted.
    is_refused: bool,
    /// How often it was not moved before.
    tries: u32,
}

/// Submits tasks that were claimed after `began` to hot.
///
/// # Errors
/// Nothing was submitted.
pub(super) async fn deliver(
    parts: &Parts,
    bucket: &Bucket,
    claimed: Vec<ClaimedTask>,
    began: Duration,
) -> Result<Delivered> {
    let packed = claimed
        .into_iter()
        .map(|task| pack(parts, bucket.task_type(), task));
    let mut parcels = Vec::new();
    for packed in join_all(packed).await {
        parcels.push(packed?);
    }
    let mut delivered = Delivered::default();
    let is_in_doubt = |parcel: &Parcel| parcel.is_in_doubt;
    let (doubtful, mut parcels): (Vec<_>, Vec<_>) = parcels.into_iter().partition(is_in_doubt);
    parcels.extend(judged(parts, bucket, doubtful, &mut delivered).await?);
    if SystemClock.elapsed() >= began + parts.options.lock / 2 {
        // Another promoter may soon have the locks.
        let detail = "moving a batch took too long: it is moved again";
        return Err(Error::unavailable(parts.name(), detail));
    }
    let known = submit(parts, parcels, &mut delivered).await;
    if known.is_empty() {
        return Ok(delivered);
    }
    // Either hot knows another task with the id, or another promoter has moved this one while this
    // promoter was slow.
    let known = still_held(parts, bucket, known, &mut delivered).await;
    match judged(parts, bucket, known.clone(), &mut delivered).await {
        Ok(anew) => {
            for parcel in submit(parts, anew, &mut delivered).await {
                let state = TaskState::Scheduled;
                delivered.settle(parcel.lock, taken(state));
            }
        }
        Err(error) => {
            for parcel in known {
                conclude(&mut delivered, parcel, Err(error.clone()));
            }
        }
    }
    Ok(delivered)
}

/// Submits tasks to hot. Answers those whose id it knows for another task.
async fn submit(parts: &Parts, parcels: Vec<Parcel>, delivered: &mut Delivered) -> Vec<Parcel> {
    let batch: Vec<_> = parcels.iter().map(|parcel| parcel.task.clone()).collect();
    if batch.is_empty() {
        return Vec::new();
    }
    let answers = parts.hot.submit(batch).await;
    let mut known = Vec::new();
    for (parcel, answer) in parcels.into_iter().zip(answers) {
        match answer {
            Ok(SubmitOutcome::AlreadyExists { state }) if state.is_ended() => known.push(parcel),
            Ok(SubmitOutcome::Conflict { .. }) => {
                let is_refused = true;
                known.push(Parcel {
                    is_refused,
                    ..parcel
                });
            }
            answer => conclude(delivered, parcel, answer),
        }
    }
    known
}

/// Makes the locks last, and keeps the tasks whose lock this promoter still has.
async fn still_held(
    parts: &Parts,
    bucket: &Bucket,
    parcels: Vec<Parcel>,
    delivered: &mut Delivered,
) -> Vec<Parcel> {
    let locks = parcels.iter().map(|parcel| parcel.lock.clone()).collect();
    let answers = match parts.cold.extend(bucket, locks, parts.options.lock).await {
        Ok(answers) => answers,
        Err(error) => {
            // They may be another promoter's.
            delivered.refused = Some(error);
            return Vec::new();
        }
    };
    let mut held = Vec::new();
    for (parcel, answer) in parcels.into_iter().zip(answers) {
        match answer {
            ExtendOutcome::Extended(_) => held.push(parcel),
            ExtendOutcome::CancelRequested(_) => delivered.release(parcel.lock, Duration::ZERO),
            _ => {}
        }
    }
    held
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
    let (accepted_at, tries) = (task.submitted_at, history.failures + history.releases);
    Ok(Parcel {
        lock,
        task: to_hot(task, empty, due, parts.lead()),
        accepted_at,
        is_in_doubt,
        is_refused: false,
        tries,
    })
}

/// Settles the tasks that hot has had already, and sets those aside that it may have had. Answers
/// those that are to be submitted.
async fn judged(
    parts: &Parts,
    bucket: &Bucket,
    parcels: Vec<Parcel>,
    delivered: &mut Delivered,
) -> Result<Vec<Parcel>> {
    if parcels.is_empty() {
        return Ok(parcels);
    }
    let task_type = bucket.task_type();
    let found = parcels
        .iter()
        .map(|parcel| parts.hot.find(task_type, &parcel.lock.id));
    let found: Result<Vec<_>> = join_all(found).await.into_iter().collect();
    let found = found.map_err(unasked)?;
    let counts = parts.hot.stats(task_type).await.map_err(unasked)?;
    let mut open = Vec::new();
    for (mut parcel, found) in parcels.into_iter().zip(found) {
        let suspect = Suspect {
            task: &parcel.task,
            accepted_at: parcel.accepted_at,
            is_in_doubt: parcel.is_in_doubt,
            is_refused: parcel.is_refused,
            found,
        };
        let verdict = judge(parts.lead(), &counts, suspect);
        // Hot has not had it.
        parcel.is_in_doubt = false;
        match verdict {
            Verdict::Submit => open.push(parcel),
            Verdict::Anew => {
                // It overrules what has ended, and nothing else.
                parcel.task.again_if_running = true;
                open.push(parcel);
            }
            Verdict::Moved => delivered.settle(parcel.lock, AttemptEnd::Done),
            Verdict::Taken(state) => delivered.settle(parcel.lock, taken(state)),
            Verdict::Unknown => delivered.settle(parcel.lock, set_aside(MAY_HAVE_RUN)),
        }
    }
    Ok(open)
}

/// The error of a task that may have run.
const MAY_HAVE_RUN: &str = "it may have run already: a move to the hot store was broken off, and \
    the hot store has forgotten ended tasks since, or remembers one that ended about when this one \
    was to be moved. Requeue it to run it, or discard it";

fn set_aside(error: &str) -> AttemptEnd {
    AttemptEnd::Dead {
        error: error.to_owned(),
        succeeded: Vec::new(),
    }
}

/// The end of a task whose id another one has in hot.
fn taken(state: TaskState) -> AttemptEnd {
    set_aside(&format!(
        "the hot store has another task with its id, which is {state}. Requeue it once that has \
         ended, or discard it"
    ))
}

/// Settles a task by the answer of hot.
fn conclude(delivered: &mut Delivered, parcel: Parcel, answer: Result<SubmitOutcome>) {
    let Err(error) = answer else {
        delivered.settle(parcel.lock, AttemptEnd::Done);
        return;
    };
    let after = AGAIN * 2_u32.saturating_pow(parcel.tries.min(LONGEST_AGAIN));
    // A store that is being closed may have taken it.
    if error.is_indeterminate() || matches!(error, Error::Closed(_)) {
        let end = AttemptEnd::Retry {
            after: after.min(LONGEST_DOUBT),
            error: format!("it could not be moved to the hot store: {error}"),
            succeeded: Vec::new(),
        };
        delivered.settle(parcel.lock, end);
    } else {
        delivered.release(parcel.lock, after);
    }
    delivered.refused = Some(error);
}
