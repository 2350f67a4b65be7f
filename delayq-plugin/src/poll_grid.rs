//! Times of idle polls, shared by all types of a process.

use std::time::Duration;

/// The number of bursts in which the polls of one interval go out.
const BURSTS: u32 = 8;

/// The grid of times for idle polls. The polls of thousands of types then come in a few bursts,
/// which wake fewer threads and share the pipelines of a store. Due times are not moved to the
/// grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollGrid {
    interval: Duration,
}

impl PollGrid {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval }
    }

    /// The last grid time that is at most one interval after `from`.
    pub(crate) fn next(self, from: Duration) -> Duration {
        let latest = from.saturating_add(self.interval);
        let step = (self.interval / BURSTS).as_nanos().max(1);
        let past = u64::try_from(latest.as_nanos() % step).unwrap_or(0);
        latest.saturating_sub(Duration::from_nanos(past))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn polls_of_many_types_come_in_eight_bursts_and_never_later_than_the_interval() {
        let interval = Duration::from_secs(1);
        let mut times = BTreeSet::new();
        for type_number in 0..2_000 {
            let sent_at = Duration::from_secs(5) + Duration::from_micros(500) * type_number;
            let next = PollGrid::new(interval).next(sent_at);
            assert!(next <= sent_at + interval, "{sent_at:?}: {next:?}");
            assert!(next > sent_at + interval * 7 / 8, "{sent_at:?}: {next:?}");
            times.insert(next);
        }
        assert_eq!(times.len(), 8);
        assert_eq!(PollGrid::new(Duration::ZERO).next(interval), interval);
    }
}
