//! `purge`: removes the tasks of a type in one state, for good.

use clap::Args;
use delayq_ops::{Operator, known_type};
use delayq_plugin::TaskState;
use serde_json::json;

use crate::answer::CommandResult;
use crate::consent::ask_for_name;
use crate::failure::Failure;
use crate::selection::read_state;
use crate::text::counted;

/// The tasks to remove.
#[derive(Debug, Args)]
pub(crate) struct PurgeArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// scheduled or dead: these tasks are removed; done, cancelled or expired: they are forgotten,
    /// and repeats of their requests are no longer recognised.
    #[arg(long, value_parser = read_state)]
    state: TaskState,
    /// Do not ask; repeat the type here.
    #[arg(long, value_name = "TYPE")]
    yes: Option<String>,
}

/// Runs the command.
pub(super) async fn run(operator: &Operator, args: &PurgeArgs) -> Result<CommandResult, Failure> {
    let (task_type, state) = (&args.task_type, args.state);
    known_type(operator.tasks(), task_type).await?;
    let counts = operator.tasks().stats(task_type).await?;
    let what = match state {
        TaskState::Running => {
            let text = "running tasks are not purged: `delayq cancel-all --state running` asks \
                        them to stop";
            return Err(Failure::usage(text));
        }
        TaskState::Scheduled => format!("remove {}", counted(counts.scheduled, "scheduled task")),
        TaskState::Dead => format!("remove {}", counted(counts.dead, "dead task")),
        _ => format!(
            "forget the {state} ones of {}",
            counted(counts.remembered, "ended task")
        ),
    };
    let plan = format!("{what} of {task_type}");
    ask_for_name(&plan, task_type, args.yes.as_deref())?;
    let removed = operator.purge(task_type, state).await?;
    let json = json!({"type": task_type, "state": state, "removed": removed});
    CommandResult::new(format!("{removed} removed"), json)
}
