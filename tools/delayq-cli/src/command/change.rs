//! `cancel`, `reschedule`, `run-now`, `update`: changes of one task.

use std::time::Duration;

use clap::Args;
use delayq_ops::{Operator, known_type};
use delayq_plugin::{CancelOutcome, ChangeOutcome, TaskState, Timestamp, When};
use serde_json::json;

use super::send::read_file;
use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::span::{read_delay, read_time};

/// A task.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// The id.
    id: String,
}

/// A due time.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WhenArgs {
    /// This long from now, such as 30m, by the store's clock.
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = read_delay)]
    after: Option<Duration>,
    /// At this time, such as 2026-12-24T17:00Z or 2026-12-24T18:00[Europe/Berlin].
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    at: Option<Timestamp>,
}

/// A task, and its new due time.
#[derive(Debug, Args)]
pub(crate) struct RescheduleArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    when: WhenArgs,
}

/// A task, and its new message.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    content: ContentArgs,
}

/// The source of a message.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ContentArgs {
    /// The message, exactly as written. For a worker with `Json<..>` write JSON.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// The file with the message; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
}

impl TaskArgs {
    /// Refuses a type that is not listed.
    async fn expect_type(&self, operator: &Operator) -> Result<(), Failure> {
        known_type(operator.tasks(), &self.task_type).await?;
        Ok(())
    }
}

impl WhenArgs {
    /// The given time, from one of the two options.
    pub(super) fn when(&self) -> When {
        match self.at {
            Some(time) => When::At(time),
            None => When::After(self.after.unwrap_or_default()),
        }
    }
}

/// Runs `cancel`.
pub(super) async fn cancel(operator: &Operator, task: &TaskArgs) -> Result<CommandResult, Failure> {
    task.expect_type(operator).await?;
    let outcome = operator.cancel(&task.task_type, &task.id).await?;
    let (word, state, text) = match outcome {
        CancelOutcome::Cancelled => ("cancelled", None, "cancelled: it never starts".to_owned()),
        CancelOutcome::Running => (
            "running",
            None,
            "runs: asked to stop, and no attempt follows".to_owned(),
        ),
        CancelOutcome::Finished(state @ TaskState::Cancelled) => {
            ("finished", Some(state), "cancelled already".to_owned())
        }
        CancelOutcome::Finished(state) => ("finished", Some(state), format!("too late: {state}")),
        _ => ("not_found", None, NOT_FOUND.to_owned()),
    };
    let is_done = match outcome {
        CancelOutcome::Cancelled | CancelOutcome::Running => true,
        CancelOutcome::Finished(state) => state == TaskState::Cancelled,
        _ => false,
    };
    let json = json!({
        "type": task.task_type, "id": task.id, "outcome": word, "state": state,
    });
    let text = format!("{} of {}: {text}", task.id, task.task_type);
    Ok(CommandResult::new(text, json)?.done_if(is_done))
}

/// The text before the new due time of a moved task.
const DUE: &str = "due at";

/// Possible reasons why there is no such task.
const NOT_FOUND: &str = "no such task, or it ended longer ago than the store remembers";

/// Runs `reschedule`.
pub(super) async fn reschedule(
    operator: &Operator,
    args: &RescheduleArgs,
) -> Result<CommandResult, Failure> {
    let task = &args.task;
    let when = args.when.when();
    task.expect_type(operator).await?;
    let outcome = operator.reschedule(&task.task_type, &task.id, when).await?;
    changed(task, DUE, outcome)
}

/// Runs `run-now`.
pub(super) async fn run_now(
    operator: &Operator,
    task: &TaskArgs,
) -> Result<CommandResult, Failure> {
    task.expect_type(operator).await?;
    let outcome = operator.run_now(&task.task_type, &task.id).await?;
    changed(task, DUE, outcome)
}

/// Runs `update`.
pub(super) async fn update(
    operator: &Operator,
    args: &UpdateArgs,
) -> Result<CommandResult, Failure> {
    let (task, content) = (&args.task, &args.content);
    let message = match (&content.message, &content.file) {
        (_, Some(file)) => read_file(file)?,
        (text, None) => text.clone().unwrap_or_default().into_bytes(),
    };
    task.expect_type(operator).await?;
    let outcome = operator.update(&task.task_type, &task.id, message).await?;
    changed(task, "its message is replaced, it is due at", outcome)
}

fn changed(task: &TaskArgs, done: &str, outcome: ChangeOutcome) -> Result<CommandResult, Failure> {
    let (mut due, mut state) = (None, None);
    let (word, text) = match outcome {
        ChangeOutcome::Changed { due_at } => {
            due = Some(due_at);
            ("changed", format!("{done} {due_at}"))
        }
        ChangeOutcome::Running => ("running", "it runs: left as it is".to_owned()),
        ChangeOutcome::Finished(found) => {
            state = Some(found);
            ("finished", format!("it is {found}: left as it is"))
        }
        _ => ("not_found", NOT_FOUND.to_owned()),
    };
    let json = json!({
        "type": task.task_type, "id": task.id, "outcome": word, "due_at": due, "state": state,
    });
    let text = format!("{} of {}: {text}", task.id, task.task_type);
    Ok(CommandResult::new(text, json)?.done_if(due.is_some()))
}
