//! `list`: a page of tasks.

use clap::Args;
use delayq_ops::known_type;
use delayq_plugin::{
    Cursor, Page, TaskFilter, TaskId, TaskInfo, TaskState, TaskSubmitService, Timestamp,
};
use serde_json::json;

use crate::answer::{CommandResult, Report};
use crate::failure::Failure;
use crate::paging::more;
use crate::selection::{Selection, read_state};
use crate::span::relative;
use crate::table::{Table, column};
use crate::text::{STRONG, one_line, styled};

/// Maximum number of tasks in one call to the store.
const MAX_PAGE: usize = 128;

/// The tasks to list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// scheduled, running, dead, done, cancelled or expired.
    #[arg(long, default_value = "scheduled", value_parser = read_state)]
    state: TaskState,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    place: TaskPlace,
}

/// A page of tasks.
#[derive(Clone, Debug, Args)]
pub(super) struct TaskPlace {
    /// Maximum number of tasks.
    #[arg(long, default_value_t = 20, value_name = "N", help_heading = "Page",
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
    /// The start of the page: the cursor printed after the previous page.
    #[arg(long, value_name = "CURSOR", value_parser = read_cursor, help_heading = "Page")]
    pub(super) cursor: Option<Cursor>,
}

impl TaskPlace {
    /// Maximum number of tasks.
    pub(super) fn limit(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &ListArgs,
) -> Result<CommandResult, Failure> {
    known_type(tasks, &args.task_type).await?;
    let stats = tasks.stats(&args.task_type).await?;
    let page = read(tasks, args).await?;
    let next = page.next.as_ref().map(written);
    let mut report = if page.tasks.is_empty() {
        Report::from(format!("no such task is {} in this page", args.state))
    } else {
        Report::from(tasks_table(&page.tasks, stats.now))
    };
    if let Some(next) = &next {
        report = report.lines(more(next));
    }
    CommandResult::new(report, json!({"tasks": page.tasks, "next": next}))
}

/// The page, read with as many calls to the store as necessary. If few tasks match, it ends early,
/// with a cursor.
async fn read(tasks: &TaskSubmitService, args: &ListArgs) -> Result<Page, Failure> {
    if !args.selection.is_empty() && args.state.is_ended() {
        let text = "headers and ids of ended tasks are not searched: leave --prefix, --header and \
                    --group, or ask for one with `delayq show`";
        return Err(Failure::usage(text));
    }
    let filter = args.selection.narrow(TaskFilter::new().state(args.state));
    let mut found = Page::default();
    found.next = args.place.cursor.clone();
    loop {
        let left = args.place.limit().saturating_sub(found.tasks.len());
        let limit = left.min(MAX_PAGE);
        if limit == 0 {
            return Ok(found);
        }
        let cursor = found.next.as_ref();
        let page = if args.selection.is_empty() {
            tasks
                .list(&args.task_type, args.state, cursor, limit)
                .await?
        } else {
            tasks
                .list_by(&args.task_type, &filter, cursor, limit)
                .await?
        };
        let is_rare = page.tasks.is_empty();
        found.tasks.extend(page.tasks);
        found.next = page.next;
        if found.next.is_none() || is_rare {
            return Ok(found);
        }
    }
}

/// Tasks as a table.
pub(super) fn tasks_table(tasks: &[TaskInfo], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        column("ID"),
        column("STATE").minor(1),
        column("AT").wide(),
        column("WHEN"),
        column("ATTEMPT").minor(2),
        column("NOTE").text(),
    ]);
    for task in tasks {
        table.row([
            styled(STRONG, &task.id),
            task.state.to_string(),
            task.at.to_string(),
            relative(task.at, now),
            task.attempt.to_string(),
            note(task),
        ]);
    }
    table
}

/// The most notable fact, in a few words.
fn note(task: &TaskInfo) -> String {
    if task.cancel_requested {
        return "cancel requested".to_owned();
    }
    let error = task.history.last_error.as_deref().unwrap_or_default();
    let first: String = one_line(error).chars().take(60).collect();
    match &task.holder {
        Some(holder) => format!("held by {holder} {first}"),
        None => first,
    }
}

/// Parses a cursor on the command line: `MILLISECONDS:ID`, as printed by [`written`].
fn read_cursor(text: &str) -> Result<Cursor, String> {
    let wrong = || format!("{text:?} is not a cursor: use the one printed after the previous page");
    let (at, id) = text.split_once(':').ok_or_else(wrong)?;
    let at = at.parse().map_err(|_| wrong())?;
    let id = TaskId::new(id).map_err(|_| wrong())?;
    Ok(Cursor::new(Timestamp::from_millis(at), id))
}

/// A cursor as text.
pub(super) fn written(cursor: &Cursor) -> String {
    format!("{}:{}", cursor.at.as_millis(), cursor.id)
}
