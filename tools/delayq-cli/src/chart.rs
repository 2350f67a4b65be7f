//! Bars of figures, drawn with characters.

use delayq_plugin::Timestamp;

/// The length of the longest bar in characters: with a time and three numbers it fits into 80
/// columns.
const WIDTH: u64 = 30;

/// Partial blocks, by eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar for `value`; the bar for `most` is the longest. Any value except zero has a bar.
pub(crate) fn bar(value: u64, most: u64) -> String {
    let eighths = u128::from(value) * u128::from(WIDTH * 8) / u128::from(most.max(1));
    let least = usize::from(value > 0);
    let eighths = usize::try_from(eighths).unwrap_or(usize::MAX).max(least);
    let part = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{part}", "█".repeat((eighths / 8).min(30)))
}

/// A time at the start of a line, in UTC: `12-24 17:00`.
pub(crate) fn clock(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(time) => time.strftime("%m-%d %H:%M").to_string(),
        Err(_) => time.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share_and_small_ones_are_seen() {
        assert_eq!(bar(0, 10), "");
        assert_eq!(bar(10, 10).chars().count(), 30);
        assert_eq!(bar(5, 10).chars().count(), 15);
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(0, 0), "");
    }

    #[test]
    fn a_time_is_short() {
        let time = Timestamp::from_millis(1_767_225_600_000);
        assert_eq!(clock(time), "01-01 00:00");
    }
}
