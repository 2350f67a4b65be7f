//! Names, validated once: namespaces, task types, task ids.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// Longest namespace, in bytes.
pub const MAX_NAMESPACE_BYTES: usize = 64;
/// Longest task type, in bytes.
pub const MAX_TASK_TYPE_BYTES: usize = 100;
/// Longest task id, in bytes.
pub const MAX_TASK_ID_BYTES: usize = 128;
/// Number of characters of a refused value shown in an error.
const SHOWN_CHARS: usize = 40;

fn invalid(what: &'static str, value: &str, reason: &'static str) -> Error {
    Error::InvalidName {
        what,
        value: shown(value),
        reason,
    }
}

/// The value, or its beginning and its length.
fn shown(value: &str) -> String {
    if value.chars().nth(SHOWN_CHARS).is_none() {
        return value.to_owned();
    }
    let begin: String = value.chars().take(SHOWN_CHARS).collect();
    format!("{begin}.. ({} bytes)", value.len())
}

pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':')
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr, $allowed:expr, $reason:literal $(; $($more:tt)*)?) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates `value` and makes it a name.
            ///
            /// # Errors
            /// [`Error::InvalidName`] if it is empty, too long or has a byte that is not allowed.
            pub fn new(value: impl AsRef<str>) -> Result<Self> {
                let value = value.as_ref();
                if value.is_empty() || value.len() > $max || !value.bytes().all($allowed) {
                    return Err(invalid($what, value, $reason));
                }
                Ok(Self(value.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            $($($more)*)?
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            /// Validated as by `new`.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = Cow::<str>::deserialize(deserializer)?;
                Self::new(value).map_err(D::Error::custom)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(value: &str) -> Result<Self> {
                Self::new(value)
            }
        }
    };
}

name_type!(
    /// A separate set of task types and tasks: two namespaces share nothing.
    ///
    /// 1 to 64 of `A-Z a-z 0-9 . _ - :`. The default is `default`.
    Namespace, "namespace", MAX_NAMESPACE_BYTES, is_word,
    "use 1 to 64 of A-Z a-z 0-9 . _ - :"
);

name_type!(
    /// The name of the work, such as `order.cancel`.
    ///
    /// 1 to 100 of `A-Z a-z 0-9 . _ - :`.
    TaskType, "task type", MAX_TASK_TYPE_BYTES, is_word,
    "use 1 to 100 of A-Z a-z 0-9 . _ - :"
);

name_type!(
    /// The identity of a task within its type: a business key such as `order-42`, or a generated
    /// one.
    ///
    /// 1 to 128 visible ASCII characters (`!` to `~`): no spaces, no control characters.
    TaskId, "task id", MAX_TASK_ID_BYTES, |byte: u8| byte.is_ascii_graphic(),
    "use 1 to 128 visible ASCII characters, without blanks";

    /// A new id: a ULID of 26 characters, ordered by time to the millisecond, then random.
    #[must_use]
    pub fn generate() -> Self {
        Self(ulid::Ulid::generate().to_string().into())
    }
);

impl Default for Namespace {
    fn default() -> Self {
        Self("default".into())
    }
}

/// The task types that a worker serves: one (`order.cancel`), or all with a common prefix
/// (`report.*`).
///
/// The `*` stands at the end, after a `.`, `_`, `-` or `:`, or alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TypePattern {
    /// Exactly this type.
    Exact(TaskType),
    /// Every type that begins with this text (empty: every type).
    Prefix(String),
}

impl TypePattern {
    /// Validates `pattern`.
    ///
    /// # Errors
    /// [`Error::InvalidName`] if it is neither a task type nor a prefix followed by one `*`.
    pub fn new(pattern: &str) -> Result<Self> {
        let Some(prefix) = pattern.strip_suffix('*') else {
            if pattern.contains('*') {
                let reason = "the * stands at the end, as in report.*";
                return Err(invalid("task type pattern", pattern, reason));
            }
            return TaskType::new(pattern).map(Self::Exact);
        };
        let separated = prefix.is_empty() || prefix.ends_with(['.', '_', '-', ':']);
        if prefix.len() >= MAX_TASK_TYPE_BYTES || !separated || !prefix.bytes().all(is_word) {
            let reason = "write the common beginning up to a separator, then *, as in report.*";
            return Err(invalid("task type pattern", pattern, reason));
        }
        Ok(Self::Prefix(prefix.to_owned()))
    }

    /// Of several patterns that match a type, the one with the largest rank is closest: the type
    /// itself, then the longest prefix.
    #[must_use]
    pub fn rank(&self) -> usize {
        match self {
            Self::Exact(_) => usize::MAX,
            Self::Prefix(prefix) => prefix.len(),
        }
    }

    /// True if `task_type` matches.
    #[must_use]
    pub fn matches(&self, task_type: &TaskType) -> bool {
        match self {
            Self::Exact(exact) => exact == task_type,
            Self::Prefix(prefix) => task_type.as_str().starts_with(prefix.as_str()),
        }
    }
}

impl fmt::Display for TypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(exact) => exact.fmt(f),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

#[cfg(test)]
mod tests;
