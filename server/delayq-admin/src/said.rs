//! Formats numbers, spans and foreign text for the page.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use delayq_ops::is_invisible;
use delayq_plugin::store::Lateness;

/// The longest foreign text in a table row, in characters.
pub(crate) const ROW_CHARS: usize = 300;

/// A number with commas: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut said = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            said.push(',');
        }
        said.push(digit);
    }
    said
}

/// A short name for a text that may have any characters: the same for the same text.
pub(crate) fn mark(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// `1 task`, `2,000 tasks`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A span in its two largest units: `4 ms`, `12 s`, `3m 20s`, `2d 4h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{small_unit}"),
    };
    match (days, hours, minutes, rest) {
        (0, 0, 0, 0) => format!("{} ms", span.as_millis()),
        (0, 0, 0, 1..10) => {
            let tenths = span.as_millis() / 100;
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => two(minutes, "m", seconds, "s"),
        (0, hours, minutes, _) => two(hours, "h", minutes, "m"),
        (days, hours, ..) => two(days, "d", hours, "h"),
    }
}

/// A span, or a dash if unknown.
pub(crate) fn maybe_span(known: Option<Duration>) -> String {
    known.map_or_else(|| DASH.to_owned(), span)
}

/// The lateness that a share `q` of the starts stayed below: `<32 ms`. Only the ends of buckets are
/// known, so it is a bound and not a value. It is rounded up, so that it holds.
pub(crate) fn late(lateness: Option<&Lateness>, q: f64) -> String {
    let Some(lateness) = lateness else {
        return DASH.to_owned();
    };
    match lateness.quantile(q) {
        None => DASH.to_owned(),
        Some(least) if lateness.is_beyond(q) => format!("≥{}", span(least)),
        Some(most) => format!("<{}", span(whole(most))),
    }
}

/// The span rounded up to the smallest unit in which [`span`] shows it.
fn whole(most: Duration) -> Duration {
    let unit = match most.as_millis() {
        0..1_000 => 1,
        1_000..10_000 => 100,
        10_000..3_600_000 => 1_000,
        _ => 60_000,
    };
    let ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(ms.div_ceil(unit).saturating_mul(unit))
}

/// The text with a capital at its beginning.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), letters.as_str())
}

/// Shown in place of an unknown value.
pub(crate) const DASH: &str = "–";

/// A rate in the shortest unit in which it is at least one: `120/s`, `4.2/s`, `12/min`, `3/h`.
pub(crate) fn rate(per_second: f64) -> String {
    let (number, unit) = match per_second {
        none if none <= 0.0 => return "0".to_owned(),
        fast if fast >= 1.0 => (fast, "s"),
        slow if slow * 60.0 >= 1.0 => (slow * 60.0, "min"),
        rare => (rare * 3_600.0, "h"),
    };
    if number < 10.0 {
        let text = format!("{number:.1}");
        return format!("{}/{unit}", text.strip_suffix(".0").unwrap_or(&text));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number of tasks a second"
    )]
    let whole = number.round() as u64;
    format!("{}/{unit}", count(whole))
}

/// Foreign text, such as an error, with invisible characters made visible. Control characters are
/// shown as pictures, and marks that change the text direction as numbers. Line breaks and tabs
/// stay.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            '\0'..='\x1f' => shown.extend(char::from_u32(0x2400 + u32::from(letter))),
            '\x7f' => shown.push('␡'),
            _ if is_invisible(letter) => {
                let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(letter));
            }
            _ => shown.push(letter),
        }
    }
    shown
}

/// As [`visible`], on one line of at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut line: String = visible(text).replace(['\n', '\t'], " ");
    if let Some((at, _)) = line.char_indices().nth(most) {
        line.truncate(at);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_spans_are_short() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        let of = |ms| span(Duration::from_millis(ms));
        assert_eq!(
            [4, 1_500, 59_000, 200_000, 7_200_000, 187_200_000].map(of),
            ["4 ms", "1.5 s", "59 s", "3m 20s", "2h", "2d 4h"]
        );
        assert_eq!(
            [0.0, 120.4, 4.2, 0.2, 0.001].map(rate),
            ["0", "120/s", "4.2/s", "12/min", "3.6/h"]
        );
    }

    #[test]
    fn a_bound_says_that_it_is_one_and_holds() {
        let of = |bucket| {
            let mut lateness = Lateness::default();
            lateness.add(bucket, 1);
            late(Some(&lateness), 0.99)
        };
        assert_eq!(
            [0, 5, 12, 14, 17, 22, 23].map(of),
            [
                "<1 ms", "<32 ms", "<4.1 s", "<17 s", "<2m 12s", "<1h 10m", "≥1h 9m"
            ]
        );
        assert_eq!(
            [late(None, 0.5), late(Some(&Lateness::default()), 0.5)],
            [DASH, DASH]
        );
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible("a\0b\x1b\x7f\u{202e}c\n"), "a␀b␛␡⟨U+202E⟩c\n");
        assert_eq!(one_line("a\nb", 10), "a b");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }
}
