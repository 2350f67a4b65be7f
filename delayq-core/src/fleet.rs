//! Limits of a task type over all instances together.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Maximum number of starts in one span.
const MAX_STARTS: u32 = 1_000_000;
/// The shortest span: stores return the time of the next start in whole milliseconds.
const MIN_SPAN: Duration = Duration::from_millis(1);
/// The longest span.
const MAX_SPAN: Duration = Duration::from_hours(24);
/// Maximum number of starts at once. With [`MAX_SPAN`] it keeps the products in Lua below 2^53, and
/// so exact.
const MAX_BURST: u32 = 100_000;
/// The default burst is the number of starts allowed in this time: long enough that the round trips
/// to the store leave no start unused, short enough that hardly anybody notices a burst.
const BURST_SPAN: Duration = Duration::from_millis(100);

/// The limits of a type over all instances; default: none.
///
/// The store enforces them within the claim. Instances that were started with different limits each
/// use their own, unless the type's [settings](crate::operate::TypeSettings) have a limit, which
/// then applies to all. A type with a limit has one shard: [`Error::FleetLimitOnShards`].
///
/// [`Error::FleetLimitOnShards`]: crate::Error::FleetLimitOnShards
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetLimits {
    /// Maximum number of running tasks of the type, at least 1. A task counts while it has a lock,
    /// even an expired one that nobody has taken over yet.
    pub concurrency: Option<u32>,
    /// The allowed starts of tasks of the type per span.
    pub rate: Option<Rate>,
}

impl FleetLimits {
    /// No limits.
    pub const NONE: Self = Self {
        concurrency: None,
        rate: None,
    };

    /// These limits, with those of `other` for each one that is not set.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            concurrency: self.concurrency.or(other.concurrency),
            rate: self.rate.or(other.rate),
        }
    }

    /// The tighter of two workers' limits.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        let concurrency = [self.concurrency, other.concurrency];
        Self {
            concurrency: concurrency.into_iter().flatten().min(),
            rate: match (self.rate, other.rate) {
                (Some(one), Some(two)) => Some(one.slower(two)),
                (one, two) => one.or(two),
            },
        }
    }

    /// The number of tasks that may start now while `running` tasks run in the fleet.
    #[must_use]
    pub fn free_slots(&self, running: usize) -> usize {
        let most = self.concurrency.map(|most| most.max(1));
        let most = most.and_then(|most| usize::try_from(most).ok());
        most.map_or(usize::MAX, |most| most.saturating_sub(running))
    }

    /// The reason why these limits are not valid, if so.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        if self.concurrency == Some(0) {
            return Some("fleet_concurrency must be at least 1: with 0 no task would ever run");
        }
        self.rate.and_then(|rate| rate.problem())
    }
}

/// A number of starts per span, such as 100 a second.
///
/// Starts are spread evenly: after a pause `burst` of them may come at once, and then one every
/// `per / starts`. So in any time `t` there are at most `burst + t * starts / per`.
///
/// In JSON the span is in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Starts per span; 1 to 1,000,000.
    pub starts: u32,
    /// The span; 1 ms to 24 h.
    #[serde(serialize_with = "millis")]
    pub per: Duration,
    /// Starts that may come at once after a pause; 1 to 100,000. Default: the number allowed in 100
    /// ms, at least 1.
    pub burst: u32,
}

fn millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    span.as_millis().serialize(serializer)
}

impl Rate {
    /// `starts` per `per`, with the default burst.
    #[must_use]
    pub const fn new(starts: u32, per: Duration) -> Self {
        Self {
            starts,
            per,
            burst: default_burst(starts, per),
        }
    }

    /// `starts` a second, with the default burst.
    #[must_use]
    pub const fn per_second(starts: u32) -> Self {
        Self::new(starts, Duration::from_secs(1))
    }

    /// `starts` a minute, with the default burst.
    #[must_use]
    pub const fn per_minute(starts: u32) -> Self {
        Self::new(starts, Duration::from_mins(1))
    }

    /// `starts` an hour, with the default burst.
    #[must_use]
    pub const fn per_hour(starts: u32) -> Self {
        Self::new(starts, Duration::from_hours(1))
    }

    /// The same rate, with `burst` starts at once after a pause.
    #[must_use]
    pub const fn with_burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }

    /// The rate that allows fewer starts; of two equal ones, the one with the smaller burst.
    #[must_use]
    fn slower(self, other: Self) -> Self {
        // Compares the intervals `per / starts` without a division.
        let interval = |rate: Self, other: Self| rate.per.as_nanos() * u128::from(other.starts);
        match interval(self, other).cmp(&interval(other, self)) {
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Equal => self.with_burst(self.burst.min(other.burst)),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        if !(1..=MAX_STARTS).contains(&self.starts) {
            return Some("a rate has 1 to 1,000,000 starts in its span");
        }
        if !(MIN_SPAN..=MAX_SPAN).contains(&self.per) {
            return Some("the span of a rate is 1 ms to 24 h");
        }
        if !(1..=MAX_BURST).contains(&self.burst) {
            return Some("the burst of a rate is 1 to 100,000 starts");
        }
        None
    }

    /// The rate with each field clamped to its limits, for a store that may be given any values.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self {
            starts: self.starts.clamp(1, MAX_STARTS),
            per: self.per.clamp(MIN_SPAN, MAX_SPAN),
            burst: self.burst.clamp(1, MAX_BURST),
        }
    }
}

const fn default_burst(starts: u32, per: Duration) -> u32 {
    let span = per.as_nanos();
    if span == 0 {
        return 1;
    }
    let burst = (starts as u128 * BURST_SPAN.as_nanos()).div_ceil(span);
    if burst < 1 {
        1
    } else if burst > MAX_BURST as u128 {
        MAX_BURST
    } else {
        #[allow(clippy::cast_possible_truncation, reason = "it is at most MAX_BURST")]
        let burst = burst as u32;
        burst
    }
}

impl fmt::Display for Rate {
    /// In the syntax of the attribute: `100/s`, `10/min`, `5/h`, or else `3/20s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { starts, per, .. } = self;
        match per.as_millis() {
            1_000 => write!(f, "{starts}/s"),
            60_000 => write!(f, "{starts}/min"),
            3_600_000 => write!(f, "{starts}/h"),
            _ => write!(f, "{starts}/{per:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_what_a_tenth_of_a_second_allows_and_at_least_one() {
        let bursts = [1, 10, 11, 100, 1_000].map(|starts| Rate::per_second(starts).burst);
        assert_eq!(bursts, [1, 1, 2, 10, 100]);
        assert_eq!(Rate::per_minute(10).burst, 1);
        assert_eq!(
            Rate::new(1_000_000, Duration::from_millis(1)).burst,
            100_000
        );
        assert_eq!(Rate::new(1, Duration::ZERO).burst, 1);
    }

    #[test]
    fn two_workers_limits_are_kept_by_the_tighter_of_each() {
        let limits = |concurrency, rate| FleetLimits { concurrency, rate };
        let (slow, fast) = (Rate::per_minute(100), Rate::per_second(2));
        let one = limits(Some(3), Some(fast));
        let two = limits(Some(5), Some(slow));
        assert_eq!(one.tighter(two), limits(Some(3), Some(slow)));
        assert_eq!(two.tighter(one), limits(Some(3), Some(slow)));
        assert_eq!(one.tighter(FleetLimits::NONE), one);
        let (wide, narrow) = (fast.with_burst(9), fast.with_burst(4));
        assert_eq!(wide.slower(narrow), narrow);
        assert_eq!(narrow.slower(wide), narrow);
    }

    #[test]
    fn limits_that_cannot_be_kept_are_named() {
        let problem = |rate| {
            FleetLimits {
                concurrency: None,
                rate: Some(rate),
            }
            .problem()
        };
        let second = Rate::per_second;
        assert_eq!(problem(second(1)), None);
        assert_eq!(problem(second(1_000_000)), None);
        for bad in [
            second(0),
            second(1_000_001),
            second(1).with_burst(0),
            second(1).with_burst(100_001),
            Rate::new(1, Duration::from_micros(999)),
            Rate::new(1, Duration::from_hours(25)),
        ] {
            assert!(problem(bad).is_some(), "{bad:?}");
            assert_eq!(problem(bad.clamped()), None, "{bad:?}");
        }
        let none = FleetLimits {
            concurrency: Some(0),
            rate: None,
        };
        assert!(none.problem().is_some());
    }

    #[test]
    fn a_rate_reads_as_it_is_written() {
        let second = Duration::from_secs(1);
        let rates = [
            Rate::per_second(100),
            Rate::per_minute(10),
            Rate::per_hour(5),
            Rate::new(3, 20 * second),
        ];
        assert_eq!(
            rates.map(|rate| rate.to_string()),
            ["100/s", "10/min", "5/h", "3/20s"]
        );
    }
}
