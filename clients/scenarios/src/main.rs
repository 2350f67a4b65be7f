//! The driver of Rust: the plugin on a server, told what to do in lines of JSON on the standard
//! input. `clients/README.md` has the lines. The clients of other languages have such a driver.

#![allow(
    clippy::print_stdout,
    reason = "the answers and events are lines on the standard output"
)]

mod app;
mod call;
mod job;
mod says;
mod script;

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::app::Host;
use crate::call::Call;
use crate::says::say;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter("warn,delayq=info")
        .with_writer(std::io::stderr)
        .init();
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return ExitCode::FAILURE;
    };
    let host = Arc::new(Host::default());
    let mut lines = read_lines();
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = terminate.recv() => None,
        };
        let Some(line) = line else { break };
        let call = match serde_json::from_str::<Call>(&line) {
            Ok(call) => call,
            Err(error) => {
                tracing::error!("a line that is no call: {error}");
                return ExitCode::FAILURE;
            }
        };
        // The app is made in the order of the lines; all else goes on beside each other.
        if call.verb == "app" {
            say(&call.run(&host).await);
        } else {
            let host = Arc::clone(&host);
            tokio::spawn(async move { say(&call.run(&host).await) });
        }
    }
    host.stop().await;
    ExitCode::SUCCESS
}

fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}
