//! `dead groups`: dead tasks grouped by error.

use clap::Args;
use delayq_ops::{DeadGroups, dead_groups};
use delayq_plugin::{Clock, SystemClock, TaskFilter, TaskId, TaskSubmitService};

use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::selection::Selection;
use crate::span::relative;
use crate::text::{BAD, STRONG, counted, one_line, styled, table};

/// Number of ids shown for a group.
const IDS: usize = 2;

/// The dead tasks to group.
#[derive(Debug, Args)]
pub(crate) struct GroupsArgs {
    /// The type, or a pattern such as `mail.*`; default: all types.
    #[arg(value_name = "TYPE", default_value = "*")]
    types: String,
    #[command(flatten)]
    selection: Selection,
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &GroupsArgs,
) -> Result<CommandResult, Failure> {
    let filter = args.selection.narrow(TaskFilter::new());
    let found = dead_groups(tasks, &args.types, &filter).await?;
    CommandResult::new(text(&found), found)
}

fn text(found: &DeadGroups) -> String {
    if found.groups.is_empty() {
        return "no such task is dead".to_owned();
    }
    let now = SystemClock.now();
    let mut table = table(&["TYPE", "DEAD", "FIRST", "LAST", "ERROR", "SUCH AS"]);
    for group in &found.groups {
        let ids = group.ids.iter().take(IDS).map(TaskId::as_str);
        table.add_row([
            styled(STRONG, &group.task_type),
            group.count.to_string(),
            relative(group.first_at, now),
            relative(group.last_at, now),
            styled(BAD, one_line(&group.error)),
            ids.collect::<Vec<_>>().join(", "),
        ]);
    }
    let groups = counted(found.groups.len() as u64, "kind");
    let dead = counted(found.count, "dead task");
    let mut text = format!("{table}\n{dead}, {groups} of error; # stands for a number or an id");
    if !found.is_complete {
        text += "\nthere are more: the first 10,000 were read; name a type or a condition";
    }
    text
}
