//! `recurring`: the occurrences waiting in the store.

use clap::Args;
use delayq_ops::{Operator, known_types};
use delayq_plugin::{
    Result, TaskId, TaskInfo, TaskState, TaskSubmitService, TaskType, Timestamp, TypePattern,
};
use serde::Serialize;
use serde_json::json;

use crate::answer::{CommandResult, Report};
use crate::consent::ask;
use crate::failure::Failure;
use crate::paging::{Paging, more};
use crate::table::{Table, column};
use crate::text::{STRONG, counted, one_line, styled};

/// The header of an occurrence with its schedule, as the plugin writes it.
const SCHEDULE: &str = "delayq-schedule";
/// The header of an occurrence with its local time in its zone.
const OCCURRENCE: &str = "delayq-occurrence";
/// Number of tasks in one page.
const PAGE: usize = 128;
/// Maximum number of pages read for a type given by name: more than 10,000 waiting tasks, as in the
/// plugin itself.
const MAX_PAGES: usize = 80;
/// Maximum number of pages read for each type of a pattern, so that many large types are also
/// answered quickly.
const MAX_PAGES_OF_EACH: usize = 12;

/// The recurring tasks.
#[derive(Debug, Args)]
pub(crate) struct RecurringArgs {
    /// The type, or a pattern; default: all types.
    #[arg(value_name = "TYPE", default_value = "*")]
    types: String,
    /// Cancel the waiting occurrences of the recurring task with this name (`--remove ''` if it has
    /// none). While an instance still declares it, the next one is sent again within a minute.
    #[arg(long, value_name = "NAME", requires = "types")]
    remove: Option<String>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    paging: Paging,
}

/// A waiting occurrence.
#[derive(Debug, Serialize)]
struct WaitingOccurrence {
    #[serde(rename = "type")]
    task_type: TaskType,
    /// The name of the recurring task; empty if it has none.
    name: String,
    schedule: String,
    /// Its due time.
    next: Timestamp,
    next_id: TaskId,
    /// Its local time in its zone.
    occurrence: Option<String>,
}

impl WaitingOccurrence {
    /// The occurrence that a task is, if it is one.
    fn of(task_type: &TaskType, task: &TaskInfo) -> Option<Self> {
        let (name, _) = task.id.as_str().rsplit_once('@')?;
        Some(Self {
            task_type: task_type.clone(),
            name: name.to_owned(),
            schedule: task.headers.get(SCHEDULE)?.clone(),
            next: task.at,
            next_id: task.id.clone(),
            occurrence: task.headers.get(OCCURRENCE).cloned(),
        })
    }

    /// Its place in a list: the cursor of a page.
    fn place(&self) -> String {
        format!("{}/{}", self.task_type, self.next_id)
    }
}

/// The occurrences of a type, and true if all of its waiting tasks were read.
async fn read(
    tasks: &TaskSubmitService,
    task_type: &TaskType,
    most: usize,
    found: &mut Vec<WaitingOccurrence>,
) -> Result<bool> {
    let mut cursor = None;
    for _ in 0..most {
        let (name, state) = (task_type.as_str(), TaskState::Scheduled);
        let page = tasks.list(name, state, cursor.as_ref(), PAGE).await?;
        let occurrences = page.tasks.iter();
        found.extend(occurrences.filter_map(|task| WaitingOccurrence::of(task_type, task)));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs the command.
pub(super) async fn run(
    operator: &Operator,
    args: &RecurringArgs,
) -> Result<CommandResult, Failure> {
    let (tasks, pattern) = (operator.tasks(), TypePattern::new(&args.types)?);
    let (mut found, mut partly) = (Vec::new(), Vec::new());
    let (most, hint) = match pattern {
        TypePattern::Exact(_) => (MAX_PAGES, ""),
        TypePattern::Prefix(_) => (MAX_PAGES_OF_EACH, ": name the type to read more of it"),
    };
    let types = match args.types.as_str() {
        "*" => tasks.types().await?,
        types => known_types(tasks, types).await?,
    };
    for task_type in types {
        if !read(tasks, &task_type, most, &mut found).await? {
            partly.push(task_type);
        }
    }
    if let Some(name) = &args.remove {
        let (found, is_agreed) = (&found, args.yes);
        return remove(operator, &pattern, name, Removal { found, is_agreed }).await;
    }
    let (found, next) = args.paging.page(found, WaitingOccurrence::place);
    let mut table = Table::new(&[
        column("TYPE"),
        column("NAME"),
        column("SCHEDULE").text(),
        column("NEXT"),
        column("ID").wide(),
    ]);
    for one in &found {
        table.row([
            styled(STRONG, &one.task_type),
            one.name.clone(),
            one_line(&one.schedule),
            one.next.to_string(),
            one.next_id.to_string(),
        ]);
    }
    let mut report = if found.is_empty() {
        Report::from("no occurrence waits")
    } else {
        Report::from(table)
    };
    for task_type in &partly {
        let read = PAGE * most;
        let text = format!("{task_type}: only the first {read} tasks were read{hint}");
        report = report.lines(text);
    }
    if let Some(next) = &next {
        report = report.lines(more(next));
    }
    let document = json!({"occurrences": found, "partly_read": partly, "next": next});
    CommandResult::new(report, document)
}

/// The input of a removal.
struct Removal<'a> {
    found: &'a [WaitingOccurrence],
    is_agreed: bool,
}

async fn remove(
    operator: &Operator,
    pattern: &TypePattern,
    name: &str,
    removal: Removal<'_>,
) -> Result<CommandResult, Failure> {
    let TypePattern::Exact(task_type) = pattern else {
        let text = "--remove needs one type: write `delayq recurring TYPE --remove NAME`";
        return Err(Failure::usage(text));
    };
    let count = removal.found.iter().filter(|one| one.name == name).count();
    if count == 0 {
        let text = format!("no occurrence of {name:?} waits in {task_type}");
        return Err(Failure::refused(text));
    }
    let occurrences = counted(count as u64, "waiting occurrence");
    ask(
        &format!("cancel {occurrences} of {task_type}"),
        removal.is_agreed,
    )?;
    let removed = operator.remove_recurring(task_type.as_str(), name).await?;
    let json = json!({"type": task_type, "name": name, "removed": removed});
    CommandResult::new(format!("{removed} cancelled"), json)
}
