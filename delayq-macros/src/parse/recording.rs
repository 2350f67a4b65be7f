//! The value of `history`: whether ends are recorded, and what of their messages.

use syn::Meta;

use super::value::{Value, spanned, text, wrong};

/// What is recorded of the ends of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    Off,
    /// Ends without messages.
    On,
    /// So many bytes of each message.
    First(u32),
    /// Whole messages.
    All,
}

pub(super) fn recording(item: &Meta) -> Value<Recording> {
    let (text, span) = text(item, "\"1kB\"")?;
    match parse_recording(&text) {
        Some(recording) => Ok(Some(spanned(recording, &span))),
        None => Err(wrong(
            &span,
            format!(
                "{text:?} is not what a history keeps: write \"off\", \"on\" (without messages), \
                 \"all\", or the part of a message to keep, such as \"1kB\" or \"200B\""
            ),
        )),
    }
}

/// As delayq-core reads it.
pub(super) fn parse_recording(text: &str) -> Option<Recording> {
    let bytes = |digits: &str, unit: u32| {
        let digits = digits.trim_end();
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = digits.parse().ok().filter(|_| is_number)?;
        // The largest number means all of it.
        let bytes = number.checked_mul(unit);
        let bytes = bytes.filter(|bytes| (1..u32::MAX).contains(bytes));
        bytes.map(Recording::First)
    };
    match text {
        "off" => Some(Recording::Off),
        "on" => Some(Recording::On),
        "all" => Some(Recording::All),
        _ => match text.strip_suffix("kB") {
            Some(digits) => bytes(digits, 1_000),
            None => bytes(text.strip_suffix('B')?, 1),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_message_has_a_unit() {
        let of = parse_recording;
        assert_eq!(of("off"), Some(Recording::Off));
        assert_eq!(of("on"), Some(Recording::On));
        assert_eq!(of("all"), Some(Recording::All));
        assert_eq!(of("200B"), Some(Recording::First(200)));
        assert_eq!(of("2 kB"), Some(Recording::First(2_000)));
        for text in [
            "",
            "1",
            "0B",
            "+1B",
            "kB",
            "1KB",
            "1MB",
            "4294967295B",
            "5000000kB",
            "none",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
