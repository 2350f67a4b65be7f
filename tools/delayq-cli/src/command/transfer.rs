//! `export`, `import`, `copy`: tasks to a file, from a file, and from store to store.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use delayq_ops::{
    DeadTasks, LmstfyError, LmstfyImport, LmstfyReport, Operator, TransferReport,
    export as write_tasks, known_types,
};
use delayq_plugin::{Namespace, TaskSubmitService};
use serde_json::json;

use crate::answer::CommandResult;
use crate::connection::{self, StoreArgs};
use crate::failure::Failure;
use crate::progress;
use crate::store_url::has_namespace;
use crate::text::{BAD, counted, one_line, styled};

/// Number of refusals shown to people.
const SHOWN: usize = 10;

/// The tasks to write, and the file.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    which: TransferTasks,
    /// The file to create; without it the tasks go to stdout. It appears once it is complete.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// The source of the tasks.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Another system to move jobs from while it is running: lmstfy, with the address of its Redis.
    #[arg(value_name = "SYSTEM", requires = "address", conflicts_with = "file")]
    system: Option<System>,
    /// Its address, such as redis://USER:PASSWORD@HOST:PORT/DATABASE.
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    /// Continue until nothing is left there, including the jobs that its consumers hold now.
    #[arg(long, requires = "system")]
    follow: bool,
    /// The file; without it the tasks come from stdin.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Also send dead tasks, as scheduled ones that are due at once.
    #[arg(long)]
    dead: bool,
}

/// A system whose waiting jobs can be moved.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum System {
    /// The Redis of lmstfy.
    Lmstfy,
}

/// The tasks to copy, and the other store.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    which: TransferTasks,
    /// The other store, which must exist.
    #[arg(long, value_name = "URL")]
    to: String,
    /// The namespace there; default: that of the URL of a server, or else the same as here.
    #[arg(long, value_name = "NAMESPACE")]
    to_namespace: Option<String>,
    /// Only show the number of tasks, without copying them.
    #[arg(long)]
    dry_run: bool,
}

impl CopyArgs {
    /// The namespace of the copies.
    fn namespace_there(&self, from: &TaskSubmitService) -> Result<Namespace, Failure> {
        if let Some(namespace) = &self.to_namespace {
            return Ok(Namespace::new(namespace)?);
        }
        if has_namespace(&self.to) {
            // The store takes the one of its URL in place of the default.
            return Ok(Namespace::default());
        }
        Ok(from.store().namespace().cloned().unwrap_or_default())
    }
}

/// The tasks.
#[derive(Debug, Args)]
struct TransferTasks {
    /// The type, or a pattern such as `mail.*`, or `*` for all.
    #[arg(value_name = "TYPE")]
    types: String,
    /// Include dead tasks; at the destination they are scheduled and due at once.
    #[arg(long)]
    dead: bool,
}

impl TransferTasks {
    fn dead(&self) -> DeadTasks {
        dead_tasks(self.dead)
    }

    /// The number of tasks, from the counts of the store.
    async fn count(&self, tasks: &TaskSubmitService) -> Result<u64, Failure> {
        let types = match self.types.as_str() {
            "*" => tasks.types().await?,
            types => known_types(tasks, types).await?,
        };
        let mut count = 0;
        for task_type in types {
            let stats = tasks.stats(task_type.as_str()).await?;
            count += stats.scheduled + if self.dead { stats.dead } else { 0 };
        }
        Ok(count)
    }
}

fn dead_tasks(is_with: bool) -> DeadTasks {
    if is_with {
        DeadTasks::Include
    } else {
        DeadTasks::LeaveOut
    }
}

/// Runs `export`.
pub(super) async fn export(
    tasks: &TaskSubmitService,
    args: &ExportArgs,
) -> Result<CommandResult, Failure> {
    let Some(file) = &args.file else {
        let mut stdout = BufWriter::new(io::stdout());
        let report = write(tasks, &args.which, &mut stdout).await?;
        // The lines themselves are the output, so the summary goes to stderr.
        writeln!(anstream::stderr(), "{}", text("written", &report))?;
        return Ok(CommandResult::said());
    };
    if file.exists() {
        let text = format!("{} is there already: name another file", file.display());
        return Err(Failure::refused(text));
    }
    let part = part_of(file);
    let made = File::create(&part)
        .map_err(|error| Failure::usage(format!("the file {}: {error}", part.display())))?;
    let mut writer = BufWriter::new(made);
    let report = write(tasks, &args.which, &mut writer).await?;
    let written = writer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    written.sync_all()?;
    std::fs::rename(&part, file)?;
    answer("written", &report)
}

/// The file that grows until the export is complete.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

async fn write(
    tasks: &TaskSubmitService,
    which: &TransferTasks,
    writer: &mut (dyn Write + Send),
) -> Result<TransferReport, Failure> {
    let bar = progress::bar(which.count(tasks).await?);
    let mut hear = |report: &TransferReport| bar.set_position(report.read);
    let written = write_tasks(tasks, &which.types, which.dead(), writer, &mut hear).await;
    bar.finish_and_clear();
    Ok(written?)
}

/// Runs `import`.
pub(super) async fn import(
    operator: &Operator,
    args: &ImportArgs,
) -> Result<CommandResult, Failure> {
    if let (Some(System::Lmstfy), Some(address)) = (args.system, &args.address) {
        return import_lmstfy(operator, address, args).await;
    }
    let bar = progress::counter();
    let mut hear = |report: &TransferReport| bar.set_position(report.read);
    let dead = dead_tasks(args.dead);
    let sent = if let Some(path) = &args.file {
        let name = path.display().to_string();
        let file = File::open(path)
            .map_err(|error| Failure::usage(format!("the file {name:?}: {error}")))?;
        let mut reader = BufReader::new(file);
        operator.import(&name, dead, &mut reader, &mut hear).await
    } else {
        let mut reader = BufReader::new(io::stdin());
        operator.import("stdin", dead, &mut reader, &mut hear).await
    };
    bar.finish_and_clear();
    answer("sent", &sent?)
}

async fn import_lmstfy(
    operator: &Operator,
    address: &str,
    args: &ImportArgs,
) -> Result<CommandResult, Failure> {
    let failed = |error: LmstfyError| Failure::refused(error.to_string());
    let import = LmstfyImport::connect(operator.tasks(), address, args.dead).await;
    let import = import.map_err(failed)?;
    let place = address.rsplit('@').next().unwrap_or_default();
    let place = format!("lmstfy {}", place.trim_start_matches("redis://"));
    let bar = progress::counter();
    let mut hear = |report: &LmstfyReport| bar.set_position(report.moved);
    let moved = operator.import_lmstfy(&place, import, args.follow, &mut hear);
    let moved = moved.await;
    bar.finish_and_clear();
    let report = moved.map_err(failed)?;
    let mut text = format!("{} moved", counted(report.moved, "job"));
    let rest = [
        (report.existing, "there already"),
        (report.expired, "expired"),
        (
            report.taken_left,
            "taken and left (--follow waits for them)",
        ),
        (
            report.dead_left_out,
            "dead and left out (--dead takes them along)",
        ),
        (report.refused, "refused"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {count} {what}");
    }
    if let Some(reason) = &report.refusal {
        text += &format!(": {reason}");
    }
    Ok(CommandResult::new(text, &report)?.done_if(report.refused == 0))
}

/// Runs `copy`.
pub(super) async fn copy(
    operator: &Operator,
    args: &CopyArgs,
    store: &StoreArgs,
) -> Result<CommandResult, Failure> {
    let (from, which) = (operator.tasks(), &args.which);
    let count = which.count(from).await?;
    let target = connection::open_other(store, &args.to, &args.namespace_there(from)?).await?;
    let there = target.store();
    let namespace = |tasks: &TaskSubmitService| tasks.store().namespace().cloned();
    if there.name() == from.store().name() && namespace(&target) == namespace(from) {
        let text = "both stores are the same: name another with --to, or --to-namespace";
        return Err(Failure::usage(text));
    }
    if args.dry_run {
        let text = format!(
            "this would copy {} to {}",
            counted(count, "task"),
            there.name()
        );
        return CommandResult::new(text, json!({"count": count, "is_dry_run": true}));
    }
    let bar = progress::bar(count);
    let mut hear = |report: &TransferReport| bar.set_position(report.read);
    let operator = operator.of(&target);
    let copied = operator
        .copy_from(from, &which.types, which.dead(), &mut hear)
        .await;
    bar.finish_and_clear();
    target.close().await;
    answer("copied", &copied?)
}

fn answer(verb: &str, report: &TransferReport) -> Result<CommandResult, Failure> {
    let is_done = report.refused == 0;
    Ok(CommandResult::new(text(verb, report), report)?.done_if(is_done))
}

fn text(verb: &str, report: &TransferReport) -> String {
    let mut text = format!("{} {verb}", counted(report.written, "task"));
    let rest = [
        (report.existing, "there already"),
        (
            report.dead_left_out,
            "dead and left out (--dead takes them along)",
        ),
        (report.running_left, "running and left out"),
        (report.refused, "refused"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {count} {what}");
    }
    for one in report.refusals.iter().take(SHOWN) {
        let why = format!(
            "line {}, {} of {}: {}",
            one.line, one.id, one.task_type, one.reason
        );
        text += &format!("\n  {}", styled(BAD, one_line(&why)));
    }
    text
}
