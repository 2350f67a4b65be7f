//! `dead list`, `dead requeue`, `dead discard`.

use std::time::Duration;

use clap::{Args, Subcommand};
use delayq_plugin::{
    Cursor, DeadFilter, Result, TaskId, TaskInfo, TaskState, TaskSubmitService, Timestamp,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::list::tasks_table;
use crate::answer::Answer;
use crate::consent::ask;
use crate::failure::Failure;
use crate::selection::Selection;
use crate::span::{read_rate, read_time};
use crate::text::counted;

/// Most tasks of one call to the store.
const SLICE: usize = 128;

/// What to do with dead tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead tasks, those that died first first.
    List(DeadListArgs),
    /// Schedule dead tasks again; their attempts are counted anew.
    Requeue(RequeueArgs),
    /// Remove dead tasks for good.
    Discard(DiscardArgs),
}

/// Conditions on dead tasks; all of them have to hold.
#[derive(Debug, Args)]
pub(crate) struct DeadSelection {
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
    /// At most so many.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Which dead tasks to list.
#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    #[command(flatten)]
    dead: DeadSelection,
}

/// Which dead tasks to change, and whether they are meant.
#[derive(Debug, Args)]
pub(crate) struct DeadChange {
    #[command(flatten)]
    dead: DeadSelection,
    /// These ids.
    #[arg(value_name = "ID")]
    ids: Vec<TaskId>,
    /// All dead tasks: needed where there are no ids and no other condition.
    #[arg(long)]
    all: bool,
    /// Say how many it would be, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Which dead tasks to requeue, and how fast.
#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    change: DeadChange,
    /// So many in a time, such as 20/s, 5/min or 100/h. The command runs as long as that takes;
    /// what is left when it is ended stays dead.
    #[arg(long, value_parser = read_rate)]
    rate: Option<Duration>,
}

/// Which dead tasks to discard.
#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    change: DeadChange,
}

impl DeadSelection {
    fn is_empty(&self) -> bool {
        self.selection.is_empty() && self.error.is_none() && self.died_before.is_none()
    }

    fn matches(&self, task: &TaskInfo) -> bool {
        let error = task.history.last_error.as_deref().unwrap_or_default();
        self.selection.matches(task)
            && self.error.as_ref().is_none_or(|text| error.contains(text))
            && self.died_before.is_none_or(|before| task.at < before)
    }

    /// The tasks that match, as `pick` keeps them, up to `most`.
    async fn read<T>(
        &self,
        tasks: &TaskSubmitService,
        most: usize,
        pick: impl Fn(TaskInfo) -> T,
    ) -> Result<Vec<T>> {
        let (mut found, mut cursor): (Vec<T>, Option<Cursor>) = (Vec::new(), None);
        loop {
            let page = tasks.list(&self.task_type, TaskState::Dead, cursor.as_ref(), SLICE);
            let page = page.await?;
            for task in page.tasks {
                if found.len() == most {
                    return Ok(found);
                }
                if self.matches(&task) {
                    found.push(pick(task));
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }
}

impl DeadChange {
    /// The dead tasks that are meant. Their ids are held, not the tasks.
    async fn ids(&self, tasks: &TaskSubmitService) -> Result<Vec<TaskId>, Failure> {
        let dead = &self.dead;
        if self.ids.is_empty() {
            if dead.is_empty() && !self.all {
                let text = "no condition is given: add --all to mean every dead task";
                return Err(Failure::usage(text));
            }
            let most = dead.limit.unwrap_or(usize::MAX);
            return Ok(dead.read(tasks, most, |task| task.id).await?);
        }
        if !dead.is_empty() || self.all || dead.limit.is_some() {
            let text = "ids and conditions exclude each other: leave one of both";
            return Err(Failure::usage(text));
        }
        let mut found = Vec::new();
        for id in &self.ids {
            let task = tasks.find(&dead.task_type, id.as_str()).await?;
            if task.is_some_and(|task| task.state == TaskState::Dead) {
                found.push(id.clone());
            }
        }
        Ok(found)
    }
}

/// What becomes of the tasks.
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

    /// How many tasks one call takes: with a rate, those of about a second.
    fn slice(self) -> usize {
        match self {
            Self::Requeue { interval } if !interval.is_zero() => {
                let second = Duration::from_secs(1).as_nanos();
                let count = second / interval.as_nanos();
                usize::try_from(count).unwrap_or(SLICE).clamp(1, SLICE)
            }
            _ => SLICE,
        }
    }

    async fn call(
        self,
        tasks: &TaskSubmitService,
        task_type: &str,
        ids: &[TaskId],
    ) -> Result<Vec<TaskId>> {
        let filter = DeadFilter::Ids(ids.to_vec());
        match self {
            Self::Requeue { interval } => tasks.requeue_dead(task_type, &filter, interval).await,
            Self::Discard => tasks.discard_dead(task_type, &filter).await,
        }
    }

    /// Does it to all of them, slice by slice. Returns to how many: others were changed meanwhile.
    async fn run(
        self,
        tasks: &TaskSubmitService,
        task_type: &str,
        ids: &[TaskId],
    ) -> Result<usize, Failure> {
        let bar = progress_bar(ids.len());
        let (mut done, mut slices) = (0, ids.chunks(self.slice()).peekable());
        while let Some(slice) = slices.next() {
            let changed = self.call(tasks, task_type, slice).await;
            done += changed
                .map_err(|error| Failure::Partly {
                    error,
                    done,
                    count: ids.len(),
                })?
                .len();
            bar.inc(slice.len() as u64);
            if let (Self::Requeue { interval }, Some(_)) = (self, slices.peek()) {
                let count = u32::try_from(slice.len()).unwrap_or(u32::MAX);
                tokio::time::sleep(interval.saturating_mul(count)).await;
            }
        }
        bar.finish_and_clear();
        Ok(done)
    }
}

/// Shown on a terminal alone.
fn progress_bar(count: usize) -> ProgressBar {
    let bar = ProgressBar::new(count as u64);
    let form = "{bar:30} {pos}/{len}, {eta} left";
    bar.set_style(ProgressStyle::with_template(form).unwrap_or(ProgressStyle::default_bar()));
    bar
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    command: &DeadCommand,
) -> Result<Answer, Failure> {
    match command {
        DeadCommand::List(args) => list(tasks, &args.dead).await,
        DeadCommand::Requeue(args) => {
            let interval = args.rate.unwrap_or_default();
            change(tasks, &args.change, Deed::Requeue { interval }).await
        }
        DeadCommand::Discard(args) => change(tasks, &args.change, Deed::Discard).await,
    }
}

async fn list(tasks: &TaskSubmitService, dead: &DeadSelection) -> Result<Answer, Failure> {
    let stats = tasks.stats(&dead.task_type).await?;
    let limit = dead.limit.unwrap_or(20);
    let found = dead.read(tasks, limit, |task| task).await?;
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
    Answer::new(text, json!({"tasks": found, "dead": stats.dead}))
}

async fn change(
    tasks: &TaskSubmitService,
    args: &DeadChange,
    deed: Deed,
) -> Result<Answer, Failure> {
    let (task_type, verb) = (&args.dead.task_type, deed.verb());
    let ids = args.ids(tasks).await?;
    let count = ids.len();
    let report = |changed: usize, text: String| {
        let json = json!({
            "type": task_type, "matched": count, "changed": changed, "is_dry_run": args.dry_run,
        });
        Ok(Answer::new(text, json)?.done_if(count > 0))
    };
    let plan = format!(
        "{verb} {} of {task_type}",
        counted(count as u64, "dead task")
    );
    if count == 0 {
        return report(0, format!("no such task of {task_type} is dead"));
    }
    if args.dry_run {
        return report(0, format!("this would {plan}"));
    }
    // Ids that were written out are meant.
    ask(&plan, args.yes || !args.ids.is_empty())?;
    let done = deed.run(tasks, task_type, &ids).await?;
    report(done, format!("{verb}: {done} of {count} done"))
}
