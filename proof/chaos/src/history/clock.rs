//! From the monotonic clock to the time of day.

/// How the monotonic clock and the time of day lie to each other, by readings of both.
///
/// Between two readings the offset is taken to change evenly, as NTP changes it.
#[derive(Clone, Debug, Default)]
pub struct ClockMap {
    /// Monotonic, real, spread: in nanoseconds.
    readings: Vec<(u64, u64, u64)>,
}

impl ClockMap {
    /// Takes in a reading.
    pub fn add(&mut self, at_ns: u64, real_ns: u64, spread_ns: u64) {
        self.readings.push((at_ns, real_ns, spread_ns));
    }

    /// To be called after the last reading.
    pub fn sort(&mut self) {
        self.readings.sort_unstable();
    }

    /// Whether there is no reading.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// The time of day at `at_ns`, not before which it was: in whole milliseconds, rounded down.
    #[must_use]
    pub fn earliest_ms(&self, at_ns: u64) -> i64 {
        let (real, spread) = self.real_ns(at_ns);
        whole_ms(real - spread)
    }

    /// The time of day at `at_ns`, not after which it was: in whole milliseconds, rounded down.
    #[must_use]
    pub fn latest_ms(&self, at_ns: u64) -> i64 {
        let (real, spread) = self.real_ns(at_ns);
        whole_ms(real + spread)
    }

    /// The time of day at `at_ns` in microseconds.
    #[must_use]
    pub fn micros(&self, at_ns: u64) -> i64 {
        let us = self.real_ns(at_ns).0.div_euclid(1_000);
        i64::try_from(us).unwrap_or(i64::MAX)
    }

    /// The monotonic time at the time of day `real_ms`, by the first reading.
    #[must_use]
    pub fn monotonic_ns(&self, real_ms: i64) -> u64 {
        let Some((at, real, _)) = self.readings.first() else {
            return 0;
        };
        let since = i128::from(real_ms) * 1_000_000 - i128::from(*real);
        u64::try_from((i128::from(*at) + since).max(0)).unwrap_or(u64::MAX)
    }

    /// The time of day and its uncertainty.
    fn real_ns(&self, at_ns: u64) -> (i128, i128) {
        let next = self.readings.partition_point(|(at, _, _)| *at <= at_ns);
        let before = next
            .checked_sub(1)
            .and_then(|index| self.readings.get(index));
        match (before, self.readings.get(next)) {
            (Some(one), Some(two)) => between(*one, *two, at_ns),
            (Some(one), None) | (None, Some(one)) => {
                (offset(*one) + i128::from(at_ns), i128::from(one.2))
            }
            (None, None) => (i128::from(at_ns), 0),
        }
    }
}

fn offset((at, real, _): (u64, u64, u64)) -> i128 {
    i128::from(real) - i128::from(at)
}

fn between(one: (u64, u64, u64), two: (u64, u64, u64), at_ns: u64) -> (i128, i128) {
    let (length, passed) = (i128::from(two.0 - one.0).max(1), i128::from(at_ns - one.0));
    let drift = offset(two) - offset(one);
    let real = offset(one) + drift * passed / length + i128::from(at_ns);
    (real, i128::from(one.2.max(two.2)))
}

fn whole_ms(ns: i128) -> i64 {
    i64::try_from(ns.div_euclid(1_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_changes_evenly_between_readings_and_stays_outside() {
        let mut map = ClockMap::default();
        map.add(2_000_000_000, 12_000_000_000, 0);
        map.add(1_000_000_000, 10_000_000_000, 0);
        map.sort();
        assert_eq!(map.earliest_ms(0), 9_000);
        assert_eq!(map.earliest_ms(1_500_000_000), 11_000);
        assert_eq!(map.latest_ms(3_000_000_000), 13_000);
        assert_eq!(map.monotonic_ns(10_001), 1_001_000_000);
    }

    #[test]
    fn the_spread_of_a_reading_widens_the_answer() {
        let mut map = ClockMap::default();
        map.add(0, 5_000_000, 1_500_000);
        assert_eq!((map.earliest_ms(0), map.latest_ms(0)), (3, 6));
    }
}
