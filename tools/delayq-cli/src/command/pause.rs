//! `pause`, `resume`: of a type or a pattern.

use std::time::Duration;

use clap::Args;
use delayq_ops::{Operator, known_type, known_types};
use delayq_plugin::{Error, TaskSubmitService, TaskType, Timestamp};
use serde_json::json;

use crate::answer::CommandResult;
use crate::consent::ask;
use crate::failure::Failure;
use crate::span::{read_delay, read_time};
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
    #[arg(long = "for", value_name = "SPAN", allow_hyphen_values = true, value_parser = read_delay)]
    lasts: Option<Duration>,
    /// Make the type if the store does not list it, and pause it.
    #[arg(long)]
    create: bool,
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
    /// Asks if a pattern names more than one type. Returns one of the selected types.
    async fn agree(
        &self,
        tasks: &TaskSubmitService,
        verb: &str,
        creates: bool,
    ) -> Result<TaskType, Failure> {
        if let Ok(task_type) = TaskType::new(&self.types) {
            if !creates {
                let known = known_type(tasks, task_type.as_str()).await;
                known.map_err(|error| refused(verb, error))?;
            }
            return Ok(task_type);
        }
        let types = known_types(tasks, &self.types).await?;
        if types.len() > 1 {
            let count = counted(types.len() as u64, "type");
            ask(&format!("{verb} {count}: {}", joined(&types)), self.yes)?;
        }
        let first = types.into_iter().next();
        first.ok_or_else(|| Failure::refused(format!("no type matches {}", self.types)))
    }
}

/// The failure of a change of a type that is not listed. A pause can make it.
fn refused(verb: &str, error: Error) -> Failure {
    match verb {
        "pause" => Failure::Unmade(error),
        _ => error.into(),
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
    let (which, tasks) = (&args.which, operator.tasks());
    let one = which.agree(tasks, "pause", args.create).await?;
    let until = args.until(tasks, &one).await?;
    let operator = operator.clone().creating(args.create);
    let types = operator.pause(&which.types, until).await;
    let types = types.map_err(Failure::Unmade)?;
    let end = until.map_or("until resumed".to_owned(), |until| format!("until {until}"));
    let text = format!("paused {end}: {}", joined(&types));
    CommandResult::new(text, json!({"types": types, "until": until}))
}

/// Runs `resume`.
pub(super) async fn resume(
    operator: &Operator,
    args: &ResumeArgs,
) -> Result<CommandResult, Failure> {
    args.agree(operator.tasks(), "resume", false).await?;
    let types = operator.resume(&args.types).await?;
    let text = format!("resumed: {}", joined(&types));
    CommandResult::new(text, json!({"types": types}))
}
