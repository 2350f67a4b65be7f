//! Numbers as the file holds them.

use delayq_core::machine::Settled;
use delayq_core::state::TaskState;
use delayq_core::store::EndKind;
use delayq_core::time::Timestamp;

/// More than the number of any kind of end.
const KINDS: u64 = 8;

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

/// The stored form of how a lock was settled: its fence and the kind of its end in one number, as
/// an earlier release changes the fence alone. `None` where the kind is not known.
pub(super) fn settled_code(settled: Settled) -> Option<i64> {
    let above = settled.fence.checked_mul(KINDS)?;
    let code = above.checked_add(settled.by?.number().into())?;
    code.try_into().ok()
}

/// The kind of the end that `code` stands for, if it is about the lock with this fence.
pub(super) fn kind_of(code: i64, fence: u64) -> Option<EndKind> {
    let code = u64::try_from(code).ok()?;
    let number = u8::try_from(code % KINDS).ok()?;
    EndKind::from_number(number).filter(|_| code / KINDS == fence)
}

/// A number that is not negative, as a parameter.
pub(crate) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Whether a stored number is a time.
pub(crate) fn is_time(ms: i64) -> bool {
    (0..=Timestamp::MAX.as_millis()).contains(&ms)
}
