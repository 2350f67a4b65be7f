//! A delayq-server of a run, between the processes and a redis-server; gone with the driver.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use delayq_plugin::millis;

use super::failure::{Result, failure};
use super::server::free_port;

/// How many times a started server is asked whether it listens.
const QUESTIONS: usize = 6_000;

/// A running delayq-server, or one that was killed and can be started again.
#[derive(Debug)]
pub(crate) struct Door {
    program: PathBuf,
    folder: PathBuf,
    store: String,
    port: u16,
    token: String,
    child: Child,
}

impl Door {
    /// Starts a server on the store of this URL, and awaits that it listens.
    pub(crate) async fn start(folder: &Path, store: &str) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("delayq-server");
        if !program.is_file() {
            let place = program.display();
            return failure(format!(
                "{place} is not there: cargo build --release -p delayq-server"
            ));
        }
        let port = free_port()?;
        let mut child = command(&program, folder, store, port)?.spawn()?;
        let Some(output) = child.stdout.take() else {
            return failure("delayq-server has no output");
        };
        let mut lines = BufReader::new(output)
            .lines()
            .map_while(std::io::Result::ok);
        let line = lines.find(|line| line.contains("first token"));
        let token = line.and_then(|line| line.rsplit(' ').next().map(str::to_owned));
        let Some(token) = token else {
            return failure("delayq-server does not start: see door.log");
        };
        std::thread::spawn(move || lines.count());
        let mut door = Self {
            program,
            folder: folder.to_owned(),
            store: store.to_owned(),
            port,
            token,
            child,
        };
        door.listens().await?;
        Ok(door)
    }

    /// The URL of the store that it is for others.
    pub(crate) fn url(&self) -> String {
        format!("delayq://{}@127.0.0.1:{}/default", self.token, self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SIGKILL. Says whether it was alive before.
    pub(crate) fn kill(&mut self) -> bool {
        let is_alive = matches!(self.child.try_wait(), Ok(None));
        // Neither fails but for a process that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        is_alive
    }

    /// Starts it again, and awaits that it listens.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.kill();
        let mut command = command(&self.program, &self.folder, &self.store, self.port)?;
        self.child = command.stdout(Stdio::null()).spawn()?;
        self.listens().await
    }

    async fn listens(&mut self) -> Result<()> {
        for _ in 0..QUESTIONS {
            if let Some(status) = self.child.try_wait()? {
                return failure(format!("delayq-server has ended: {status}"));
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            tokio::time::sleep(millis(10)).await;
        }
        failure("delayq-server does not listen")
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `setpriv` becomes the server, and has the kernel end it when the driver does.
fn command(program: &Path, folder: &Path, store: &str, port: u16) -> Result<Command> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command.args(["--listen", &format!("127.0.0.1:{port}"), "--store", store]);
    command.args(["--log", "warn"]);
    command.env("DELAYQ_DURABILITY", "disk");
    command.env("DELAYQ_FIRST_TOKEN_FILE", "-");
    let log = folder.join("door.log");
    let log = OpenOptions::new().append(true).create(true).open(log)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    Ok(command)
}
