//! The part of a message that the record of an end keeps.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The number for a whole message in stored data.
const WHOLE: u32 = u32::MAX;

/// The part of a message that the record of an end keeps. Messages may hold personal data, so none
/// is kept unless somebody asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "nothing, a part, or all")]
pub enum KeptMessage {
    /// Nothing of it.
    #[default]
    Nothing,
    /// Its first bytes, at least 1.
    First(u32),
    /// All of it.
    Whole,
}

impl KeptMessage {
    /// The maximum number of bytes, which is also its form in stored data; `u32::MAX` for a whole
    /// message.
    #[must_use]
    pub const fn limit(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::First(bytes) => bytes,
            Self::Whole => WHOLE,
        }
    }

    /// The part with this maximum number of bytes.
    #[must_use]
    pub const fn from_limit(bytes: u32) -> Self {
        match bytes {
            0 => Self::Nothing,
            WHOLE => Self::Whole,
            bytes => Self::First(bytes),
        }
    }

    /// The part of `message` that is kept; `None` for nothing.
    #[must_use]
    pub fn of(self, message: &[u8]) -> Option<Vec<u8>> {
        let most = usize::try_from(self.limit()).unwrap_or(usize::MAX);
        let kept = message.get(..most).unwrap_or(message);
        (most > 0).then(|| kept.to_vec())
    }
}

/// Whether the ends of a type are recorded, and what of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "off, or on")]
pub enum Recording {
    /// No end is recorded.
    Off,
    /// Every end is recorded, with this part of its message.
    On(KeptMessage),
}

impl Recording {
    /// The kept part of a message, if ends are recorded.
    #[must_use]
    pub fn kept(self) -> Option<KeptMessage> {
        match self {
            Self::Off => None,
            Self::On(kept) => Some(kept),
        }
    }
}

impl fmt::Display for Recording {
    /// In the syntax of the option: `off`, `on`, `all`, or a number of bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On(KeptMessage::Nothing) => f.write_str("on"),
            Self::On(KeptMessage::First(bytes)) => write!(f, "{bytes}B"),
            Self::On(KeptMessage::Whole) => f.write_str("all"),
        }
    }
}

impl FromStr for Recording {
    type Err = Error;

    /// `off`, `on` (without messages), `all`, or the bytes of a message to keep: `200B`, `1kB`.
    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            let reason = format!(
                "{text:?}: write off, on (without messages), all, or the part of a message to \
                 keep, such as 200B or 1kB"
            );
            Error::invalid("history", reason)
        };
        let bytes = |digits: &str, unit: u32| {
            let number: u32 = digits.trim_end().parse().map_err(|_| refused())?;
            let bytes = number.checked_mul(unit).filter(|bytes| *bytes > 0);
            let part = KeptMessage::from_limit(bytes.ok_or_else(refused)?);
            Ok(Self::On(part))
        };
        match text {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On(KeptMessage::Nothing)),
            "all" => Ok(Self::On(KeptMessage::Whole)),
            _ => match text.strip_suffix("kB") {
                Some(digits) => bytes(digits, 1_000),
                None => bytes(text.strip_suffix('B').ok_or_else(refused)?, 1),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_reads_as_it_is_written_and_keeps_what_it_says() {
        for (text, kept) in [
            ("off", None),
            ("on", Some(KeptMessage::Nothing)),
            ("3B", Some(KeptMessage::First(3))),
            ("1kB", Some(KeptMessage::First(1_000))),
            ("all", Some(KeptMessage::Whole)),
        ] {
            let recording: Recording = text.parse().unwrap();
            assert_eq!(recording.kept(), kept, "{text}");
            let again: Recording = recording.to_string().parse().unwrap();
            assert_eq!(again, recording);
        }
        for refused in ["", "0B", "kB", "5", "-1B", "5000000kB", "On"] {
            assert!(refused.parse::<Recording>().is_err(), "{refused}");
        }
        assert_eq!(KeptMessage::Nothing.of(b"abc"), None);
        assert_eq!(KeptMessage::First(2).of(b"abc"), Some(b"ab".to_vec()));
        assert_eq!(KeptMessage::Whole.of(b"abc"), Some(b"abc".to_vec()));
    }
}
