//! `send`: sends one task.

use std::io::Read;
use std::time::Duration;

use clap::Args;
use delayq_ops::{Operator, overview_of};
use delayq_plugin::{
    DelayQueueJob, Receipt, SubmitOutcome, TaskSubmitService, TaskType, Timestamp,
};
use serde_json::json;

use crate::answer::{CommandResult, Report};
use crate::failure::Failure;
use crate::selection::{Header, read_header};
use crate::span::{read_delay, read_time};
use crate::text::{BAD, STRONG, styled};

/// A task to send.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// The message; `-` reads it from stdin, `@FILE` from a file, and `@@TEXT` is `@TEXT`. For a
    /// worker with `Json<..>` write JSON, such as '"text"' or '{"order":42}'.
    #[arg(value_name = "MESSAGE")]
    text: Option<String>,
    /// The message, exactly as written, also if it begins with `@` or is `-`.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["text", "file"],
        allow_hyphen_values = true)]
    message: Option<String>,
    /// The file with the message; `-` is stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    file: Option<String>,
    /// The id; default: a generated one.
    #[arg(long)]
    id: Option<String>,
    /// Due after this delay, such as 30m or "1h 30m".
    #[arg(long, value_name = "SPAN", conflicts_with = "at", allow_hyphen_values = true,
        value_parser = read_delay)]
    after: Option<Duration>,
    /// Due at this time, such as 2026-12-24T17:00Z or 2026-12-24T18:00[Europe/Berlin].
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    at: Option<Timestamp>,
    /// Do not start it this long after its due time; it expires.
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = read_delay)]
    expires_after: Option<Duration>,
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
    /// Make the type if the store does not list it.
    #[arg(long)]
    create: bool,
}

/// Runs the command.
pub(super) async fn run(operator: &Operator, args: SendArgs) -> Result<CommandResult, Failure> {
    let task_type = args.task_type.clone();
    let operator = operator.clone().creating(args.create);
    let receipt = operator.send(job(args)?).await;
    let receipt = receipt.map_err(Failure::Unmade)?;
    let is_served = is_served(operator.tasks(), &task_type).await;
    let mut report = Report::from(text(&task_type, &receipt));
    if !is_served {
        let warning = format!("nobody serves {task_type} now: its tasks wait for a worker");
        report = report.lines(styled(BAD, warning));
    }
    let document = json!({"type": task_type, "receipt": receipt, "is_served": is_served});
    CommandResult::new(report, document)
}

/// False if no instance serves the type, and nothing of it runs or ran in the last minutes. If that
/// cannot be found out, there is nothing to warn of.
async fn is_served(tasks: &TaskSubmitService, task_type: &str) -> bool {
    let Ok(task_type) = TaskType::new(task_type) else {
        return true;
    };
    let seen = overview_of(tasks, vec![task_type]).await;
    let seen = seen.ok().and_then(|mut seen| seen.types.pop());
    seen.is_none_or(|seen| {
        let has_started = seen.recent.is_some_and(|recent| recent.started > 0);
        seen.serving > 0 || seen.stats.running > 0 || has_started
    })
}

fn job(args: SendArgs) -> Result<DelayQueueJob, Failure> {
    let message = read_message(&args)?;
    let mut job = DelayQueueJob::raw(args.task_type, message);
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

fn read_message(args: &SendArgs) -> Result<Vec<u8>, Failure> {
    if let Some(message) = &args.message {
        return Ok(message.as_bytes().to_vec());
    }
    if let Some(file) = &args.file {
        return read_file(file);
    }
    let text = args.text.as_deref().unwrap_or_default();
    match text.strip_prefix('@') {
        Some(literal) if literal.starts_with('@') => Ok(literal.as_bytes().to_vec()),
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
    std::fs::read(file).map_err(|error| {
        Failure::usage(format!(
            "the file {file:?} of the message: {error}; a message that begins with @ is --message"
        ))
    })
}

fn text(task_type: &str, receipt: &Receipt) -> String {
    let id = styled(STRONG, &receipt.id);
    let class = receipt.durability.as_str();
    let skew = receipt
        .clock_skew
        .map_or(String::new(), |skew| format!("\n{skew}"));
    let what = match receipt.outcome {
        SubmitOutcome::Accepted { due_at, replaced } => {
            let place = if replaced { ", replacing another" } else { "" };
            format!("accepted{place}, due at {due_at}, durability {class}")
        }
        SubmitOutcome::RunsAgain { due_at } => {
            format!("runs again at {due_at}, durability {class}")
        }
        SubmitOutcome::AlreadyExists { state } => {
            format!("exists already and is {state}: left as it is")
        }
        _ => "not accepted".to_owned(),
    };
    format!("{id} of {task_type}: {what}{skew}")
}
