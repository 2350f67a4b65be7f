//! Outcomes in JSON.

use delayq_core::store::{CancelOutcome, ChangeOutcome, SubmitOutcome};
use delayq_core::{Error, Result, TaskState, TaskType, Timestamp};
use serde::Deserialize;

/// The answer of a call: an outcome for each task, in order.
#[derive(Debug, Deserialize)]
pub(super) struct Answers {
    pub(super) outcomes: Vec<Outcome>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    #[serde(rename = "outcome")]
    name: String,
    due_ms: Option<i64>,
    state: Option<TaskState>,
    pending: Option<u64>,
    max_pending: Option<u64>,
}

impl Outcome {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn of_submit(&self, task_type: &TaskType) -> Result<Result<SubmitOutcome>> {
        Ok(Ok(match self.name() {
            "accepted" | "replaced" => SubmitOutcome::Accepted {
                due_at: self.due_at()?,
                replaced: self.name() == "replaced",
            },
            "runs_again" => SubmitOutcome::RunsAgain {
                due_at: self.due_at()?,
            },
            "exists" => SubmitOutcome::AlreadyExists {
                state: self.state()?,
            },
            "conflict" => SubmitOutcome::Conflict {
                state: self.state()?,
            },
            "full" => {
                return Ok(Err(Error::QueueFull {
                    task_type: task_type.to_string(),
                    pending: self.pending.unwrap_or_default(),
                    limit: self.max_pending.unwrap_or_default(),
                }));
            }
            other => return Err(unknown(other)),
        }))
    }

    pub(super) fn of_cancel(&self) -> Result<CancelOutcome> {
        Ok(match self.name() {
            "cancelled" => CancelOutcome::Cancelled,
            "running" => CancelOutcome::Running,
            "finished" => CancelOutcome::Finished(self.state()?),
            "not_found" => CancelOutcome::NotFound,
            "relayed" => CancelOutcome::Relayed,
            other => return Err(unknown(other)),
        })
    }

    pub(super) fn of_change(&self) -> Result<ChangeOutcome> {
        Ok(match self.name() {
            "changed" => ChangeOutcome::Changed {
                due_at: self.due_at()?,
            },
            "running" => ChangeOutcome::Running,
            "finished" => ChangeOutcome::Finished(self.state()?),
            "not_found" => ChangeOutcome::NotFound,
            "relayed" => ChangeOutcome::Relayed,
            other => return Err(unknown(other)),
        })
    }

    fn due_at(&self) -> Result<Timestamp> {
        let due = self.due_ms.map(Timestamp::from_millis);
        due.ok_or_else(|| unknown(&format!("{} without due_ms", self.name)))
    }

    fn state(&self) -> Result<TaskState> {
        let unknown = || unknown(&format!("{} without a state", self.name));
        self.state.ok_or_else(unknown)
    }
}

/// The error for an answer that this release does not know.
pub(super) fn unknown(what: &str) -> Error {
    let most = what.floor_char_boundary(200);
    let what = what.get(..most).unwrap_or_default();
    Error::transaction(format!(
        "its answer is not known to this release: {what}; do the schema and the program have the \
         same release?"
    ))
}
