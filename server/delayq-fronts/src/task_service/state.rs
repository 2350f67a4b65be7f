//! States of tasks as clients of the service see them.

use delayq_plugin::{TaskInfo, TaskState};
use delayq_proto::pb::tasks::State;

/// The state of a task.
pub(super) fn of_task(task: &TaskInfo) -> State {
    match task.state {
        TaskState::Scheduled if task.attempt > 0 => State::Retrying,
        state => of_state(state),
    }
}

/// The state without regard to attempts.
pub(super) fn of_state(state: TaskState) -> State {
    match state {
        TaskState::Scheduled => State::Waiting,
        TaskState::Running => State::Running,
        TaskState::Done => State::Success,
        TaskState::Dead => State::Failed,
        TaskState::Cancelled => State::Cancelled,
        TaskState::Expired => State::Expired,
        _ => State::Unspecified,
    }
}

/// The name of a state in JSON.
pub(super) fn name(state: i32) -> &'static str {
    match State::try_from(state) {
        Ok(State::Waiting) => "waiting",
        Ok(State::Running) => "running",
        Ok(State::Retrying) => "retrying",
        Ok(State::Success) => "success",
        Ok(State::Failed) => "failed",
        Ok(State::Cancelled) => "cancelled",
        Ok(State::Expired) => "expired",
        Ok(State::Unspecified) | Err(_) => "unknown",
    }
}
