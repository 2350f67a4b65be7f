//! A server of delayed tasks: the stores of delayq, for programs in any language.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program tells people where it is and what it cannot do"
)]
#![allow(
    clippy::doc_markdown,
    reason = "the comments of arguments are the text of --help, where backticks would stand as such"
)]

mod access;
mod app;
mod args;
mod command;
mod config;
mod http;
mod problem;
mod server;
mod space;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::config::Config;
use crate::server::{Server, ServerError};

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let filter = tracing_subscriber::EnvFilter::new(&args.log);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let config = match Config::load(args.config.as_deref(), args.flags()) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    match run(config, args.command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(config: Config, command: Option<Command>) -> Result<(), ServerError> {
    let server = Server::open(config).await?;
    if let Some(command) = command {
        let done = command::run(&server, command).await;
        server.close().await;
        return done;
    }
    let listener = server.listener().await?;
    let address = listener.local_addr()?;
    println!("delayq-server listens on http://{address}");
    if let Some(token) = server.first_token().await? {
        println!("its first token, shown this once: {token}");
        println!("send a task:");
        println!(
            "  curl -X POST -H 'Authorization: Bearer {token}' --data 'hello' \
             'http://{address}/v1/default/types/greet/tasks?delay=10s'"
        );
    }
    server.run(listener, ended()).await
}

/// Ctrl-C, or a signal to end.
async fn ended() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = interrupt.await;
}
