//! Numbers in the format of the file.

use delayq_core::machine::Settled;
use delayq_core::state::TaskState;
use delayq_core::store::EndKind;
use delayq_core::time::Timestamp;

/// A number larger than that of any kind of end.
const KINDS: u64 = 8;

/// The states in the order of their stored numbers: 0, 1, and so on. Never changed, as files hold
/// these numbers.
const STATES: [TaskState; 6] = [
    TaskState::Scheduled,
    TaskState::Running,
    TaskState::Dead,
    TaskState::Done,
    TaskState::Cancelled,
    TaskState::Expired,
];

/// The stored number of a state. A state of a later release has -1, which no row has.
pub(crate) fn code(state: TaskState) -> i64 {
    let place = STATES.iter().position(|known| *known == state);
    place.map_or(-1, signed)
}

/// The state with the stored number `code`.
pub(super) fn state(code: i64) -> Option<TaskState> {
    STATES.get(usize::try_from(code).ok()?).copied()
}

/// The stored number for the way a lock was settled: its fence and the kind of its end in one
/// number, because an earlier release changes only the fence. `None` if the kind is not known.
pub(super) fn settled_code(settled: Settled) -> Option<i64> {
    let above = settled.fence.checked_mul(KINDS)?;
    let code = above.checked_add(settled.by?.number().into())?;
    code.try_into().ok()
}

/// The kind of end in `code`, if it is about the lock with this fence.
pub(super) fn kind_of(code: i64, fence: u64) -> Option<EndKind> {
    let code = u64::try_from(code).ok()?;
    let number = u8::try_from(code % KINDS).ok()?;
    EndKind::from_number(number).filter(|_| code / KINDS == fence)
}

/// A non-negative number as a parameter.
pub(crate) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// True if a stored number is a valid time.
pub(crate) fn is_time(ms: i64) -> bool {
    (0..=Timestamp::MAX.as_millis()).contains(&ms)
}
