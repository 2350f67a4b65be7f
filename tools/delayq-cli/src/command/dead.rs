//! `dead list`, `dead requeue`, `dead discard`, `dead groups`.

use std::time::Duration;

use clap::{Args, Subcommand};
use delayq_ops::{DeadSelection, Operator, read_pace};
use delayq_plugin::{Result, TaskFilter, TaskId, TaskSubmitService, Timestamp};
use serde_json::json;

use super::list::tasks_table;
use crate::answer::CommandResult;
use crate::consent::ask;
use crate::failure::Failure;
use crate::progress;
use crate::selection::Selection;
use crate::span::read_time;
use crate::text::counted;

mod groups;

/// Number of tasks in a list without a limit.
const LISTED: u64 = 20;

/// A command on dead tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead tasks, earliest death first.
    List(DeadListArgs),
    /// Schedule dead tasks again; their attempts are reset.
    Requeue(RequeueArgs),
    /// Remove dead tasks for good.
    Discard(DiscardArgs),
    /// Show dead tasks grouped by error, the most frequent error first.
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
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Died before this time.
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    died_before: Option<Timestamp>,
    /// Only the first N of them, by their time of death.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// The dead tasks to list.
#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    #[command(flatten)]
    dead: DeadArgs,
}

/// The dead tasks to change, and the consent to it.
#[derive(Debug, Args)]
pub(crate) struct DeadChange {
    #[command(flatten)]
    dead: DeadArgs,
    /// These ids.
    #[arg(value_name = "ID")]
    ids: Vec<TaskId>,
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
        if let Some(most) = self.limit {
            dead = dead.limit(most);
        }
        dead
    }
}

impl DeadChange {
    /// The selected dead tasks.
    fn selection(&self) -> Result<DeadSelection, Failure> {
        let dead = &self.dead;
        let is_bare = dead.is_empty() && !self.all;
        match self.ids.as_slice() {
            [] if is_bare => {
                let text = "no condition is given: add --all to mean every dead task";
                Err(Failure::usage(text))
            }
            [] => Ok(dead.selection()),
            _ if !is_bare || dead.limit.is_some() => {
                let text = "ids and conditions exclude each other: leave one of both";
                Err(Failure::usage(text))
            }
            ids => Ok(dead.selection().ids(ids.to_vec())),
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
        DeadCommand::List(args) => list(operator.tasks(), &args.dead).await,
        DeadCommand::Requeue(args) => {
            let interval = args.rate.unwrap_or_default();
            change(operator, &args.change, Deed::Requeue { interval }).await
        }
        DeadCommand::Discard(args) => change(operator, &args.change, Deed::Discard).await,
        DeadCommand::Groups(args) => groups::run(operator.tasks(), args).await,
    }
}

async fn list(tasks: &TaskSubmitService, dead: &DeadArgs) -> Result<CommandResult, Failure> {
    let stats = tasks.stats(&dead.task_type).await?;
    let selection = dead.selection().limit(dead.limit.unwrap_or(LISTED));
    let found = selection.tasks(tasks).await?;
    let text = if found.is_empty() {
        "no such task is dead".to_owned()
    } else {
        format!(
            "{}\n{} shown, {} dead in all",
            tasks_table(&found, stats.now),
            found.len(),
            stats.dead
        )
    };
    CommandResult::new(text, json!({"tasks": found, "dead": stats.dead}))
}

async fn change(
    operator: &Operator,
    args: &DeadChange,
    deed: Deed,
) -> Result<CommandResult, Failure> {
    let (task_type, verb) = (&args.dead.task_type, deed.verb());
    let selection = args.selection()?;
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
