//! Numbers as the file holds them.

use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;

/// The stored form of a state. Never changed: files hold these numbers.
pub(crate) fn code(state: TaskState) -> i64 {
    match state {
        TaskState::Scheduled => 0,
        TaskState::Running => 1,
        TaskState::Dead => 2,
        TaskState::Done => 3,
        TaskState::Cancelled => 4,
        TaskState::Expired => 5,
        // A state of a later release: no row has it.
        _ => -1,
    }
}

/// The state that `code` stands for.
pub(super) fn state(code: i64) -> Option<TaskState> {
    Some(match code {
        0 => TaskState::Scheduled,
        1 => TaskState::Running,
        2 => TaskState::Dead,
        3 => TaskState::Done,
        4 => TaskState::Cancelled,
        5 => TaskState::Expired,
        _ => return None,
    })
}

/// A count as a parameter.
pub(crate) fn sql_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A number that is not negative, as a parameter.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whether a stored number is a time.
pub(crate) fn is_time(ms: i64) -> bool {
    (0..=Timestamp::MAX.as_millis()).contains(&ms)
}
