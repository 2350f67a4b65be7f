//! The command line of delayq, for operators to inspect and change the tasks of a store.
//!
//! One command is one file below `command`. It calls the store through
//! [`TaskSubmitService`](delayq_plugin::TaskSubmitService) and returns a [`CommandResult`]: text
//! for people, JSON for programs, and the exit code.

#![allow(
    clippy::doc_markdown,
    reason = "the comments of arguments are the text of --help, where backticks would stand as such"
)]
#![allow(
    clippy::format_push_string,
    reason = "text for people is put together from lines; what a line costs does not matter"
)]

mod actor;
mod answer;
mod args;
mod chart;
mod command;
mod connection;
mod consent;
mod failure;
mod output;
mod paging;
mod profile;
mod progress;
mod selection;
mod span;
mod store_url;
mod table;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::answer::CommandResult;
use crate::args::{Action, Cli};
use crate::failure::Failure;
use crate::output::OutputFormat;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    log_to_stderr(cli.store.verbose);
    let format = cli.store.format();
    let ended = run(cli).and_then(|answer| answer.print(format));
    match ended {
        Ok(code) => code,
        // The reader of the output, such as `head`, has read enough and closed it.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let mut stderr = anstream::stderr();
            let style = text::BAD;
            // If this fails, there is nobody left to tell.
            let _ = match format.document(&failure.document()) {
                Ok(document) if format.is_document() => write!(stderr, "{document}"),
                _ => {
                    let said = text::lines(&failure.to_string());
                    writeln!(stderr, "{style}error{style:#}: {said}")
                }
            };
            ExitCode::from(failure.code())
        }
    }
}

/// Shows the help, the version, or why the command line cannot be parsed.
fn refuse(error: &clap::Error) -> ExitCode {
    let format = OutputFormat::asked(std::env::args_os());
    if !error.use_stderr() || !format.is_document() {
        // If this fails, there is nobody left to tell.
        let _ = error.print();
        let code = u8::try_from(error.exit_code()).unwrap_or(failure::USAGE);
        return ExitCode::from(code);
    }
    let message = error.to_string();
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let message = message.split("\n\nFor more information").next();
    let message = message.unwrap_or_default().trim_end();
    let document = failure::error_document(failure::USAGE, message);
    if let Ok(document) = format.document(&document) {
        let _ = write!(anstream::stderr(), "{document}");
    }
    ExitCode::from(failure::USAGE)
}

/// Runs commands that need no store at once, and all others with a store.
fn run(cli: Cli) -> Result<CommandResult, Failure> {
    cli.store.check()?;
    match cli.action {
        Action::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "delayq", &mut script);
            Ok(CommandResult::raw(script))
        }
        Action::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            Ok(CommandResult::raw(page))
        }
        Action::Version => CommandResult::new(
            concat!("delayq ", env!("CARGO_PKG_VERSION")),
            serde_json::json!({"name": "delayq", "version": env!("CARGO_PKG_VERSION")}),
        ),
        Action::Profile(command) => command::profile::run(&command, &cli.store),
        Action::Migrate(migrate) if migrate.sql => command::migrate::print(&migrate, &cli.store),
        Action::Migrate(migrate) => {
            runtime()?.block_on(command::migrate::run(&migrate, &cli.store))
        }
        Action::Pair(pair) => runtime()?.block_on(command::pair::run(&pair, &cli.store)),
        Action::Relay(command) => runtime()?.block_on(command::relay::run(command, &cli.store)),
        Action::Store(command) => runtime()?.block_on(async {
            if let Some(ended) = command.without_store(&cli.store).await {
                return ended;
            }
            let tasks = connection::open(&cli.store).await?;
            let operator = actor::operator(&tasks, cli.store.actor.as_deref());
            let ended = command::run(&operator, *command, &cli.store).await;
            tasks.close().await;
            ended
        }),
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

/// Sets up delayq's log for `-v`. Without it an error is only reported once, by the command. Always
/// shown are entries missing in the log of actions, and the wait for a store that loads its data.
fn log_to_stderr(verbose: u8) {
    let filter = match verbose {
        0 => "off,delayq_ops=error,delayq_redis::loading=warn",
        1 => "off,delayq=warn",
        2 => "off,delayq=info",
        _ => "off,delayq=debug",
    };
    let filter = tracing_subscriber::EnvFilter::new(filter);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
}
