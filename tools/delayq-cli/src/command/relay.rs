//! `relay`: the outbox of a PostgreSQL database, and the way of its calls to the store.

use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::Namespace;
use delayq_plugin::store::{Outbox, OutboxRelay, OutboxStatus, PostgresConfig};
use serde_json::json;

use crate::answer::{CommandResult, Report};
use crate::connection::{self, StoreArgs};
use crate::failure::Failure;
use crate::store_url::without_class;
use crate::table::{Table, column};
use crate::text::{BAD, FAINT, one_line, styled};

/// How often a running relay looks how far it is behind.
const LOOK: Duration = Duration::from_secs(10);

/// A lag that is told without being asked for.
const LATE: Duration = Duration::from_secs(10);

/// Relay the calls of an outbox, or look after it.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RelayCommand {
    /// Send what applications write to the outbox to the store of --url, until Ctrl-C.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq --url redis://127.0.0.1/0 relay run --from postgres://delayq@db/shop",
    ))]
    Run(OutboxArgs),
    /// Show how many calls wait and for how long, and those that can never be applied.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq relay status --from postgres://delayq@db/shop",
    ))]
    Status(OutboxArgs),
    /// Try calls that were set aside again.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq relay retry --from postgres://delayq@db/shop",
        "\n  delayq relay retry 42 --from postgres://delayq@db/shop",
    ))]
    Retry(AsideArgs),
    /// Remove calls that were set aside, for good.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq relay discard 42 --from postgres://delayq@db/shop --yes",
    ))]
    Discard(DiscardArgs),
    /// End an empty outbox: later calls are for tasks in the PostgreSQL database itself.
    #[command(after_help = concat!(
        "Examples:",
        "\n  delayq relay end --from postgres://delayq@db/shop",
    ))]
    End(OutboxArgs),
}

/// The outbox.
#[derive(Debug, clap::Args)]
pub(crate) struct OutboxArgs {
    /// The PostgreSQL database of the outbox; or DELAYQ_OUTBOX_URL
    #[arg(long, value_name = "URL")]
    from: Option<String>,
}

/// Calls that were set aside.
#[derive(Debug, clap::Args)]
pub(crate) struct AsideArgs {
    /// The number of one call; default: all
    seq: Option<i64>,
    #[command(flatten)]
    outbox: OutboxArgs,
}

/// The same, with consent.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    aside: AsideArgs,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
pub(crate) async fn run(
    command: RelayCommand,
    store: &StoreArgs,
) -> Result<CommandResult, Failure> {
    match command {
        RelayCommand::Run(args) => relay(&args, store).await,
        RelayCommand::Status(args) => status(&open(&args, store).await?).await,
        RelayCommand::Retry(args) => {
            let count = open(&args.outbox, store)
                .await?
                .retry_aside(args.seq)
                .await?;
            changed(count, "tried again")
        }
        RelayCommand::Discard(args) => {
            let which = args.aside.seq.map_or_else(
                || "all calls that were set aside".to_owned(),
                |seq| format!("the call {seq}"),
            );
            if !args.yes {
                let text = format!(
                    "this would remove {which}, for good: `delayq relay status` lists them; add \
                     --yes to do it"
                );
                return Err(Failure::refused(text));
            }
            let outbox = open(&args.aside.outbox, store).await?;
            changed(outbox.discard_aside(args.aside.seq).await?, "removed")
        }
        RelayCommand::End(args) => {
            open(&args, store).await?.end().await?;
            let text = "the outbox has ended: calls are for tasks in its database";
            CommandResult::new(text, json!({"ended": true}))
        }
    }
}

fn changed(count: u64, what: &str) -> Result<CommandResult, Failure> {
    let text = match count {
        0 => "no such call is set aside".to_owned(),
        1 => format!("1 call is {what}"),
        count => format!("{count} calls are {what}"),
    };
    Ok(CommandResult::new(text, json!({"calls": count}))?.done_if(count > 0))
}

async fn open(args: &OutboxArgs, store: &StoreArgs) -> Result<Outbox, Failure> {
    let variable = || std::env::var("DELAYQ_OUTBOX_URL").ok();
    let url = args
        .from
        .clone()
        .or_else(variable)
        .filter(|url| !url.is_empty());
    let url = url.ok_or_else(|| {
        Failure::usage("no outbox is named: write --from postgres://.., or set DELAYQ_OUTBOX_URL")
    })?;
    let namespace = connection::namespace(store)?;
    let mut config = PostgresConfig::parse(&without_class(url.trim_end()))?;
    config.may_migrate = false;
    Ok(Outbox::open(&config, namespace).await?)
}

async fn relay(args: &OutboxArgs, store: &StoreArgs) -> Result<CommandResult, Failure> {
    let tasks = connection::open(store).await?;
    let outbox = open(args, store).await?;
    outbox.begin().await?;
    let relay = OutboxRelay::new(outbox.clone(), Arc::clone(tasks.store()));
    let name = tasks.store().name();
    let namespace = tasks.store().namespace().map_or("", Namespace::as_str);
    tell(&styled(
        FAINT,
        format!("relaying to {name}, namespace {namespace}; Ctrl-C ends"),
    ))?;
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let mut run = pin!(relay.run());
    let mut look = tokio::time::interval(LOOK);
    let mut was_late = false;
    loop {
        tokio::select! {
            ended = &mut interrupt => {
                ended?;
                tasks.close().await;
                return Ok(CommandResult::said());
            }
            () = &mut run => {}
            _ = look.tick() => match outbox.status().await {
                Ok(status) => {
                    let is_late = status.lag > LATE || status.aside > 0;
                    if is_late || was_late {
                        tell(&line(status))?;
                    }
                    was_late = is_late;
                }
                Err(error) => tell(&format!("{}: {error}", styled(BAD, "no answer")))?,
            },
        }
    }
}

fn tell(line: &str) -> Result<(), Failure> {
    writeln!(anstream::stderr(), "{line}")?;
    Ok(())
}

fn line(status: OutboxStatus) -> String {
    let aside = match status.aside {
        0 => String::new(),
        count => styled(BAD, format!(", {count} set aside")),
    };
    let lag = Duration::from_millis(u64::try_from(status.lag.as_millis()).unwrap_or(u64::MAX));
    match status.waiting {
        0 => format!("nothing waits{aside}"),
        waiting => format!("{waiting} waiting, the oldest for {lag:?}{aside}"),
    }
}

async fn status(outbox: &Outbox) -> Result<CommandResult, Failure> {
    let status = outbox.status().await?;
    let aside = outbox.aside(100).await?;
    let document = json!({
        "waiting": status.waiting,
        "lag_ms": u64::try_from(status.lag.as_millis()).unwrap_or(u64::MAX),
        "aside": status.aside,
        "calls": aside.iter().map(|call| json!({
            "seq": call.seq, "call": call.call, "type": call.task_type, "id": call.id,
            "error": call.error,
        })).collect::<Vec<_>>(),
    });
    let mut report = Report::from(line(status));
    if !aside.is_empty() {
        let mut table = Table::new(&[
            column("NUMBER"),
            column("CALL"),
            column("TYPE"),
            column("ID"),
            column("ERROR").text(),
        ]);
        for call in &aside {
            table.row([
                call.seq.to_string(),
                call.call.to_owned(),
                call.task_type.clone(),
                call.id.clone(),
                one_line(&call.error),
            ]);
        }
        report = report.table(table);
    }
    CommandResult::new(report, document)
}
