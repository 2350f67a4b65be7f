//! The commands, one file for each, or one for several related ones.

use clap::Subcommand;
use delayq_ops::Operator;

use crate::answer::CommandResult;
use crate::connection::StoreArgs;
use crate::failure::Failure;

mod all;
mod audit;
mod change;
mod configure;
mod dead;
mod doctor;
mod explain;
mod figures;
mod forecast;
mod instances;
mod list;
mod log;
mod page;
mod pause;
mod purge;
mod recurring;
mod send;
mod show;
mod stats;
mod top;
mod transfer;
mod type_list;
mod watch;

/// A command on the store.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the types: number of tasks, oldest due task, pauses, serving instances.
    Types,
    /// Show the numbers of a type.
    Stats(stats::StatsArgs),
    /// Show what happened to a type, by minute or hour: done, failed, lateness.
    Figures(figures::FiguresArgs),
    /// Show the number of tasks that fall due, by time.
    Forecast(forecast::ForecastArgs),
    /// List tasks of a type, one page at a time.
    List(list::ListArgs),
    /// Show everything known about a task.
    Show(show::ShowArgs),
    /// Explain why a task has not started, or started late, and show its life.
    Explain(explain::ExplainArgs),
    /// Send a task.
    Send(send::SendArgs),
    /// Cancel a task; a running one is asked to stop.
    Cancel(change::TaskArgs),
    /// Move a scheduled task to another time.
    Reschedule(change::RescheduleArgs),
    /// Make a scheduled task due now.
    RunNow(change::TaskArgs),
    /// Replace the message of a scheduled task.
    Update(change::UpdateArgs),
    /// Cancel all tasks of a type or pattern that meet the conditions.
    CancelAll(all::CancelAllArgs),
    /// Move all matching tasks to one time.
    RescheduleAll(all::RescheduleAllArgs),
    /// List, group, requeue or discard dead tasks.
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// Pause a type or pattern: none of its tasks start until resumed.
    Pause(pause::PauseArgs),
    /// End the pause of a type or pattern.
    Resume(pause::ResumeArgs),
    /// Set the limits of a type, for the whole fleet.
    Configure(configure::ConfigureArgs),
    /// Remove a type without tasks from the list of types.
    DropType(configure::DropTypeArgs),
    /// Remove all tasks of a type in one state, for good.
    Purge(purge::PurgeArgs),
    /// List the waiting occurrences of recurring tasks, or remove those of one task.
    Recurring(recurring::RecurringArgs),
    /// List the running instances and the types they serve.
    Instances,
    /// Find problems of the store, its types and its instances, each with its fix.
    Doctor,
    /// Check the stored structure of a type, or of all types; mend it with --repair.
    Audit(audit::AuditArgs),
    /// Show what operators did: who, when, what, to which tasks, and the result.
    Log(log::LogArgs),
    /// Write the scheduled tasks of a type or pattern as lines of JSON.
    Export(transfer::ExportArgs),
    /// Send the tasks of an export. Tasks that already exist are left alone, so it can be repeated.
    Import(transfer::ImportArgs),
    /// Send the tasks of this store to another one. Tasks that already exist there are left alone.
    Copy(transfer::CopyArgs),
    /// Serve the web page of the store on this machine, until Ctrl-C.
    Page(page::PageArgs),
    /// Show what happens to a type, live, until Ctrl-C.
    Watch(watch::WatchArgs),
    /// Show all types on a screen that refreshes itself; q ends it.
    Top(top::TopArgs),
}

/// Runs the command. Changes go through the operator, which writes an entry to the log.
pub(crate) async fn run(
    operator: &Operator,
    command: Command,
    store: &StoreArgs,
) -> Result<CommandResult, Failure> {
    let tasks = operator.tasks();
    match command {
        Command::Types => type_list::run(tasks).await,
        Command::Stats(args) => stats::run(tasks, &args).await,
        Command::Figures(args) => figures::run(tasks, &args).await,
        Command::Forecast(args) => forecast::run(tasks, &args).await,
        Command::List(args) => list::run(tasks, &args).await,
        Command::Show(args) => show::run(tasks, &args).await,
        Command::Explain(args) => explain::run(tasks, &args).await,
        Command::Send(args) => send::run(operator, args).await,
        Command::Cancel(args) => change::cancel(operator, &args).await,
        Command::Reschedule(args) => change::reschedule(operator, &args).await,
        Command::RunNow(args) => change::run_now(operator, &args).await,
        Command::Update(args) => change::update(operator, &args).await,
        Command::CancelAll(args) => all::cancel(operator, &args).await,
        Command::RescheduleAll(args) => all::reschedule(operator, &args).await,
        Command::Dead(command) => dead::run(operator, &command).await,
        Command::Pause(args) => pause::pause(operator, &args).await,
        Command::Resume(args) => pause::resume(operator, &args).await,
        Command::Configure(args) => configure::configure(operator, &args).await,
        Command::DropType(args) => configure::drop_type(operator, &args).await,
        Command::Purge(args) => purge::run(operator, &args).await,
        Command::Recurring(args) => recurring::run(operator, &args).await,
        Command::Instances => instances::run(tasks).await,
        Command::Doctor => doctor::run(tasks).await,
        Command::Audit(args) => audit::run(operator, &args).await,
        Command::Log(args) => log::run(tasks, &args, store.json).await,
        Command::Export(args) => transfer::export(tasks, &args).await,
        Command::Import(args) => transfer::import(operator, &args).await,
        Command::Copy(args) => transfer::copy(operator, &args, store).await,
        Command::Page(args) => page::run(operator, &args).await,
        Command::Watch(args) => watch::run(tasks, &args, store.json).await,
        Command::Top(args) => top::run(tasks, &args).await,
    }
}
