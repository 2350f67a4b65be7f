//! A redis-server of a run, on a port and in a folder of its own; gone with the driver.

use std::fs::OpenOptions;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use delayq_plugin::{millis, seconds};
use redis::{Connection, FromRedisValue};

use super::failure::{Failure, Result, failure};
use super::preload::Preload;

/// Ports below those that systems give to outgoing connections: a client that reconnects to a dead
/// server could otherwise get the server's own port and connect to itself.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
/// How many ports are tried, and how many times a started server is asked whether it answers.
const TRIES: usize = 20;
const QUESTIONS: usize = 6_000;
/// How long one answer may take: beside other work, and syncs that take long, a server has been
/// seen to need a second.
const PATIENCE: Duration = seconds(20);

/// A running redis-server, or one that was killed and can be started again on the same data.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    folder: PathBuf,
    /// When it syncs: `always` or `everysec`.
    pub(crate) sync: &'static str,
    preload: Option<Preload>,
    /// Settings for its next starts, as words of the command line.
    pub(crate) settings: &'static [&'static str],
    child: Child,
}

impl Server {
    /// Starts a server with its files in `folder`, and awaits that it answers.
    pub(crate) async fn start(
        folder: PathBuf,
        sync: &'static str,
        preload: Option<Preload>,
    ) -> Result<Self> {
        std::fs::create_dir_all(&folder)?;
        for _ in 0..TRIES {
            let port = free_port()?;
            let child = command(port, &folder, sync, preload.as_ref())?.spawn()?;
            let mut server = Self {
                port,
                folder: folder.clone(),
                sync,
                preload: preload.clone(),
                settings: &[],
                child,
            };
            if server.answers().await.is_ok() {
                return Ok(server);
            }
        }
        failure(format!(
            "redis-server does not start, see {}",
            folder.join("log").display()
        ))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn clock_file(&self) -> Option<&PathBuf> {
        self.preload.as_ref().map(|preload| &preload.place)
    }

    /// Ends it with SIGKILL; it has gone when this returns. Says whether it was alive before.
    pub(crate) fn kill(&mut self) -> bool {
        let alive = self.is_alive();
        // Neither fails but for a process that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        alive
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Starts it again on the same port and data, and awaits that it answers.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.spawn()?;
        self.answers().await
    }

    /// Starts it again, and awaits nothing.
    pub(crate) fn spawn(&mut self) -> Result<()> {
        self.kill();
        let preload = self.preload.as_ref();
        let mut command = command(self.port, &self.folder, self.sync, preload)?;
        self.child = command.args(self.settings).spawn()?;
        Ok(())
    }

    /// Awaits that it has loaded its data.
    pub(crate) async fn answers(&mut self) -> Result<()> {
        for _ in 0..QUESTIONS {
            if let Some(status) = self.child.try_wait()? {
                return failure(format!("redis-server has ended: {status}"));
            }
            if self.ask::<String>(&["PING"]).is_ok() {
                return Ok(());
            }
            tokio::time::sleep(millis(10)).await;
        }
        failure("redis-server does not answer")
    }

    /// Sends one command.
    pub(crate) fn ask<T: FromRedisValue>(&self, words: &[&str]) -> Result<T> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        let answer = self
            .connect()
            .and_then(|mut it| Ok(command.query(&mut it)?));
        answer.map_err(|error| Failure(format!("redis-server, asked {words:?}: {error}")))
    }

    /// Has it write its append-only file anew, from memory.
    pub(crate) async fn rewrite_file(&self) -> Result<()> {
        let is_busy = || {
            let fields = ["aof_rewrite_scheduled", "aof_rewrite_in_progress"];
            let busy: Result<Vec<u64>> = fields
                .iter()
                .map(|field| self.info("persistence", field))
                .collect();
            Ok::<_, Failure>(busy?.iter().any(|count| *count > 0))
        };
        while is_busy()? {
            tokio::time::sleep(millis(10)).await;
        }
        self.ask::<String>(&["BGREWRITEAOF"])?;
        while is_busy()? {
            tokio::time::sleep(millis(10)).await;
        }
        Ok(())
    }

    /// A connection that no fault is done to but those of the server.
    pub(crate) fn connect(&self) -> Result<Connection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        // The time to connect is the time for the first answers, too.
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// A number of `INFO`.
    pub(crate) fn info(&self, section: &str, field: &str) -> Result<u64> {
        let text: String = self.ask(&["INFO", section])?;
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let value = lines
            .find(|(name, _)| *name == field)
            .map_or("0", |(_, value)| value);
        let digits = value.rsplit('=').next().unwrap_or(value);
        digits
            .trim()
            .parse()
            .map_err(|_| Failure(format!("{field} of INFO is {value:?}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `setpriv` becomes the server, and has the kernel end it when the driver does.
fn command(
    port: u16,
    folder: &std::path::Path,
    sync: &str,
    preload: Option<&Preload>,
) -> Result<Command> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1"]);
    command.args([
        "--port",
        &port.to_string(),
        "--save",
        "",
        "--appendonly",
        "yes",
    ]);
    command.args(["--appendfsync", sync, "--enable-debug-command", "local"]);
    command.arg("--dir").arg(folder);
    if let Some(preload) = preload {
        preload.add_to(&mut command);
    }
    // Beside the data, whose disk may be full.
    let log = folder.with_extension("log");
    let log = OpenOptions::new().append(true).create(true).open(log)?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Ok(command)
}

pub(super) fn free_port() -> Result<u16> {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let mut dice = fastrand::Rng::new();
    let found = std::iter::repeat_with(|| dice.u16(PORTS))
        .take(1_000)
        .find(is_free);
    found.map_or_else(|| failure("no free port from 20000 to 30000"), Ok)
}
