//! `dead groups`: dead tasks grouped by error.

use clap::Args;
use delayq_ops::{DeadGroups, dead_groups, known_types};
use delayq_plugin::{Clock, SystemClock, TaskFilter, TaskId, TaskSubmitService};

use crate::answer::{CommandResult, Report};
use crate::failure::Failure;
use crate::selection::Selection;
use crate::span::relative;
use crate::table::{Table, column};
use crate::text::{BAD, STRONG, counted, one_line, styled};

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
    if args.types != "*" {
        known_types(tasks, &args.types).await?;
    }
    let filter = args.selection.narrow(TaskFilter::new());
    let found = dead_groups(tasks, &args.types, &filter).await?;
    CommandResult::new(text(&found), found)
}

fn text(found: &DeadGroups) -> Report {
    if found.groups.is_empty() {
        return "no such task is dead".into();
    }
    let now = SystemClock.now();
    let mut table = Table::new(&[
        column("TYPE"),
        column("DEAD"),
        column("FIRST").minor(2),
        column("LAST").minor(1),
        column("ERROR").text(),
        column("SUCH AS").minor(3),
    ]);
    for group in &found.groups {
        let ids = group.ids.iter().take(IDS).map(TaskId::as_str);
        table.row([
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
    let sum = format!("{dead}, {groups} of error; # stands for a number or an id");
    let report = Report::from(table).lines(sum);
    if found.is_complete {
        return report;
    }
    report.lines("there are more: the first 10,000 were read; name a type or a condition")
}
