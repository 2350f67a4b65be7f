//! Bars that show how far a command is, on a terminal alone.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar up to `count`, with the time that is left.
pub(crate) fn bar(count: u64) -> ProgressBar {
    let bar = ProgressBar::new(count);
    let form = "{bar:30} {pos}/{len}, {eta} left";
    bar.set_style(ProgressStyle::with_template(form).unwrap_or(ProgressStyle::default_bar()));
    bar
}

/// A count of tasks without an end that is known, with its rate.
pub(crate) fn counter() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let form = "{spinner} {pos} tasks, {per_sec}";
    bar.set_style(ProgressStyle::with_template(form).unwrap_or(ProgressStyle::default_spinner()));
    bar
}
