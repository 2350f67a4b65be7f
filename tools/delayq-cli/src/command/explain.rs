//! `explain`: explains why a task has not started, or started late, and shows its life so far.

use clap::Args;
use delayq_ops::{MomentKind, explain, known_type, timeline};
use delayq_plugin::TaskSubmitService;
use serde_json::json;

use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::span::moment;
use crate::text::{STRONG, one_line, styled};

/// A task.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// The id.
    id: String,
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &ExplainArgs,
) -> Result<CommandResult, Failure> {
    known_type(tasks, &args.task_type).await?;
    let explanation = explain(tasks, &args.task_type, &args.id).await?;
    let moments = timeline(tasks, &args.task_type, &args.id).await?;
    let mut text = styled(STRONG, one_line(&explanation.sentence));
    // The present is already in the sentence above.
    for one in moments.iter().filter(|one| one.kind != MomentKind::Now) {
        let at = one.at.map(|at| moment(at, explanation.now));
        text += &format!("\n  {:<40}{}", at.unwrap_or_default(), one_line(&one.text));
    }
    let is_known = explanation.state.is_some();
    let answer = CommandResult::new(
        text,
        json!({"explanation": explanation, "timeline": moments}),
    )?;
    Ok(answer.done_if(is_known))
}
