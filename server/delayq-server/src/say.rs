//! Output of the program to the terminal.

use std::fmt::Display;
use std::io::Write;

/// Prints a line. Ignores errors, so that the program also runs with a closed output.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
