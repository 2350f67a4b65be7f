//! `dead list`, `dead requeue`, `dead discard`, `dead groups`.

use std::time::Duration;

use clap::{Args, Subcommand};
use delayq_ops::{DeadSelection, Operator, known_type, read_pace};
use delayq_plugin::{Result, TaskFilter, TaskId, TaskSubmitService, Timestamp};
use serde_json::json;

use super::list::{TaskPlace, tasks_table, written};
use crate::answer::{CommandResult, Report};
use crate::consent::ask;
use crate::failure::Failure;
use crate::paging::more;
use crate::progress;
use crate::selection::Selection;
use crate::span::read_time;
use crate::text::counted;

mod groups;

/// A command on dead tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead tasks, earliest death first.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq dead list mail.send --error timeout",
        "\n  delayq dead list mail.send --limit 100 -o json",
    ))]
    List(DeadListArgs),
    /// Schedule dead tasks again; their attempts are reset.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq dead requeue mail.send --error 503 --rate 20/s --yes",
        "\n  delayq dead requeue mail.send order-42 order-43",
    ))]
    Requeue(RequeueArgs),
    /// Remove dead tasks for good.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq dead discard mail.send --died-before 2026-12-24T17:00Z --dry-run",
        "\n  delayq dead discard mail.send --all --yes",
    ))]
    Discard(DiscardArgs),
    /// Show dead tasks grouped by error, the most frequent error first.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq dead groups",
        "\n  delayq dead groups 'mail.*'",
    ))]
    Groups(groups::GroupsArgs),
}

/// Conditions on dead tasks; all of them have to hold.
#[derive(Debug, Args)]
pub(crate) struct DeadArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    #[command(flatten)]
    selection: Selection,
    /// The last error contains this text.
    #[arg(long, value_name = "TEXT", help_heading = "Conditions")]
    error: Option<String>,
    /// Died before this time.
    #[arg(long, value_name = "TIME", value_parser = read_time, help_heading = "Conditions")]
    died_before: Option<Timestamp>,
}

/// The dead tasks to list.
#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    #[command(flatten)]
    dead: DeadArgs,
    #[command(flatten)]
    place: TaskPlace,
}

/// The dead tasks to change, and the consent to it.
#[derive(Debug, Args)]
pub(crate) struct DeadChange {
    #[command(flatten)]
    dead: DeadArgs,
    /// These ids.
    #[arg(value_name = "ID")]
    ids: Vec<TaskId>,
    /// Only the first N of them, by their time of death.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// All dead tasks: required if there are no ids and no other condition.
    #[arg(long)]
    all: bool,
    /// Only show the number of tasks, without changing them.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// The dead tasks to requeue, and the rate.
#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    change: DeadChange,
    /// Requeue this many per time, such as 20/s, 5/min or 100/h. The command runs for as long as
    /// that takes; if it is stopped, the rest stays dead.
    #[arg(long, value_parser = read_pace)]
    rate: Option<Duration>,
}

/// The dead tasks to discard.
#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    change: DeadChange,
}

impl DeadArgs {
    fn is_empty(&self) -> bool {
        self.selection.is_empty() && self.error.is_none() && self.died_before.is_none()
    }

    fn selection(&self) -> DeadSelection {
        let filter = self.selection.narrow(TaskFilter::new());
        let mut dead = DeadSelection::of(&self.task_type).filter(filter);
        if let Some(text) = &self.error {
            dead = dead.error(text);
        }
        if let Some(time) = self.died_before {
            dead = dead.died_before(time);
        }
        dead
    }
}

impl DeadChange {
    /// The selected dead tasks.
    fn selection(&self) -> Result<DeadSelection, Failure> {
        let dead = &self.dead;
        let is_bare = dead.is_empty() && !self.all;
        let selection = match self.limit {
            Some(most) => dead.selection().limit(most),
            None => dead.selection(),
        };
        match self.ids.as_slice() {
            [] if is_bare => {
                let text = "no condition is given: add --all to mean every dead task";
                Err(Failure::usage(text))
            }
            [] => Ok(selection),
            _ if !is_bare || self.limit.is_some() => {
                let text = "ids and conditions exclude each other: leave one of them out";
                Err(Failure::usage(text))
            }
            ids => Ok(selection.ids(ids.to_vec())),
        }
    }
}

/// The change to the tasks.
#[derive(Clone, Copy)]
enum Deed {
    Requeue { interval: Duration },
    Discard,
}

impl Deed {
    fn verb(self) -> &'static str {
        match self {
            Self::Requeue { .. } => "requeue",
            Self::Discard => "discard",
        }
    }

    /// Changes all of them. Returns the number changed: others may have changed meanwhile.
    async fn run(self, operator: &Operator, selection: &DeadSelection) -> Result<u64, Failure> {
        let (bar, mut reached, mut meant) = (progress::bar(0), 0, 0);
        let progress = |done, count| {
            (reached, meant) = (done, count);
            bar.set_length(count);
            bar.set_position(done);
        };
        let done = match self {
            Self::Requeue { interval } => operator.requeue(selection, interval, progress).await,
            Self::Discard => operator.discard(selection, progress).await,
        };
        bar.finish_and_clear();
        done.map_err(|error| match reached {
            0 => error.into(),
            done => Failure::Partly {
                error,
                done,
                count: meant,
            },
        })
    }
}

/// Runs the command.
pub(super) async fn run(
    operator: &Operator,
    command: &DeadCommand,
) -> Result<CommandResult, Failure> {
    match command {
        DeadCommand::List(args) => list(operator.tasks(), args).await,
        DeadCommand::Requeue(args) => {
            let interval = args.rate.unwrap_or_default();
            change(operator, &args.change, Deed::Requeue { interval }).await
        }
        DeadCommand::Discard(args) => change(operator, &args.change, Deed::Discard).await,
        DeadCommand::Groups(args) => groups::run(operator.tasks(), args).await,
    }
}

async fn list(tasks: &TaskSubmitService, args: &DeadListArgs) -> Result<CommandResult, Failure> {
    let dead = &args.dead;
    known_type(tasks, &dead.task_type).await?;
    let stats = tasks.stats(&dead.task_type).await?;
    let (selection, place) = (dead.selection(), &args.place);
    let page = selection.page(tasks, place.cursor.as_ref(), place.limit());
    let page = page.await?;
    let next = page.next.as_ref().map(written);
    let report = if page.tasks.is_empty() {
        Report::from(match stats.dead {
            0 => format!("{} has no dead tasks", dead.task_type),
            _ => "no dead task on this page meets the conditions".to_owned(),
        })
    } else {
        let sum = format!("{} shown, {} dead in all", page.tasks.len(), stats.dead);
        Report::from(tasks_table(&page.tasks, stats.now)).lines(sum)
    };
    let report = match &next {
        Some(next) => report.lines(more(next)),
        None => report,
    };
    let document = json!({"tasks": page.tasks, "dead": stats.dead, "next": next});
    CommandResult::new(report, document)
}

async fn change(
    operator: &Operator,
    args: &DeadChange,
    deed: Deed,
) -> Result<CommandResult, Failure> {
    let (task_type, verb) = (&args.dead.task_type, deed.verb());
    let selection = args.selection()?;
    known_type(operator.tasks(), task_type).await?;
    let count = {
        let _sign = progress::sign("reads the dead tasks, to count those that match");
        selection.count(operator.tasks()).await?
    };
    let report = |changed: u64, text: String| {
        let json = json!({
            "type": task_type, "matched": count, "changed": changed, "is_dry_run": args.dry_run,
        });
        Ok(CommandResult::new(text, json)?.done_if(count > 0))
    };
    let plan = format!("{verb} {} of {task_type}", counted(count, "dead task"));
    if count == 0 {
        return report(0, format!("no such task of {task_type} is dead"));
    }
    if args.dry_run {
        return report(0, format!("this would {plan}"));
    }
    // Ids that were given explicitly need no confirmation.
    ask(&plan, args.yes || !args.ids.is_empty())?;
    let done = deed.run(operator, &selection).await?;
    report(done, format!("{verb}: {done} of {count} done"))
}
