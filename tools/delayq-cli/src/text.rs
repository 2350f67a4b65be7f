//! Pieces of text for people: styles, counts, messages.

use anstyle::{AnsiColor, Style};
use delayq_ops::is_invisible;
use serde_json::Value;

/// Style for problems.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style for minor details.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Style for important names and numbers.
pub(crate) const STRONG: Style = Style::new().bold();

/// Number of bytes of a message shown as hex if it is not text.
const MAX_HEX: usize = 1_024;

/// A text in this style.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// `1 task`, `2 tasks`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Text from a task, an error or a URL on one line, with spaces in place of characters that are
/// invisible or control the terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(
        |letter: char| letter.is_control() || is_invisible(letter),
        " ",
    )
}

/// Like [`one_line`], but keeps line breaks.
pub(crate) fn lines(text: &str) -> String {
    let lines = text.lines().map(one_line);
    lines.collect::<Vec<_>>().join("\n")
}

/// The JSON of a document, on one line or on several. Escapes control characters that JSON allows,
/// because some terminals obey them.
pub(crate) fn json(document: &str) -> String {
    let mut escaped = String::with_capacity(document.len());
    for letter in document.chars() {
        match letter {
            '\u{7f}'..='\u{9f}' => escaped += &format!("\\u{:04x}", u32::from(letter)),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// A message: JSON is indented, other text is shown without control characters, anything else as
/// hex.
pub(crate) fn message(bytes: &[u8]) -> String {
    if let Ok(json) = serde_json::from_slice::<Value>(bytes) {
        return lines(&format!("{json:#}"));
    }
    if let Ok(text) = str::from_utf8(bytes) {
        return lines(text);
    }
    let shown = bytes.iter().take(MAX_HEX).enumerate();
    let mut hex = String::new();
    for (nth, byte) in shown {
        let before = match nth % 16 {
            0 if nth > 0 => "\n",
            0 => "",
            _ => " ",
        };
        hex += &format!("{before}{byte:02x}");
    }
    let more = bytes.len().saturating_sub(MAX_HEX);
    if more > 0 {
        hex += &format!("\n.. {more} bytes more");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_json_or_text_or_hex_and_none_steers_the_terminal() {
        assert_eq!(message(b"{\"a\":1}"), "{\n  \"a\": 1\n}");
        assert_eq!(message(b"a\x1b[2Jb\nc"), "a [2Jb\nc");
        // A one-character CSI, which JSON does not escape, and a mark that reverses the text after
        // it.
        let hostile = "{\"a\":\"\u{9b}2J\u{202e}\"}";
        assert_eq!(message(hostile.as_bytes()), "{\n  \"a\": \" 2J \"\n}");
        assert_eq!(json("\"\u{9b}2J\u{7f}é\""), "\"\\u009b2J\\u007fé\"");
        assert_eq!(message(&[0xff, 0x00]), "ff 00");
        assert!(message(&[0xff; 2_000]).ends_with("\n.. 976 bytes more"));
    }
}
