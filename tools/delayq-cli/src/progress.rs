//! Progress bars of a command, only on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar up to `count`, with the remaining time.
pub(crate) fn bar(count: u64) -> ProgressBar {
    let bar = ProgressBar::new(count);
    let form = "{bar:30} {pos}/{len}, {eta} left";
    bar.set_style(ProgressStyle::with_template(form).unwrap_or(ProgressStyle::default_bar()));
    bar
}

/// A counter of tasks without a known end, with its rate.
pub(crate) fn counter() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let form = "{spinner} {pos} tasks, {per_sec}";
    bar.set_style(ProgressStyle::with_template(form).unwrap_or(ProgressStyle::default_spinner()));
    bar
}

/// A sign that the program is working, for an unknown time. Disappears when dropped.
pub(crate) fn sign(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.with_finish(indicatif::ProgressFinish::AndClear)
}
