//! The locks of a task, as claims answered them.

use delayq_core::Timestamp;

use crate::event::ExtendAnswer;
use crate::history::{ClaimCall, History, Row, Step};

/// A lock that a claim answered.
#[derive(Clone, Copy, Debug)]
pub(in crate::check) struct LockView<'a> {
    pub(in crate::check) row: &'a Row,
    pub(in crate::check) call: ClaimCall,
    pub(in crate::check) fence: u64,
    pub(in crate::check) attempt: u32,
    pub(in crate::check) due: Timestamp,
    /// The end of the lock that its holder was told last.
    pub(in crate::check) until: Timestamp,
    /// When its holder last asked for the lock or its extension, and got it; monotonic.
    pub(in crate::check) alive: u64,
    /// How long it lasts from when it is given, in nanoseconds.
    pub(in crate::check) length_ns: u64,
}

impl LockView<'_> {
    /// When it ran out, if nobody extended it any more; monotonic.
    pub(in crate::check) fn ran_out(&self) -> u64 {
        self.alive.saturating_add(self.length_ns)
    }
}

/// By fence.
pub(super) fn locks<'a>(history: &'a History, rows: &'a [Row]) -> Vec<LockView<'a>> {
    let mut locks: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            let Step::Claim {
                call,
                fence,
                attempt,
                due,
                until,
            } = row.step
            else {
                return None;
            };
            let call = *history.claim(call)?;
            let length_ms = until.as_millis() - call.store_now.as_millis();
            let mut lock = LockView {
                row,
                call,
                fence,
                attempt,
                due,
                until,
                alive: row.from,
                length_ns: u64::try_from(length_ms).unwrap_or(0) * 1_000_000,
            };
            extend(&mut lock, rows);
            Some(lock)
        })
        .collect();
    locks.sort_by_key(|lock| lock.fence);
    locks
}

/// Takes the last extension into account, of those that were under way at the same time the one
/// that lasts longest.
fn extend(lock: &mut LockView<'_>, rows: &[Row]) {
    let mut last: Option<(&Row, Timestamp)> = None;
    for row in rows {
        let Step::Extend {
            fence,
            answer: Some(ExtendAnswer::Extended(until) | ExtendAnswer::CancelRequested(until)),
        } = row.step
        else {
            continue;
        };
        if fence != lock.fence {
            continue;
        }
        // The row was locked by somebody else: it keeps the end that it has.
        if until == lock.until {
            continue;
        }
        let until = match last {
            Some((before, longest)) if row.from <= before.to => longest.max(until),
            _ => until,
        };
        last = Some((row, until));
        lock.alive = lock.alive.max(row.from);
        lock.until = until;
    }
}
