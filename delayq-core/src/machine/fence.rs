//! Fences: the numbers of locks.

use crate::time::Timestamp;

/// The largest fence: the last number that Lua and JSON keep exact.
pub const MAX_FENCE: u64 = (1 << 53) - 1;

/// The largest fence derived from a time alone: it leaves a trillion above it.
const MAX_TIME_FENCE: u64 = MAX_FENCE - (1 << 40);

/// The fence after `high_water`: larger than every earlier one, and not below the time in
/// microseconds, so that a store that lost its last writes (fail-over, restored backup) still
/// issues larger ones. `None` if no fence is left, which only a damaged `high_water` can cause.
#[must_use]
pub fn next_fence(high_water: u64, now: Timestamp) -> Option<u64> {
    let time = u64::try_from(now.as_millis().saturating_mul(1_000)).unwrap_or(0);
    let next = time.min(MAX_TIME_FENCE).max(high_water.checked_add(1)?);
    (next <= MAX_FENCE).then_some(next)
}

/// What has become of the store, if its largest fence is `found` although it issued `known`: fences
/// only grow, so everything after `found` is lost. `None` for a store that has lost nothing.
#[must_use]
pub fn loss(known: u64, found: u64) -> Option<String> {
    match found {
        _ if found >= known => None,
        0 => Some("it was emptied, or another one took its place".to_owned()),
        _ => Some(format!(
            "it has gone back from fence {known} to {found}, as an older copy of it would"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_larger_than_the_last_and_not_below_the_time() {
        let now = Timestamp::from_millis(1_000);
        assert_eq!(next_fence(0, now), Some(1_000_000));
        assert_eq!(next_fence(1_000_000, now), Some(1_000_001));
        assert_eq!(next_fence(0, Timestamp::MAX), Some(MAX_TIME_FENCE));
    }

    #[test]
    fn no_fence_follows_one_that_is_beyond_what_stays_exact() {
        assert_eq!(next_fence(MAX_FENCE - 1, Timestamp::ZERO), Some(MAX_FENCE));
        assert_eq!(next_fence(MAX_FENCE, Timestamp::ZERO), None);
        assert_eq!(next_fence(u64::MAX, Timestamp::ZERO), None);
    }
}
