//! `cancel-all`, `reschedule-all`: changes of all tasks that meet conditions.

use clap::Args;
use delayq_ops::{Operator, known_types};
use delayq_plugin::{BulkChange, BulkReport, TaskFilter, TaskState, Timestamp};

use super::change::WhenArgs;
use crate::answer::CommandResult;
use crate::consent::ask;
use crate::failure::Failure;
use crate::progress;
use crate::selection::{Selection, read_state};
use crate::span::read_time;
use crate::text::counted;

/// The tasks, and the consent to change them.
#[derive(Debug, Args)]
pub(crate) struct Many {
    /// The type, or a pattern such as `mail.*`.
    #[arg(value_name = "TYPE")]
    types: String,
    #[command(flatten)]
    selection: Selection,
    /// Due before this time.
    #[arg(long, value_name = "TIME", value_parser = read_time, help_heading = "Conditions")]
    due_before: Option<Timestamp>,
    /// Due after this time.
    #[arg(long, value_name = "TIME", value_parser = read_time, help_heading = "Conditions")]
    due_after: Option<Timestamp>,
    /// All tasks: required if there is no other condition.
    #[arg(long)]
    all: bool,
    /// Only show the number of tasks, without changing them.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// The tasks to cancel.
#[derive(Debug, Args)]
pub(crate) struct CancelAllArgs {
    #[command(flatten)]
    many: Many,
    /// Only scheduled or only running tasks; default: both.
    #[arg(long, value_parser = read_state)]
    state: Option<TaskState>,
}

/// The tasks to move, and the new time.
#[derive(Debug, Args)]
pub(crate) struct RescheduleAllArgs {
    #[command(flatten)]
    many: Many,
    #[command(flatten)]
    when: WhenArgs,
}

impl Many {
    fn filter(&self) -> Result<TaskFilter, Failure> {
        let has_times = self.due_before.is_some() || self.due_after.is_some();
        if self.selection.is_empty() && !has_times && !self.all {
            let text = "no condition is given: add --all to mean every task";
            return Err(Failure::usage(text));
        }
        let all = if self.all {
            TaskFilter::all()
        } else {
            TaskFilter::new()
        };
        let mut filter = self.selection.narrow(all);
        if let Some(time) = self.due_before {
            filter = filter.due_before(time);
        }
        if let Some(time) = self.due_after {
            filter = filter.due_after(time);
        }
        Ok(filter)
    }
}

/// Runs `cancel-all`.
pub(super) async fn cancel(
    operator: &Operator,
    args: &CancelAllArgs,
) -> Result<CommandResult, Failure> {
    let (many, mut filter) = (&args.many, args.many.filter()?);
    if let Some(state) = args.state {
        filter = filter.state(state);
    }
    known_types(operator.tasks(), &many.types).await?;
    let expected = operator.tasks().cancel_all(&many.types, &filter);
    let expected = foresee(expected).await?;
    if many.dry_run || expected.matched == 0 {
        return answer("would be cancelled", "would be asked to stop", &expected);
    }
    let waiting = counted(expected.changed, "task");
    let running = counted(expected.running, "running one");
    let types = counted(expected.types.len() as u64, "type");
    ask(
        &format!("cancel {waiting} of {types} and ask {running} to stop"),
        many.yes,
    )?;
    let report = operator.cancel_all(&many.types, &filter).await?;
    answer("cancelled", "asked to stop", &report)
}

/// Runs `reschedule-all`.
pub(super) async fn reschedule(
    operator: &Operator,
    args: &RescheduleAllArgs,
) -> Result<CommandResult, Failure> {
    let (many, filter, when) = (&args.many, args.many.filter()?, args.when.when());
    known_types(operator.tasks(), &many.types).await?;
    let expected = operator.tasks().reschedule_all(&many.types, &filter, when);
    let expected = foresee(expected).await?;
    if many.dry_run || expected.matched == 0 {
        return answer("would be moved", "running: would be left", &expected);
    }
    let (count, types) = (expected.changed, expected.types.len() as u64);
    let plan = format!(
        "move {} of {}",
        counted(count, "task"),
        counted(types, "type")
    );
    ask(&plan, many.yes)?;
    let report = operator.reschedule_all(&many.types, &filter, when).await?;
    answer("moved", "running: left", &report)
}

/// The result that a change would have. Reads all tasks of the types in their states.
async fn foresee(change: BulkChange<'_>) -> Result<BulkReport, Failure> {
    let _sign = progress::sign("reads the tasks, to count those that match");
    Ok(change.dry_run().await?)
}

fn answer(changed: &str, running: &str, report: &BulkReport) -> Result<CommandResult, Failure> {
    let mut text = format!("{} {changed}", report.changed);
    for (count, what) in [(report.running, running), (report.gone, "had ended before")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if !report.is_complete {
        text.push_str("; it stopped early, because tasks arrive faster than it reads: repeat it");
    }
    let is_done = report.matched > 0 && report.is_complete;
    Ok(CommandResult::new(text, report)?.done_if(is_done))
}
