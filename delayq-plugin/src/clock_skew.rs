//! Difference between the clocks of a store and of this host.

use std::fmt;
use std::time::Duration;

use delayq_core::Timestamp;
use delayq_core::store::CLOCK_GUARD;
use serde::{Serialize, Serializer};

/// The clocks of the store and of this host differ by more than 500 ms.
///
/// The store's clock decides when a task is due, so a sender's wrong clock does not move a task.
/// The drawback: a relative delay that is sent while the *store's* clock is behind ends early once
/// that clock is set right. There is deliberately no guard at submit (one that would also wait for
/// the delay on the sender's clock): two clocks cannot tell which of them is wrong, and a sender
/// whose clock is an hour ahead would make all its tasks an hour late. The difference is reported
/// instead: in the [`Receipt`](crate::Receipt), in the [health](crate::HandlerHealth::clock_skew)
/// of handlers, and in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockSkew {
    /// The store's clock is this far ahead of this host's. Handlers here start a task when both
    /// clocks say that it is due (within 500 ms).
    StoreAhead(Duration),
    /// The store's clock is this far behind this host's. Tasks start by the store's clock.
    StoreBehind(Duration),
    /// The store has issued fences this far in the future. Fences follow the store's clock, so this
    /// host's clock is behind another instance's or was set back, or the store's clock was ahead
    /// earlier.
    FencesAhead(Duration),
}

impl ClockSkew {
    /// The difference between the clocks.
    #[must_use]
    pub fn span(self) -> Duration {
        match self {
            Self::StoreAhead(span) | Self::StoreBehind(span) | Self::FencesAhead(span) => span,
        }
    }

    /// The difference between the store's time and this host's. `store` is the time in one of the
    /// store's answers, such as that of `stats`; `before` and `after` are this host's time before
    /// and after that call. `None` if they differ by 500 ms or less.
    #[must_use]
    pub fn between(store: Timestamp, before: Timestamp, after: Timestamp) -> Option<Self> {
        Self::measure(store, CallWindow { before, after })
    }

    /// Compares the store's time with this host's time before and after the call that returned it,
    /// so that a slow call does not count as a skew.
    pub(crate) fn measure(store: Timestamp, call: CallWindow) -> Option<Self> {
        let (ahead, behind) = (store.since(call.after), call.before.since(store));
        if ahead > CLOCK_GUARD {
            return Some(Self::StoreAhead(ahead));
        }
        (behind > CLOCK_GUARD).then_some(Self::StoreBehind(behind))
    }

    /// Compares the largest fence issued with this host's clock: a fence is never below the time of
    /// its issue in microseconds. This is the only sign of a skew if the store uses the host's
    /// clock.
    pub(crate) fn of_fence(high_water: u64, now: Timestamp) -> Option<Self> {
        let given_at = i64::try_from(high_water / 1_000).unwrap_or(i64::MAX);
        let ahead = Timestamp::from_millis(given_at).since(now);
        (ahead > CLOCK_GUARD).then_some(Self::FencesAhead(ahead))
    }
}

/// This host's clock before and after a call to the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallWindow {
    pub(crate) before: Timestamp,
    pub(crate) after: Timestamp,
}

/// Serialized as its `Display` text.
impl Serialize for ClockSkew {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for ClockSkew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoreAhead(span) => {
                write!(f, "the store's clock is {span:?} ahead of this host's")
            }
            Self::StoreBehind(span) => {
                write!(f, "the store's clock is {span:?} behind this host's")
            }
            Self::FencesAhead(span) => write!(
                f,
                "the store's fences are {span:?} ahead of this host's clock, which is behind"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_by_more_than_the_guard_are_reported_in_both_directions() {
        let at = Timestamp::from_millis;
        let (before, after) = (at(10_000), at(12_000));
        let measure = |store| ClockSkew::measure(at(store), CallWindow { before, after });
        assert_eq!(measure(9_500), None);
        assert_eq!(measure(12_500), None);
        let millis = Duration::from_millis;
        assert_eq!(measure(9_499), Some(ClockSkew::StoreBehind(millis(501))));
        assert_eq!(measure(12_501), Some(ClockSkew::StoreAhead(millis(501))));
    }

    #[test]
    fn a_fence_from_the_future_tells_that_the_clock_of_this_host_is_behind() {
        let now = Timestamp::from_millis(10_000);
        assert_eq!(ClockSkew::of_fence(0, now), None);
        assert_eq!(ClockSkew::of_fence(10_500_999, now), None);
        let ahead = Duration::from_millis(501);
        let skew = ClockSkew::of_fence(10_501_000, now);
        assert_eq!(skew, Some(ClockSkew::FencesAhead(ahead)));
    }
}
