//! Names of tubes.

use std::fmt;
use std::sync::Arc;

/// Longest name of a tube, in bytes.
const MAX_BYTES: usize = 200;

/// The name of a tube: 1 to 200 of `A-Z a-z 0-9 - + / ; . $ _ ( )`, not beginning with `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TubeName(Arc<str>);

impl TubeName {
    /// The name, if it is one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let is_name = (1..=MAX_BYTES).contains(&bytes.len())
            && bytes.first() != Some(&b'-')
            && bytes.iter().all(|byte| is_part(*byte));
        let text = str::from_utf8(bytes).ok()?;
        is_name.then(|| Self(text.into()))
    }

    /// The tube that every connection begins with.
    pub(super) fn first() -> Self {
        Self("default".into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

impl fmt::Debug for TubeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for TubeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
