//! Bars that show how far a command is, on a terminal alone.

use std::time::Duration;

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

/// A sign that it works, while nobody knows how long. It goes when it is dropped.
pub(crate) fn sign(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.with_finish(indicatif::ProgressFinish::AndClear)
}
