//! Processes of the benchmark beside the one that measures: what each does, and the lines that they
//! say.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use delayq_plugin::seconds;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

use crate::Failure;
use crate::stage::Site;
use crate::{herd, idle, reopen, sender};

/// How long a process may keep everybody waiting for a line.
const PATIENCE: Duration = seconds(300);

/// What a process is there for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Serves the store of this URL until so many tasks have run.
    Herd { url: String, count: usize },
    /// Sends tasks at a steady pace.
    Sender { site: Site, pace: sender::Pace },
    /// Serves so many types and has nothing to do.
    Idler { site: Site, types: usize },
    /// Sends so many tasks that are not due, then one after the other until it is killed.
    Filler { site: Site, count: usize },
}

impl Role {
    /// What `main` does instead of measuring.
    pub(crate) async fn play(self) -> Result<(), Failure> {
        match self {
            Self::Herd { url, count } => herd::instance(&url, count).await,
            Self::Sender { site, pace } => sender::send(site, pace).await,
            Self::Idler { site, types } => idle::instance(site, types).await,
            Self::Filler { site, count } => reopen::fill(site, count).await,
        }
    }
}

/// Returns when the process that measures wants this one to end, or has ended itself.
pub(crate) async fn told_to_end() -> Result<(), Failure> {
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}

/// A process with a role; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) fn start(role: &Role) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--role").arg(serde_json::to_string(role)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn()?;
        let output = process.stdout.take().ok_or("the output is piped")?;
        let lines = BufReader::new(output).lines();
        Ok(Self { process, lines })
    }

    pub(crate) fn pid(&self) -> Result<u32, Failure> {
        let pid = self.process.id();
        pid.ok_or_else(|| "the other process has ended".into())
    }

    /// The next line that it says.
    pub(crate) async fn line(&mut self) -> Result<String, Failure> {
        let line = timeout(PATIENCE, self.lines.next_line()).await??;
        line.ok_or_else(|| "the other process has ended".into())
    }

    pub(crate) async fn expect(&mut self, word: &str) -> Result<(), Failure> {
        let line = self.line().await?;
        if line == word {
            return Ok(());
        }
        Err(format!("the other process said {line:?}, not {word:?}").into())
    }

    /// Tells it to end, if it has not, and waits until it has gone.
    pub(crate) async fn end(mut self) -> Result<(), Failure> {
        drop(self.process.stdin.take());
        let status = timeout(PATIENCE, self.process.wait()).await??;
        if status.success() {
            return Ok(());
        }
        Err(format!("the other process failed: {status}").into())
    }

    /// Ends it with SIGKILL; returns once it has gone.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        Ok(self.process.kill().await?)
    }
}
