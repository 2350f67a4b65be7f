//! Months in UTC, as partitions have them.

use delayq_core::Timestamp;

/// The milliseconds of a day.
const DAY: i64 = 86_400_000;

/// A month: the number of months since the year 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Month(i64);

impl Month {
    /// The month of a time. Source: the calendar algorithms of
    /// <https://howardhinnant.github.io/date_algorithms.html>.
    pub(crate) fn of(time: Timestamp) -> Self {
        let days = time.as_millis().div_euclid(DAY) + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        // Counted from March.
        let month = (5 * day_of_year + 2) / 153;
        Self((year + era * 400) * 12 + month + 2)
    }

    /// The next month.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Its first millisecond.
    pub(crate) fn start(self) -> i64 {
        // A year counted from March.
        let (year, month) = ((self.0 - 2).div_euclid(12), (self.0 - 2).rem_euclid(12));
        let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * month + 2) / 5;
        let day = year * 365 + year / 4 - year / 100 + day_of_year;
        (era * 146_097 + day - 719_468) * DAY
    }

    /// The name of its partition.
    pub(crate) fn name(self) -> String {
        let (year, month) = (self.0.div_euclid(12), self.0.rem_euclid(12) + 1);
        format!("lives_{year:04}_{month:02}")
    }

    /// The month of a partition with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (year, month) = name.strip_prefix("lives_")?.split_once('_')?;
        let (year, month): (i64, i64) = (year.parse().ok()?, month.parse().ok()?);
        (1..=12)
            .contains(&month)
            .then(|| Self(year * 12 + month - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_its_month_and_no_month_has_a_gap() {
        for (ms, name) in [
            (0, "lives_1970_01"),
            (951_782_399_999, "lives_2000_02"),
            (951_868_800_000, "lives_2000_03"),
            (1_798_761_599_999, "lives_2026_12"),
            (1_798_761_600_000, "lives_2027_01"),
        ] {
            let month = Month::of(Timestamp::from_millis(ms));
            assert_eq!(month.name(), name, "{ms}");
            assert!((month.start()..month.next().start()).contains(&ms), "{ms}");
            assert_eq!(Month::named(name), Some(month));
        }
        let mut month = Month::of(Timestamp::ZERO);
        for _ in 0..3_000 {
            let last = Timestamp::from_millis(month.next().start() - 1);
            assert_eq!(Month::of(last), month);
            month = month.next();
        }
        for none in ["lives_key", "lives_2026_13", "lives_2026", "x"] {
            assert_eq!(Month::named(none), None);
        }
    }
}
