//! Ends of actions in words, for the log.

use std::fmt;

use delayq_plugin::store::{ActionEnd, Setting, SubmitOutcome};
use delayq_plugin::{CancelOutcome, ChangeOutcome, Rate, Receipt, TaskType, TypeSettings};

/// An end, and further text about it.
type End = (ActionEnd, String);

pub(super) fn sent(receipt: &Receipt) -> End {
    match receipt.outcome {
        SubmitOutcome::Accepted { due_at, replaced } => {
            let place = if replaced {
                ", in the place of another"
            } else {
                ""
            };
            (ActionEnd::Done, format!("due {due_at}{place}"))
        }
        SubmitOutcome::RunsAgain { due_at } => (ActionEnd::Done, format!("runs again {due_at}")),
        SubmitOutcome::AlreadyExists { state } => refused(format!("known already: {state}")),
        _ => refused("not accepted"),
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "an end is read from a reference"
)]
pub(super) fn cancelled(outcome: &CancelOutcome) -> End {
    match outcome {
        CancelOutcome::Cancelled => (ActionEnd::Done, String::new()),
        CancelOutcome::Running => (ActionEnd::Done, "it runs: asked to stop".to_owned()),
        CancelOutcome::Finished(state) => refused(format!("it is {state}")),
        _ => refused(NOT_FOUND),
    }
}

pub(super) fn changed(outcome: &ChangeOutcome) -> End {
    match outcome {
        ChangeOutcome::Changed { due_at } => (ActionEnd::Done, format!("due {due_at}")),
        ChangeOutcome::Running => refused("it runs"),
        ChangeOutcome::Finished(state) => refused(format!("it is {state}")),
        _ => refused(NOT_FOUND),
    }
}

const NOT_FOUND: &str = "no such task";

fn refused(why: impl Into<String>) -> End {
    (ActionEnd::Refused, why.into())
}

/// `detail`, and the types that `asked` matched, unless it is just that one type.
pub(super) fn of_types(asked: &str, found: &[TaskType], detail: &str) -> End {
    let names: Vec<_> = found.iter().map(TaskType::as_str).collect();
    let names = match names.as_slice() {
        [] => return refused("no type matches"),
        [name] if *name == asked => String::new(),
        names => names.join(", "),
    };
    let is_both = !detail.is_empty() && !names.is_empty();
    let between = if is_both { ": " } else { "" };
    (ActionEnd::Done, format!("{detail}{between}{names}"))
}

/// The changed settings, such as `max pending 500, fleet rate none`.
pub(super) fn settings(settings: &TypeSettings) -> String {
    let rate = |rate: &Rate| {
        let Rate { starts, per, burst } = *rate;
        format!("{starts} in {per:?}, {burst} at once")
    };
    let shards = settings.shards.map_or(Setting::Keep, Setting::To);
    let words = [
        said("max pending", &settings.max_pending, u64::to_string),
        said(
            "fleet concurrency",
            &settings.fleet_concurrency,
            u32::to_string,
        ),
        said("fleet rate", &settings.fleet_rate, rate),
        said("shards", &shards, u32::to_string),
    ];
    let words: Vec<_> = words.into_iter().flatten().collect();
    words.join(", ")
}

fn said<T>(
    name: impl fmt::Display,
    setting: &Setting<T>,
    value: impl Fn(&T) -> String,
) -> Option<String> {
    match setting {
        Setting::Keep => None,
        Setting::Unset => Some(format!("{name} none")),
        Setting::To(to) => Some(format!("{name} {}", value(to))),
    }
}
