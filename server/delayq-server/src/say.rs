//! What the program tells whoever started it.

use std::fmt::Display;
use std::io::Write;

/// Tells it. A program whose output nobody reads goes on all the same.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
