//! A server of delayed tasks: the stores of delayq for programs in any language.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program tells people where it is and what it cannot do"
)]
#![allow(
    clippy::doc_markdown,
    reason = "the comments of arguments are the text of --help, where backticks would stand as such"
)]

mod args;
mod command;
mod door;
mod first_token;
#[doc(hidden)]
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod grpc;
mod http;
mod open_files;
mod panel;
mod say;
mod server;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

#[cfg(feature = "beanstalkd")]
use crate::args::BeanstalkdArgs;
use crate::args::{Args, Command};
use crate::say::say;
use crate::server::{Listeners, Server, ServerError};
use delayq_fronts::Listeners as FrontListeners;
#[cfg(feature = "beanstalkd")]
use delayq_fronts::beanstalk;
use delayq_service::config::{Config, LogFormat};

/// The program: reads its arguments, serves or runs a command, and returns its exit code.
///
/// The runtime is started here, so that all asynchronous code is compiled once, with this library.
///
/// # Panics
/// The system cannot start a thread for the runtime.
#[must_use]
#[tokio::main]
pub async fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(printed) = args.command.as_ref().and_then(command::print) {
        return printed;
    }
    let config = match Config::load(args.config.as_deref(), args.flags()) {
        Ok(config) => config,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            return ExitCode::from(2);
        }
    };
    log(args.filter(), config.log.format);
    match run(config, args.command).await {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the log to the standard error.
fn log(filter: &str, format: LogFormat) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

async fn run(config: Config, command: Option<Command>) -> Result<ExitCode, ServerError> {
    #[cfg(feature = "beanstalkd")]
    if let Some(Command::Beanstalkd(args)) = &command {
        beanstalkd(config, args).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(command) = command {
        return command::run(config, command).await;
    }
    serve(config).await?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Config) -> Result<(), ServerError> {
    let server = Server::open(config).await?;
    let most = server.app.config.connections.max;
    if let Some(too_few) = open_files::raise(most) {
        tracing::warn!("connections.max = {most}: {too_few}");
    }
    let end = ended()?;
    let listener = server.listener().await?;
    let admin = server.admin_listener().await?;
    let fronts = FrontListeners::open(&server.app.config).await?;
    let scheme = if server.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let address = listener.local_addr()?;
    let url = format!("{scheme}://{address}");
    say(format!("delayq-server listens on {url}"));
    if let Some(admin) = &admin {
        say(format!(
            "its web page is {scheme}://{}",
            admin.local_addr()?
        ));
    }
    for line in fronts.describe()? {
        say(line);
    }
    first_token::tell(&server, &url).await?;
    let listeners = Listeners {
        http: Some(listener),
        admin,
        fronts,
    };
    server.run(listeners, end).await
}

/// Serves only the beanstalkd protocol.
#[cfg(feature = "beanstalkd")]
async fn beanstalkd(config: Config, args: &BeanstalkdArgs) -> Result<(), ServerError> {
    let locked = args.folder().map(beanstalk::lock).transpose();
    let _locked = locked.map_err(ServerError::Refused)?;
    let server = Server::open(config).await?;
    let _ = open_files::raise(server.app.config.connections.max);
    let end = ended()?;
    let fronts = FrontListeners::of_beanstalkd(&server.app.config).await?;
    for remark in args.remarks() {
        say(remark);
    }
    for line in fronts.describe()? {
        say(line);
    }
    let listeners = Listeners {
        fronts,
        ..Listeners::default()
    };
    server.run(listeners, end).await
}

/// Completes on Ctrl-C or a termination signal, even if the signal came before the future is
/// polled.
#[cfg(unix)]
fn ended() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Completes on Ctrl-C.
#[cfg(not(unix))]
fn ended() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
