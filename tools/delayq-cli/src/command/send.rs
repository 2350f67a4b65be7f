//! `send`: sends one task.

use std::io::Read;

use clap::Args;
use delayq_ops::Operator;
use delayq_plugin::{DelayQueueJob, Receipt, SubmitOutcome};
use serde_json::json;

use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::selection::{Header, read_header};
use crate::text::{STRONG, styled};

/// A task to send.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// The raw message; `-` reads it from stdin, `@FILE` from a file. For a worker with `Json<..>`
    /// write JSON, such as '"text"' or '{"order":42}'.
    #[arg(default_value = "")]
    message: String,
    /// The id; default: a generated one.
    #[arg(long)]
    id: Option<String>,
    /// Due after this delay, such as 30m or "1h 30m".
    #[arg(long, value_name = "SPAN", conflicts_with = "at")]
    after: Option<String>,
    /// Due at this time, such as 2026-12-24T17:00Z or 2026-12-24T18:00[Europe/Berlin].
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Do not start it this long after its due time; it expires.
    #[arg(long, value_name = "SPAN")]
    expires_after: Option<String>,
    /// A header; repeat it for several.
    #[arg(long, value_name = "NAME=VALUE", value_parser = read_header)]
    header: Vec<Header>,
    /// The group, for later selections.
    #[arg(long)]
    group: Option<String>,
    /// Keep an existing task with this id.
    #[arg(long, conflicts_with = "replace")]
    keep: bool,
    /// Replace a scheduled or dead task with this id.
    #[arg(long)]
    replace: bool,
}

/// Runs the command.
pub(super) async fn run(operator: &Operator, args: SendArgs) -> Result<CommandResult, Failure> {
    let task_type = args.task_type.clone();
    let receipt = operator.send(job(args)?).await?;
    CommandResult::new(
        text(&task_type, &receipt),
        json!({"type": task_type, "receipt": receipt}),
    )
}

fn job(args: SendArgs) -> Result<DelayQueueJob, Failure> {
    let mut job = DelayQueueJob::raw(args.task_type, read_message(&args.message)?);
    if let Some(id) = args.id {
        job = job.id(id);
    }
    if let Some(delay) = args.after {
        job = job.after(delay);
    }
    if let Some(time) = args.at {
        job = job.at(time);
    }
    if let Some(span) = args.expires_after {
        job = job.expires_after(span);
    }
    for header in args.header {
        job = job.header(header.name, header.value);
    }
    if let Some(group) = args.group {
        job = job.group(group);
    }
    if args.keep {
        job = job.keep();
    }
    if args.replace {
        job = job.replace();
    }
    Ok(job)
}

fn read_message(text: &str) -> Result<Vec<u8>, Failure> {
    match text.strip_prefix('@') {
        Some(file) => read_file(file),
        None if text == "-" => read_file(text),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// The bytes of a file; `-` is stdin.
pub(super) fn read_file(file: &str) -> Result<Vec<u8>, Failure> {
    if file == "-" {
        let mut message = Vec::new();
        std::io::stdin().lock().read_to_end(&mut message)?;
        return Ok(message);
    }
    std::fs::read(file).map_err(|error| Failure::usage(format!("the message {file:?}: {error}")))
}

fn text(task_type: &str, receipt: &Receipt) -> String {
    let id = styled(STRONG, &receipt.id);
    let class = receipt.durability.as_str();
    let skew = receipt
        .clock_skew
        .map_or(String::new(), |skew| format!("\n{skew}"));
    let what = match receipt.outcome {
        SubmitOutcome::Accepted { due_at, replaced } => {
            let place = if replaced {
                ", in the place of another"
            } else {
                ""
            };
            format!("accepted{place}, due at {due_at}, class {class}")
        }
        SubmitOutcome::RunsAgain { due_at } => format!("runs again at {due_at}, class {class}"),
        SubmitOutcome::AlreadyExists { state } => format!("known already, {state}: left as it is"),
        _ => "not accepted".to_owned(),
    };
    format!("{id} of {task_type}: {what}{skew}")
}
