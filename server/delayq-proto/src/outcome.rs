//! States, and outcomes of calls on one task.

use delayq_core::store::{CancelOutcome, ChangeOutcome, SubmitOutcome};
use delayq_core::{Error, Result, TaskState};

use crate::field::{required, unknown};
use crate::pb;
use crate::time::{read_time, time};

impl From<TaskState> for pb::TaskState {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Scheduled => Self::Scheduled,
            TaskState::Running => Self::Running,
            TaskState::Dead => Self::Dead,
            TaskState::Done => Self::Done,
            TaskState::Cancelled => Self::Cancelled,
            TaskState::Expired => Self::Expired,
            _ => Self::Unspecified,
        }
    }
}

/// The number of a state in a message.
#[must_use]
pub fn state(state: TaskState) -> i32 {
    pb::TaskState::from(state).into()
}

/// The state in a message.
///
/// # Errors
/// `InvalidInput` if it is absent or unknown.
pub fn read_state(value: i32) -> Result<TaskState> {
    match pb::TaskState::try_from(value) {
        Ok(pb::TaskState::Scheduled) => Ok(TaskState::Scheduled),
        Ok(pb::TaskState::Running) => Ok(TaskState::Running),
        Ok(pb::TaskState::Dead) => Ok(TaskState::Dead),
        Ok(pb::TaskState::Done) => Ok(TaskState::Done),
        Ok(pb::TaskState::Cancelled) => Ok(TaskState::Cancelled),
        Ok(pb::TaskState::Expired) => Ok(TaskState::Expired),
        Ok(pb::TaskState::Unspecified) | Err(_) => Err(unknown("state", value)),
    }
}

impl pb::SubmitResult {
    /// The outcome for the task `id`. A conflict is an outcome, even if it comes as an error.
    #[must_use]
    pub fn new(id: String, result: Result<SubmitOutcome>) -> Self {
        use pb::submit_result::Outcome;
        let outcome = match result {
            Ok(SubmitOutcome::Accepted { due_at, replaced }) => Outcome::Accepted(pb::Accepted {
                due_at: Some(time(due_at)),
                replaced,
            }),
            Ok(SubmitOutcome::RunsAgain { due_at }) => Outcome::RunsAgainAt(time(due_at)),
            Ok(SubmitOutcome::AlreadyExists { state: at }) => Outcome::AlreadyExists(state(at)),
            Ok(SubmitOutcome::Conflict { state: at }) | Err(Error::Conflict { state: at, .. }) => {
                Outcome::Conflict(state(at))
            }
            Ok(_) => Outcome::Error(Error::Unsupported("this outcome of a submit").into()),
            Err(error) => Outcome::Error(error.into()),
        };
        Self {
            id,
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<pb::SubmitResult> for SubmitOutcome {
    type Error = Error;

    /// Returns the error if the result is one.
    fn try_from(result: pb::SubmitResult) -> Result<Self> {
        use pb::submit_result::Outcome;
        match required("outcome", result.outcome)? {
            Outcome::Accepted(accepted) => Ok(Self::Accepted {
                due_at: read_time("due_at", required("due_at", accepted.due_at)?)?,
                replaced: accepted.replaced,
            }),
            Outcome::RunsAgainAt(due_at) => Ok(Self::RunsAgain {
                due_at: read_time("runs_again_at", due_at)?,
            }),
            Outcome::AlreadyExists(state) => Ok(Self::AlreadyExists {
                state: read_state(state)?,
            }),
            Outcome::Conflict(state) => Ok(Self::Conflict {
                state: read_state(state)?,
            }),
            Outcome::Error(error) => Err(error.into()),
        }
    }
}

impl From<CancelOutcome> for pb::CancelResponse {
    fn from(outcome: CancelOutcome) -> Self {
        use pb::cancel_response::Outcome;
        let outcome = match outcome {
            CancelOutcome::Cancelled => Some(Outcome::Cancelled(true)),
            CancelOutcome::Running => Some(Outcome::Running(true)),
            CancelOutcome::Finished(at) => Some(Outcome::Finished(state(at))),
            CancelOutcome::NotFound => Some(Outcome::NotFound(true)),
            _ => None,
        };
        Self { outcome }
    }
}

impl TryFrom<pb::CancelResponse> for CancelOutcome {
    type Error = Error;

    fn try_from(response: pb::CancelResponse) -> Result<Self> {
        use pb::cancel_response::Outcome;
        Ok(match required("outcome", response.outcome)? {
            Outcome::Cancelled(_) => Self::Cancelled,
            Outcome::Running(_) => Self::Running,
            Outcome::Finished(state) => Self::Finished(read_state(state)?),
            Outcome::NotFound(_) => Self::NotFound,
        })
    }
}

impl From<ChangeOutcome> for pb::ChangeResponse {
    fn from(outcome: ChangeOutcome) -> Self {
        use pb::change_response::Outcome;
        let outcome = match outcome {
            ChangeOutcome::Changed { due_at } => Some(Outcome::ChangedDueAt(time(due_at))),
            ChangeOutcome::Running => Some(Outcome::Running(true)),
            ChangeOutcome::Finished(at) => Some(Outcome::Finished(state(at))),
            ChangeOutcome::NotFound => Some(Outcome::NotFound(true)),
            _ => None,
        };
        Self { outcome }
    }
}

impl TryFrom<pb::ChangeResponse> for ChangeOutcome {
    type Error = Error;

    fn try_from(response: pb::ChangeResponse) -> Result<Self> {
        use pb::change_response::Outcome;
        Ok(match required("outcome", response.outcome)? {
            Outcome::ChangedDueAt(due_at) => Self::Changed {
                due_at: read_time("changed_due_at", due_at)?,
            },
            Outcome::Running(_) => Self::Running,
            Outcome::Finished(state) => Self::Finished(read_state(state)?),
            Outcome::NotFound(_) => Self::NotFound,
        })
    }
}
