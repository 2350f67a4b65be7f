//! `show`: everything known about a task.

use clap::Args;
use delayq_ops::known_type;
use delayq_plugin::{InstanceInfo, TaskId, TaskInfo, TaskSubmitService, Timestamp, WaitsFor};
use serde_json::json;

use super::history::fate_text;
use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::span::moment;
use crate::text::{BAD, STRONG, counted, message, one_line, styled};

/// A task.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// The id.
    id: String,
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &ShowArgs,
) -> Result<CommandResult, Failure> {
    let Some(task) = tasks.find(&args.task_type, &args.id).await? else {
        return forgotten(tasks, args).await;
    };
    let now = tasks.stats(&args.task_type).await?.now;
    let instances = tasks.instances().await?;
    let holder = instances
        .iter()
        .find(|one| task.holder.as_deref() == Some(one.id.short()));
    let text = text(&args.task_type, &task, &ShownFacts { now, holder });
    let json = json!({"type": args.task_type, "task": task, "holder": holder, "now": now});
    CommandResult::new(text, json)
}

/// The answer for a task that the store does not know: what its history knows, if there is one.
async fn forgotten(tasks: &TaskSubmitService, args: &ShowArgs) -> Result<CommandResult, Failure> {
    let unknown = || {
        format!(
            "there is no task {} of type {}, or it ended longer ago than the store remembers",
            args.id, args.task_type
        )
    };
    let Some(history) = tasks.history() else {
        known_type(tasks, &args.task_type).await?;
        return Err(Failure::refused(unknown()));
    };
    let fate = history.what_became_of(&args.task_type, &args.id).await;
    let fate = fate.map_err(|error| {
        Failure::refused(format!(
            "{}; the history cannot be asked: {error}",
            unknown()
        ))
    })?;
    if fate.is_unknown() && fate.unread == 0 {
        // The history may know a type that the store has dropped.
        known_type(tasks, &args.task_type).await?;
        return Err(Failure::refused(unknown()));
    }
    let text = fate_text(&fate, &TaskId::new(&args.id)?);
    let json =
        json!({"type": args.task_type, "id": args.id, "task": fate.now, "lives": fate.lives});
    Ok(CommandResult::new(text, json)?.done_if(!fate.is_unknown()))
}

/// Facts shown with a task.
struct ShownFacts<'a> {
    now: Timestamp,
    /// The instance that holds it, while it is listed.
    holder: Option<&'a InstanceInfo>,
}

fn text(task_type: &str, task: &TaskInfo, seen: &ShownFacts<'_>) -> String {
    let now = seen.now;
    let mut text = format!(
        "{} of {task_type}: {}",
        styled(STRONG, &task.id),
        task.state
    );
    let mut row = |name: &str, value: String| text += &format!("\n{name:<20}{value}");
    if let Some(submitted) = task.submitted_at {
        row("submitted", moment(submitted, now));
    }
    let at = match task.state.as_str() {
        "scheduled" => "due",
        "running" => "lock expires",
        "dead" => "died",
        _ => "ended",
    };
    row(at, moment(task.at, now));
    if let Some(waits_for) = &task.waits_for {
        row("waits for", waiting(waits_for, now));
    }
    if let Some(started) = task.started_at {
        row("runs since", moment(started, now));
    }
    if let Some(holder) = &task.holder {
        let host = seen.holder.map_or("no longer listed".to_owned(), |one| {
            format!("{}, process {}", one_line(&one.host), one.pid)
        });
        row("held by", format!("{holder} ({host})"));
    }
    if task.cancel_requested {
        row("cancel", "requested".to_owned());
    }
    if let Some(again) = task.again_at {
        row("runs again", moment(again, now));
    }
    if let Some(expires) = task.expires_at {
        row("expires", moment(expires, now));
    }
    row("attempt", task.attempt.to_string());
    row("history", history(task));
    if let Some(note) = &task.history.note {
        row("note", one_line(note));
    }
    for (name, value) in &task.headers {
        row(&format!("header {}", one_line(name)), one_line(value));
    }
    for past in &task.errors {
        let when = format!("{}, attempt {}", moment(past.at, now), past.attempt);
        row(
            "error",
            format!("{when}: {}", styled(BAD, one_line(&past.error))),
        );
    }
    let is_new = task.errors.is_empty();
    if let Some(error) = task.history.last_error.as_ref().filter(|_| is_new) {
        row("last error", styled(BAD, one_line(error)));
    }
    match &task.message {
        Some(bytes) => row(
            "message",
            format!(
                "{}\n{}",
                counted(bytes.len() as u64, "byte"),
                message(bytes)
            ),
        ),
        None => row("message", "freed at its end".to_owned()),
    }
    text
}

fn history(task: &TaskInfo) -> String {
    let history = &task.history;
    let parts = [
        (history.failures, "failure"),
        (history.lock_expiries, "expired lock"),
        (history.releases, "release"),
        (history.requeues, "requeue"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts
        .map(|(count, what)| counted(u64::from(*count), what))
        .collect();
    match parts.as_slice() {
        [] => "nothing so far".to_owned(),
        parts => parts.join(", "),
    }
}

fn waiting(waits_for: &WaitsFor, now: Timestamp) -> String {
    match waits_for {
        WaitsFor::Delay => "its due time".to_owned(),
        WaitsFor::Retry => "its retry, after a failed attempt".to_owned(),
        WaitsFor::Release => "its time after a release".to_owned(),
        WaitsFor::Requeue => "its time after a requeue".to_owned(),
        WaitsFor::Pause { until: None } => "a resume: its type is paused".to_owned(),
        WaitsFor::Pause { until: Some(until) } => {
            format!("the end of the pause, {}", moment(*until, now))
        }
        WaitsFor::Concurrency => "a slot of the fleet concurrency".to_owned(),
        WaitsFor::Rate => "the fleet rate".to_owned(),
        WaitsFor::Claim => "a handler: those of its type are busy or away".to_owned(),
        _ => "what this release does not know".to_owned(),
    }
}
