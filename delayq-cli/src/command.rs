//! The commands: one file each, or one for what belongs together.

use clap::Subcommand;
use delayq_plugin::TaskSubmitService;

use crate::answer::Answer;
use crate::failure::Failure;

mod all;
mod audit;
mod change;
mod dead;
mod doctor;
mod explain;
mod instances;
mod list;
mod pause;
mod purge;
mod recurring;
mod send;
mod show;
mod stats;
mod top;
mod type_list;
mod watch;

/// What to do with the store.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the types: how many tasks, the oldest due, whether paused, who serves them.
    Types,
    /// Show the numbers of a type.
    Stats(stats::StatsArgs),
    /// List tasks of a type, a page at a time.
    List(list::ListArgs),
    /// Show all that is known of a task.
    Show(show::ShowArgs),
    /// Say why a task has not started, or started late, and show its life.
    Explain(explain::ExplainArgs),
    /// Send a task.
    Send(send::SendArgs),
    /// Cancel a task; a running one is asked to stop.
    Cancel(change::TaskArgs),
    /// Move a scheduled task to another time.
    Reschedule(change::RescheduleArgs),
    /// Make a scheduled task due now.
    RunNow(change::TaskArgs),
    /// Cancel all tasks of a type or pattern that fulfil the conditions.
    CancelAll(all::CancelAllArgs),
    /// Move all such tasks to one time.
    RescheduleAll(all::RescheduleAllArgs),
    /// List, requeue or discard dead tasks.
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// Start no task of a type or pattern until resumed.
    Pause(pause::PauseArgs),
    /// End the pause of a type or pattern.
    Resume(pause::ResumeArgs),
    /// Remove all tasks of a type in a state, for good.
    Purge(purge::PurgeArgs),
    /// List the waiting occurrences of recurring tasks, or remove those of one.
    Recurring(recurring::RecurringArgs),
    /// List the running instances and what they serve.
    Instances,
    /// Find what is wrong with the store, its types and instances, each with what to do.
    Doctor,
    /// Prove the stored structure of a type, or of all; mend it with --repair.
    Audit(audit::AuditArgs),
    /// Show what happens to a type as it happens, until Ctrl-C.
    Watch(watch::WatchArgs),
    /// Show all types on a screen that renews itself; q ends it.
    Top(top::TopArgs),
}

/// Does it.
pub(crate) async fn run(
    tasks: &TaskSubmitService,
    command: Command,
    is_json: bool,
) -> Result<Answer, Failure> {
    match command {
        Command::Types => type_list::run(tasks).await,
        Command::Stats(args) => stats::run(tasks, &args).await,
        Command::List(args) => list::run(tasks, &args).await,
        Command::Show(args) => show::run(tasks, &args).await,
        Command::Explain(args) => explain::run(tasks, &args).await,
        Command::Send(args) => send::run(tasks, args).await,
        Command::Cancel(args) => change::cancel(tasks, &args).await,
        Command::Reschedule(args) => change::reschedule(tasks, &args).await,
        Command::RunNow(args) => change::run_now(tasks, &args).await,
        Command::CancelAll(args) => all::cancel(tasks, &args).await,
        Command::RescheduleAll(args) => all::reschedule(tasks, &args).await,
        Command::Dead(command) => dead::run(tasks, &command).await,
        Command::Pause(args) => pause::pause(tasks, &args).await,
        Command::Resume(args) => pause::resume(tasks, &args).await,
        Command::Purge(args) => purge::run(tasks, &args).await,
        Command::Recurring(args) => recurring::run(tasks, &args).await,
        Command::Instances => instances::run(tasks).await,
        Command::Doctor => doctor::run(tasks).await,
        Command::Audit(args) => audit::run(tasks, &args).await,
        Command::Watch(args) => watch::run(tasks, &args, is_json).await,
        Command::Top(args) => top::run(tasks, &args).await,
    }
}
