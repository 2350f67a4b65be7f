//! Numbers as the file holds them.

use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;

/// The states by their stored forms: 0, 1, and so on. Never changed: files hold these numbers.
const STATES: [TaskState; 6] = [
    TaskState::Scheduled,
    TaskState::Running,
    TaskState::Dead,
    TaskState::Done,
    TaskState::Cancelled,
    TaskState::Expired,
];

/// The stored form of a state. One of a later release has -1, which no row has.
pub(crate) fn code(state: TaskState) -> i64 {
    let place = STATES.iter().position(|known| *known == state);
    place.map_or(-1, signed)
}

/// The state that `code` stands for.
pub(super) fn state(code: i64) -> Option<TaskState> {
    STATES.get(usize::try_from(code).ok()?).copied()
}

/// A number that is not negative, as a parameter.
pub(crate) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Whether a stored number is a time.
pub(crate) fn is_time(ms: i64) -> bool {
    (0..=Timestamp::MAX.as_millis()).contains(&ms)
}
