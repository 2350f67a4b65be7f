//! `history`: what became of tasks, also of those that the store has forgotten.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use delayq_ops::{Operator, forget_history};
use delayq_plugin::history::{
    Fate, Forget, HistoryCursor, HistoryPage, HistoryQuery, HistoryStore, Life, LifeOutcome,
    TaskHistory,
};
use delayq_plugin::{Namespace, TaskId, TaskType, Timestamp};
use serde_json::json;

use crate::answer::{CommandResult, Report};
use crate::connection::{StoreArgs, existing_file, namespace, note_other_history, url};
use crate::consent::ask;
use crate::failure::Failure;
use crate::paging::more;
use crate::span::{read_span, read_time, span};
use crate::store_url::has_namespace;
use crate::table::{Table, column};
use crate::text::{BAD, STRONG, one_line, styled};

/// The time limit of a call to the history database, unless one is given.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The lives on a page, unless a number is given.
const DEFAULT_LIMIT: u8 = 30;

/// The lives to show, or another command on the history.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The history database, such as sqlite:PATH or postgres://HOST/DATABASE; or DELAYQ_HISTORY, or
    /// `history` in the file or the profile.
    // The commands below take it, too, on either side of their names.
    #[arg(long, value_name = "URL", global = true)]
    history: Option<String>,
    #[command(flatten)]
    search: SearchArgs,
    #[command(subcommand)]
    command: Option<HistoryCommand>,
}

/// A command on the history.
#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Show lives, latest end first.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq history show --type order.cancel --id order-42",
        "\n  delayq history show --outcome dead --since 2026-12-01T00:00Z --error timeout",
        "\n  delayq history show --type mail.send --late-by 5m --longer-than 30s -o json",
    ))]
    Show(SearchArgs),
    /// Remove the lives of a task or a group from the history, for good.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq history forget --group tenant-7",
        "\n  delayq history forget --type mail.send --id customer-7 --yes",
    ))]
    Forget(ForgetArgs),
    /// Show how far the history is behind, and its size.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq history status",
        "\n  delayq history status -o json",
    ))]
    Status,
}

/// Conditions on lives; all of them have to hold.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Of this type.
    #[arg(long = "type", value_name = "TYPE", help_heading = "Conditions")]
    task_type: Option<TaskType>,
    /// With this id. With a type as well, the task in the store is shown, too.
    #[arg(long, value_name = "ID", help_heading = "Conditions")]
    id: Option<TaskId>,
    /// With this group.
    #[arg(long, value_name = "NAME", help_heading = "Conditions")]
    group: Option<String>,
    /// With this project.
    #[arg(long, value_name = "NAME", help_heading = "Conditions")]
    project: Option<String>,
    /// That ended so: done, dead, expired, cancelled or discarded; may be given several times.
    #[arg(long, value_name = "END", help_heading = "Conditions")]
    outcome: Vec<LifeOutcome>,
    /// That ended at this time or later.
    #[arg(long, value_name = "TIME", value_parser = read_time, help_heading = "Conditions")]
    since: Option<Timestamp>,
    /// That ended before this time.
    #[arg(long, value_name = "TIME", value_parser = read_time, help_heading = "Conditions")]
    until: Option<Timestamp>,
    /// Whose last error contains this text.
    #[arg(long, value_name = "TEXT", help_heading = "Conditions")]
    error: Option<String>,
    /// Whose first attempt started more than this after it was due, such as 5m.
    #[arg(long, value_name = "SPAN", value_parser = read_span, help_heading = "Conditions")]
    late_by: Option<Duration>,
    /// Whose last attempt took longer than this, such as 30s.
    #[arg(long, value_name = "SPAN", value_parser = read_span, help_heading = "Conditions")]
    longer_than: Option<Duration>,
    /// Maximum number of lives.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT.into(), help_heading = "Page",
        value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: u64,
    /// The start of the page: the cursor printed after the previous page.
    #[arg(long, value_name = "CURSOR", help_heading = "Page")]
    cursor: Option<HistoryCursor>,
}

/// Whose lives are removed.
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// Only lives of this type.
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<TaskType>,
    /// The lives of the tasks with this id.
    #[arg(
        long,
        value_name = "ID",
        required_unless_present = "group",
        conflicts_with = "group"
    )]
    id: Option<TaskId>,
    /// The lives with this group.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl SearchArgs {
    fn query(&self) -> HistoryQuery {
        let mut query = HistoryQuery::default();
        query.task_type.clone_from(&self.task_type);
        query.id.clone_from(&self.id);
        query.group.clone_from(&self.group);
        query.project.clone_from(&self.project);
        query.outcomes.clone_from(&self.outcome);
        query.since = self.since;
        query.until = self.until;
        query.error.clone_from(&self.error);
        query.late_by = self.late_by;
        query.longer_than = self.longer_than;
        query.limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        query.after = self.cursor;
        query
    }

    /// The one task that is asked for, if there is no other condition.
    fn one_task(&self) -> Option<(&TaskType, &TaskId)> {
        let wanted = self.task_type.as_ref().zip(self.id.as_ref())?;
        let mut plain = HistoryQuery::default();
        let query = self.query();
        (plain.task_type, plain.id) = (query.task_type.clone(), query.id.clone());
        plain.limit = query.limit;
        (query == plain).then_some(wanted)
    }
}

impl HistoryArgs {
    /// The search of this call, if it is one.
    fn searched(&self) -> Option<&SearchArgs> {
        match &self.command {
            None => Some(&self.search),
            Some(HistoryCommand::Show(search)) => Some(search),
            Some(_) => None,
        }
    }

    /// Refuses conditions before the name of a command, which would not see them.
    fn check(&self) -> Result<(), Failure> {
        let mut nothing = HistoryQuery::default();
        nothing.limit = DEFAULT_LIMIT.into();
        if self.command.is_some() && self.search.query() != nothing {
            let text = "the options of a search stand before another command: write them after \
                        `show`, or after the command's name";
            return Err(Failure::usage(text));
        }
        Ok(())
    }

    /// Runs a search that needs no store: only its history is named, or no single task is asked
    /// for. `None` for any other call.
    pub(super) async fn without_store(
        &self,
        store: &StoreArgs,
    ) -> Option<Result<CommandResult, Failure>> {
        if let Err(refused) = self.check() {
            return Some(Err(refused));
        }
        let search = self.searched()?;
        let database = self.history.as_ref()?;
        let of_store = url(store).ok();
        // The namespace of a server is in its URL.
        let is_server = of_store.as_ref().is_some_and(|url| has_namespace(url));
        if is_server || search.one_task().is_some() && of_store.is_some() {
            return None;
        }
        let searched = async {
            let history = named(database, namespace(store)?, store)?;
            found(&history.search(&search.query()).await?)
        };
        Some(searched.await)
    }
}

/// The history of a namespace in a database that the call names.
fn named(database: &str, namespace: Namespace, store: &StoreArgs) -> Result<HistoryStore, Failure> {
    existing_file(database)?;
    let timeout = store.timeout.unwrap_or(TIMEOUT);
    Ok(HistoryStore::at(database, namespace, timeout)?)
}

/// Runs the command.
pub(super) async fn run(
    operator: &Operator,
    args: &HistoryArgs,
    store: &StoreArgs,
) -> Result<CommandResult, Failure> {
    let history = history(operator, args, store)?;
    match (&args.command, args.searched()) {
        (Some(HistoryCommand::Forget(whom)), _) => forget(operator, &history, whom).await,
        (_, Some(search)) => show(&history, search).await,
        (_, None) => status(&history).await,
    }
}

/// The history of the database that is given, or else of the configuration.
fn history(
    operator: &Operator,
    args: &HistoryArgs,
    store: &StoreArgs,
) -> Result<TaskHistory, Failure> {
    let mut tasks = operator.tasks().clone();
    if let Some(database) = &args.history {
        let namespace = tasks.store().namespace().cloned().unwrap_or_default();
        tasks = tasks.with_history(Arc::new(named(database, namespace, store)?));
    }
    if let Some(history) = tasks.history() {
        return Ok(history);
    }
    note_other_history(store)?;
    Err(Failure::usage(
        "no history is named: write --history URL, set DELAYQ_HISTORY, or write `history = \"URL\"` \
         into the file or the profile. That of a server is the database that `history` of the \
         server names",
    ))
}

async fn show(history: &TaskHistory, args: &SearchArgs) -> Result<CommandResult, Failure> {
    if let Some((task_type, id)) = args.one_task() {
        let mut fate = history
            .what_became_of(task_type.as_str(), id.as_str())
            .await?;
        fate.lives.truncate(args.query().limit);
        let is_known = !fate.is_unknown();
        return Ok(CommandResult::new(fate_text(&fate, id), &fate)?.done_if(is_known));
    }
    found(&history.search(&args.query()).await?)
}

fn found(page: &HistoryPage) -> Result<CommandResult, Failure> {
    CommandResult::new(text(page), page)
}

/// What became of a task, for people.
pub(super) fn fate_text(fate: &Fate, id: &TaskId) -> Report {
    if fate.is_unknown() && fate.unread > 0 {
        let unread = fate.unread;
        return format!(
            "{id} is not known to the store, and {unread} records are not shipped to the history yet"
        )
        .into();
    }
    if fate.is_unknown() {
        return format!("{id} is known neither to the store nor to the history").into();
    }
    let report = match &fate.now {
        Some(task) => Report::from(format!("in the store: {} since {}", task.state, task.at)),
        None => Report::from("not in the store any more"),
    };
    let report = match &fate.history_error {
        Some(error) => report.lines(format!("what the history has is missing: {error}")),
        None => report,
    };
    if fate.lives.is_empty() {
        return report;
    }
    report.table(table(&fate.lives))
}

fn text(page: &HistoryPage) -> Report {
    if page.lives.is_empty() {
        return "no life in the history meets the conditions".into();
    }
    let report = Report::from(table(&page.lives));
    match page.next {
        Some(cursor) => report.lines(more(cursor)),
        None => report,
    }
}

fn table(lives: &[Life]) -> Table {
    let mut table = Table::new(&[
        column("ENDED"),
        column("TYPE").minor(1),
        column("ID"),
        column("END"),
        column("ATTEMPTS").minor(3),
        column("LATE").minor(4),
        column("RAN").minor(5),
        column("GROUP").minor(6),
        column("PROJECT").wide(),
        column("BY").wide(),
        column("ERROR").text(),
    ]);
    for life in lives {
        let outcome = life.outcome.to_string();
        let is_bad = life.outcome == LifeOutcome::Dead;
        let name = |text: &Option<String>| text.as_deref().map_or(String::new(), one_line);
        let ran = life.run_ms.map(Duration::from_millis);
        table.row([
            life.ended_at.to_string(),
            one_line(life.task_type.as_str()),
            styled(STRONG, one_line(life.id.as_str())),
            if is_bad {
                styled(BAD, outcome)
            } else {
                outcome
            },
            life.attempts.to_string(),
            life.late().map_or(String::new(), span),
            ran.map_or(String::new(), span),
            name(&life.group),
            name(&life.project),
            name(&life.holder),
            name(&life.error),
        ]);
    }
    table
}

async fn forget(
    operator: &Operator,
    history: &TaskHistory,
    args: &ForgetArgs,
) -> Result<CommandResult, Failure> {
    let task_type = args.task_type.clone();
    let whom = match (&args.id, &args.group) {
        (Some(id), _) => Forget::id(id.clone(), task_type),
        (None, group) => Forget::group(group.as_deref().unwrap_or_default(), task_type),
    };
    ask(
        &format!("remove all lives of {whom} from the history, for good"),
        args.yes,
    )?;
    let forgotten = forget_history(operator, history, &whom).await?;
    let lives = match forgotten.lives {
        1 => "1 life".to_owned(),
        lives => format!("{lives} lives"),
    };
    let text = format!("{lives} removed from the history");
    CommandResult::new(text, forgotten)
}

async fn status(history: &TaskHistory) -> Result<CommandResult, Failure> {
    let (waiting, kept) = history.status().await?;
    let time = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.to_string());
    let kept_for = |ms: Option<i64>| match ms {
        None => "for ever".to_owned(),
        Some(ms) => format!("for {}", span(Duration::from_millis(ms.unsigned_abs()))),
    };
    let types = kept.types.iter();
    let types = types.map(|(name, ms)| format!("\n{}: kept {}", one_line(name), kept_for(*ms)));
    let text = format!(
        "waiting in the store: {} records, {} % of the bound; the first ended {}\n\
         dropped at the bound: {}\n\
         in the history: from {} to {}, {} bytes\n\
         kept {}{}",
        waiting.waiting,
        waiting.fill_percent(),
        time(waiting.oldest),
        waiting.lost,
        time(kept.oldest),
        time(kept.newest),
        kept.bytes,
        kept_for(kept.kept_ms),
        types.collect::<String>(),
    );
    CommandResult::new(text, json!({"waiting": waiting, "history": kept}))
}
