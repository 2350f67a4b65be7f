//! `pause`, `resume`: of a type or a pattern.

use std::time::Duration;

use clap::Args;
use delayq_ops::Operator;
use delayq_plugin::{TaskSubmitService, TaskType, Timestamp, TypePattern};
use serde_json::json;

use crate::answer::CommandResult;
use crate::consent::ask;
use crate::failure::Failure;
use crate::span::{read_span, read_time};
use crate::text::counted;

/// The types to pause, and the end of the pause.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    which: ResumeArgs,
    /// Pause until this time; default: until resumed.
    #[arg(long, value_name = "TIME", value_parser = read_time, conflicts_with = "lasts")]
    until: Option<Timestamp>,
    /// Pause for this long, such as 30m.
    #[arg(long = "for", value_name = "SPAN", value_parser = read_span)]
    lasts: Option<Duration>,
}

/// The types.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The type, or a pattern such as `mail.*` for the listed types that match now.
    #[arg(value_name = "TYPE")]
    types: String,
    /// Do not ask if a pattern matches several types.
    #[arg(long)]
    yes: bool,
}

impl ResumeArgs {
    /// Asks if a pattern names more than one type. Returns one of the selected types, if there are
    /// any.
    async fn agree(
        &self,
        tasks: &TaskSubmitService,
        verb: &str,
    ) -> Result<Option<TaskType>, Failure> {
        let pattern = TypePattern::new(&self.types)?;
        if let TypePattern::Exact(task_type) = pattern {
            return Ok(Some(task_type));
        }
        let mut types = tasks.types().await?;
        types.retain(|task_type| pattern.matches(task_type));
        if types.len() > 1 {
            let count = counted(types.len() as u64, "type");
            ask(&format!("{verb} {count}: {}", joined(&types)), self.yes)?;
        }
        Ok(types.into_iter().next())
    }
}

impl PauseArgs {
    /// The end of the pause, by the store's clock.
    async fn until(
        &self,
        tasks: &TaskSubmitService,
        task_type: &TaskType,
    ) -> Result<Option<Timestamp>, Failure> {
        let Some(span) = self.lasts else {
            return Ok(self.until);
        };
        let now = tasks.stats(task_type.as_str()).await?.now;
        Ok(Some(now.plus(span)))
    }
}

fn joined(types: &[TaskType]) -> String {
    let names: Vec<_> = types.iter().map(TaskType::as_str).collect();
    names.join(", ")
}

/// Runs `pause`.
pub(super) async fn pause(operator: &Operator, args: &PauseArgs) -> Result<CommandResult, Failure> {
    let (mut types, mut until) = (Vec::new(), args.until);
    if let Some(one) = args.which.agree(operator.tasks(), "pause").await? {
        until = args.until(operator.tasks(), &one).await?;
        types = operator.pause(&args.which.types, until).await?;
    }
    let end = until.map_or("until resumed".to_owned(), |until| format!("until {until}"));
    let text = if types.is_empty() {
        format!("no type matches {}", args.which.types)
    } else {
        format!("paused {end}: {}", joined(&types))
    };
    let is_done = !types.is_empty();
    Ok(CommandResult::new(text, json!({"types": types, "until": until}))?.done_if(is_done))
}

/// Runs `resume`.
pub(super) async fn resume(
    operator: &Operator,
    args: &ResumeArgs,
) -> Result<CommandResult, Failure> {
    let mut types = Vec::new();
    if args.agree(operator.tasks(), "resume").await?.is_some() {
        types = operator.resume(&args.types).await?;
    }
    let text = if types.is_empty() {
        format!("no type matches {}", args.types)
    } else {
        format!("resumed: {}", joined(&types))
    };
    let is_done = !types.is_empty();
    Ok(CommandResult::new(text, json!({"types": types}))?.done_if(is_done))
}
