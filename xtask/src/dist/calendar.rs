//! Seconds since 1970 as the texts that packages have, in UTC.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A day.
struct Date {
    year: u64,
    /// From 0.
    month: u64,
    day: u64,
}

/// The calendar repeats after 400 years of 146,097 days; years begin in March here.
fn date(days: u64) -> Date {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12;
    let year = era * 400 + year + u64::from(month < 2);
    Date { year, month, day }
}

fn time(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{hour:02}:{minute:02}:{second:02}")
}

/// Such as `Sat, 28 Nov 2026 22:59:59 +0000`, for a changelog of Debian.
pub(crate) fn rfc_2822(seconds: u64) -> String {
    let days = seconds / 86_400;
    let Date { year, month, day } = date(days);
    let named = |names: &[&'static str], place: u64| {
        let place = usize::try_from(place).unwrap_or_default();
        names.get(place).copied().unwrap_or_default()
    };
    let (weekday, month) = (named(&DAYS, days % 7), named(&MONTHS, month));
    format!("{weekday}, {day:02} {month} {year} {} +0000", time(seconds))
}

/// Such as `2026-11-28T22:59:59Z`, for an image.
pub(crate) fn rfc_3339(seconds: u64) -> String {
    let Date { year, month, day } = date(seconds / 86_400);
    format!("{year}-{:02}-{day:02}T{}Z", month + 1, time(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_those_of_the_calendar() {
        for (seconds, mail, image) in [
            (0, "Thu, 01 Jan 1970 00:00:00 +0000", "1970-01-01T00:00:00Z"),
            (
                951_782_400,
                "Tue, 29 Feb 2000 00:00:00 +0000",
                "2000-02-29T00:00:00Z",
            ),
            (
                1_795_906_799,
                "Sat, 28 Nov 2026 22:59:59 +0000",
                "2026-11-28T22:59:59Z",
            ),
        ] {
            assert_eq!(rfc_2822(seconds), mail);
            assert_eq!(rfc_3339(seconds), image);
        }
    }
}
