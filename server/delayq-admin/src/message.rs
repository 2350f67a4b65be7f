//! Shows a message as JSON, text or hex.

use serde_json::Value;

use crate::said::visible;

/// The longest shown part of a message, in characters.
const MAX_SHOWN: usize = 100_000;
/// The number of bytes in a line of hex.
const HEX_LINE: usize = 16;

/// The form in which a message is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Text,
    Hex,
}

impl Form {
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Text, Self::Hex];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "text",
            Self::Hex => "hex",
        }
    }

    pub(crate) fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// The most readable form for a message.
    pub(crate) fn fitting(bytes: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(bytes) {
            Ok(_) => Self::Json,
            Err(_) if str::from_utf8(bytes).is_ok() => Self::Text,
            Err(_) => Self::Hex,
        }
    }
}

/// The message in this form; only its beginning if it is long.
pub(crate) fn shown(bytes: &[u8], form: Form) -> String {
    let text = match form {
        Form::Json => match serde_json::from_slice::<Value>(bytes) {
            Ok(json) => visible(&format!("{json:#}")),
            Err(error) => format!("(this is no JSON: {})", visible(&error.to_string())),
        },
        Form::Text => visible(&String::from_utf8_lossy(bytes)),
        Form::Hex => dump(bytes.get(..MAX_SHOWN / 4).unwrap_or(bytes)),
    };
    match text.char_indices().nth(MAX_SHOWN) {
        None => text,
        Some((at, _)) => {
            let begin = text.get(..at).unwrap_or_default();
            format!("{begin}\n.. of {} bytes", bytes.len())
        }
    }
}

/// A hex dump: each line has an offset, sixteen bytes and their letters.
fn dump(bytes: &[u8]) -> String {
    let line = |(nth, line): (usize, &[u8])| {
        let hex: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let is_letter = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let letter = |byte: &u8| {
            if is_letter(*byte) {
                char::from(*byte)
            } else {
                '·'
            }
        };
        let letters: String = line.iter().map(letter).collect();
        format!("{:06x}  {:<47}  {letters}\n", nth * HEX_LINE, hex.join(" "))
    };
    bytes.chunks(HEX_LINE).enumerate().map(line).collect()
}

/// The bytes as hexadecimal digits, without offsets.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| {
        let hex: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        hex.join(" ") + "\n"
    };
    bytes.chunks(HEX_LINE).map(line).collect()
}

/// The form in which a browser returns the message unchanged: text, unless it contains characters
/// that a form would change.
pub(crate) fn editable(bytes: &[u8]) -> Form {
    let is_plain =
        |text: &str| !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t'));
    match str::from_utf8(bytes) {
        Ok(text) if is_plain(text) => Form::Text,
        _ => Form::Hex,
    }
}

/// The bytes entered in this form. A browser sends `\r\n` for a line break.
///
/// # Errors
/// The error in the hexadecimal digits.
pub(crate) fn entered(text: &str, form: Form) -> Result<Vec<u8>, String> {
    if form != Form::Hex {
        return Ok(text.replace("\r\n", "\n").into_bytes());
    }
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let byte = |two: &[u8]| {
        let two = str::from_utf8(two).ok().filter(|two| two.len() == 2)?;
        u8::from_str_radix(two, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.ok_or_else(|| "hex is written with two digits 0-9 a-f for each byte".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_three_forms() {
        assert_eq!(Form::fitting(b"{\"a\":1}"), Form::Json);
        assert_eq!(shown(b"{\"a\":1}", Form::Json), "{\n  \"a\": 1\n}");
        assert_eq!(
            (Form::fitting(b"a\0"), Form::fitting(&[255])),
            (Form::Text, Form::Hex)
        );
        assert_eq!(shown(b"a\0", Form::Text), "a␀");
        let dumped = shown(&[65, 0], Form::Hex);
        assert!(
            dumped.starts_with("000000  41 00") && dumped.ends_with("A·\n"),
            "{dumped}"
        );
        assert!(shown(&vec![b'a'; 200_000], Form::Text).ends_with(".. of 200000 bytes"));
    }

    #[test]
    fn what_is_edited_comes_back_as_it_was() {
        for bytes in [&b"a\nb\t\xc3\xa4"[..], b"a\r\n\0", &[255, 0, 10]] {
            let form = editable(bytes);
            let text = match form {
                Form::Hex => hex(bytes),
                _ => String::from_utf8_lossy(bytes).replace('\n', "\r\n"),
            };
            assert_eq!(entered(&text, form).as_deref(), Ok(bytes));
        }
        assert!(entered("4g", Form::Hex).is_err() && entered("4", Form::Hex).is_err());
    }
}
