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
mod history;
mod instances;
mod list;
mod log;
pub(crate) mod migrate;
mod page;
pub(crate) mod pair;
mod pause;
pub(crate) mod profile;
mod purge;
mod recurring;
pub(crate) mod relay;
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
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq types",
        "\n  delayq types 'mail.*' -o wide",
        "\n  delayq types -o json",
    ))]
    Types(type_list::TypesArgs),
    /// Show the numbers of a type.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq stats mail.send",
        "\n  delayq stats mail.send -o yaml",
    ))]
    Stats(stats::StatsArgs),
    /// Show what happened to a type, by minute or hour: done, failed, lateness.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq figures mail.send --hours 2",
        "\n  delayq figures mail.send --days 7",
    ))]
    Figures(figures::FiguresArgs),
    /// Show the number of tasks that fall due, by time.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq forecast",
        "\n  delayq forecast 'remind.*' --in 12h --steps 12",
    ))]
    Forecast(forecast::ForecastArgs),
    /// List tasks of a type, one page at a time.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq list mail.send",
        "\n  delayq list mail.send --state running --limit 100",
        "\n  delayq list mail.send --header tenant=7 -o json",
    ))]
    List(list::ListArgs),
    /// Show everything known about a task.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq show mail.send order-42",
        "\n  delayq show mail.send order-42 -o json",
    ))]
    Show(show::ShowArgs),
    /// Explain why a task has not started, or started late, and show its life.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq explain mail.send order-42",
    ))]
    Explain(explain::ExplainArgs),
    /// Send a task.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq send mail.send '{\"to\":7}' --id order-42 --after 30m",
        "\n  delayq send mail.send @message.json --at 2026-12-24T17:00Z",
        "\n  delayq send report.nightly --create",
        "\n  delayq send chat.post --message '@ann hello'",
    ))]
    Send(send::SendArgs),
    /// Cancel a task; a running one is asked to stop.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq cancel mail.send order-42",
    ))]
    Cancel(change::TaskArgs),
    /// Move a scheduled task to another time.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq reschedule mail.send order-42 --after 2h",
        "\n  delayq reschedule mail.send order-42 --at '2026-12-24T18:00[Europe/Berlin]'",
    ))]
    Reschedule(change::RescheduleArgs),
    /// Make a scheduled task due now.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq run-now mail.send order-42",
    ))]
    RunNow(change::TaskArgs),
    /// Replace the message of a scheduled task.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq update mail.send order-42 --message '{\"to\":8}'",
        "\n  delayq update mail.send order-42 --file message.json",
    ))]
    Update(change::UpdateArgs),
    /// Cancel all tasks of a type or pattern that meet the conditions.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq cancel-all 'remind.*' --group tenant-7 --dry-run",
        "\n  delayq cancel-all mail.send --prefix order- --yes",
    ))]
    CancelAll(all::CancelAllArgs),
    /// Move all matching tasks to one time.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq reschedule-all mail.send --due-before 2026-12-24T17:00Z --after 1h",
        "\n  delayq reschedule-all 'mail.*' --all --after 10m --dry-run",
    ))]
    RescheduleAll(all::RescheduleAllArgs),
    /// List, group, requeue or discard dead tasks.
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// Pause a type or pattern: none of its tasks start until resumed.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq pause mail.send",
        "\n  delayq pause 'mail.*' --for 30m --yes",
        "\n  delayq pause report.nightly --create",
    ))]
    Pause(pause::PauseArgs),
    /// End the pause of a type or pattern.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq resume mail.send",
        "\n  delayq resume 'mail.*' --yes",
    ))]
    Resume(pause::ResumeArgs),
    /// Set the limits of a type, for the whole fleet.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq configure mail.send --fleet-rate 100/s --max-pending 100000",
        "\n  delayq configure mail.send --fleet-rate none",
    ))]
    Configure(configure::ConfigureArgs),
    /// Remove a type without tasks from the list of types.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq drop-type mail.send",
        "\n  delayq drop-type mail.send --yes",
    ))]
    DropType(configure::DropTypeArgs),
    /// Remove all tasks of a type in one state, for good.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq purge mail.send --state dead",
        "\n  delayq purge mail.send --state dead --yes mail.send",
    ))]
    Purge(purge::PurgeArgs),
    /// List the waiting occurrences of recurring tasks, or remove those of one task.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq recurring",
        "\n  delayq recurring report.daily --remove nightly",
    ))]
    Recurring(recurring::RecurringArgs),
    /// List the running instances and the types they serve.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq instances",
        "\n  delayq instances -o wide",
    ))]
    Instances(instances::InstancesArgs),
    /// Find problems of the store, its types and its instances, each with its fix.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq doctor",
        "\n  delayq doctor -o json",
    ))]
    Doctor,
    /// Check the stored structure of a type, or of all types; mend it with --repair.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq audit",
        "\n  delayq audit mail.send --repair",
    ))]
    Audit(audit::AuditArgs),
    /// Show what operators did: who, when, what, to which tasks, and the result.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq log --type mail.send --verb pause",
        "\n  delayq log --actor ann --limit 100",
        "\n  delayq log --all -o json > actions.jsonl",
    ))]
    Log(log::LogArgs),
    /// Show what became of tasks, also of those that the store has forgotten.
    History(Box<history::HistoryArgs>),
    /// Write the scheduled tasks of a type or pattern as lines of JSON.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq export 'mail.*' --file mail.jsonl",
        "\n  delayq export mail.send --dead | wc -l",
    ))]
    Export(transfer::ExportArgs),
    /// Send the tasks of an export. Tasks that already exist are left alone, so it can be repeated.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq import --file mail.jsonl",
        "\n  delayq import lmstfy redis://127.0.0.1:6379/0 --follow",
    ))]
    Import(transfer::ImportArgs),
    /// Send the tasks of this store to another one. Tasks that already exist there are left alone.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq copy 'mail.*' --to redis://127.0.0.1:6379/0 --dry-run",
        "\n  delayq copy mail.send --to sqlite:other.sqlite --to-namespace shop",
    ))]
    Copy(transfer::CopyArgs),
    /// Serve the web page of the store on this machine, until Ctrl-C.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq page",
        "\n  delayq page --port 7900 --read-only",
    ))]
    Page(page::PageArgs),
    /// Show what happens to a type, live, until Ctrl-C.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq watch mail.send",
        "\n  delayq watch mail.send -o json",
    ))]
    Watch(watch::WatchArgs),
    /// Show all types on a screen that refreshes itself; q ends it.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq top",
        "\n  delayq top --every 5s",
    ))]
    Top(top::TopArgs),
}

impl Command {
    /// Runs a command that needs no store, as it is given. `None` for any other one.
    pub(crate) async fn without_store(
        &self,
        store: &StoreArgs,
    ) -> Option<Result<CommandResult, Failure>> {
        match self {
            Self::History(args) => args.without_store(store).await,
            _ => None,
        }
    }
}

/// Runs the command. Changes go through the operator, which writes an entry to the log.
pub(crate) async fn run(
    operator: &Operator,
    command: Command,
    store: &StoreArgs,
) -> Result<CommandResult, Failure> {
    let tasks = operator.tasks();
    match command {
        Command::Types(args) => type_list::run(tasks, &args).await,
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
        Command::Instances(args) => instances::run(tasks, &args).await,
        Command::Doctor => doctor::run(tasks, store).await,
        Command::Audit(args) => audit::run(operator, &args).await,
        Command::Log(args) => log::run(tasks, &args, store.format()).await,
        Command::History(args) => history::run(operator, &args, store).await,
        Command::Export(args) => transfer::export(tasks, &args).await,
        Command::Import(args) => transfer::import(operator, &args).await,
        Command::Copy(args) => transfer::copy(operator, &args, store).await,
        Command::Page(args) => page::run(operator, &args, store.format()).await,
        Command::Watch(args) => watch::run(tasks, &args, store.format()).await,
        Command::Top(args) => top::run(tasks, &args).await,
    }
}
