//! A real server process on a file of its own, and requests to it that no client makes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Below those that systems give to outgoing connections: a client that connects again and again
/// could otherwise get the port of the dead server, and talk to itself.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// A token with every right.
const TOKEN: &str = "dq_first_0123456789abcdef0123456789abcdef";

/// A server, ended by its process id with this.
#[derive(Debug)]
pub(crate) struct Server {
    child: Option<Child>,
    address: String,
    folder: TempDir,
}

impl Server {
    pub(crate) fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        let mut why = String::new();
        // Another process may take a port between the look and the start.
        let mut server = Self {
            child: None,
            address: String::new(),
            folder,
        };
        for _ in 0..20 {
            let mut ports = std::iter::repeat_with(|| fastrand::u16(PORTS)).filter(is_free);
            server.address = format!("127.0.0.1:{}", ports.next().unwrap_or_default());
            match server.start() {
                Ok(()) => return Ok(server),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The address of the namespace, for HTTP.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/default", self.address)
    }

    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let variables = [
            ("DELAYQ_HTTP", self.url()),
            ("DELAYQ_TOKEN", TOKEN.to_owned()),
        ];
        variables
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Starts it at its address, on what it had stored.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let store = format!(
            "sqlite:{}",
            self.folder.path().join("server.sqlite").display()
        );
        let history = format!(
            "sqlite:{}",
            self.folder.path().join("history.sqlite").display()
        );
        let program = program()?;
        let mut child = Command::new(&program)
            .args([
                "--listen",
                &self.address,
                "--store",
                &store,
                "--log",
                "warn",
            ])
            .env("DELAYQ_BOOTSTRAP_TOKEN", TOKEN)
            .env("DELAYQ_HISTORY", &history)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut said = lines.by_ref().map_while(Result::ok);
        let is_ready = said.any(|line| line.contains("listens on http://"));
        self.child = Some(child);
        // What it says later has to go somewhere.
        std::thread::spawn(move || lines.count());
        is_ready
            .then_some(())
            .ok_or(format!("the server does not start at {}", self.address))
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        let child = self.child.as_ref().ok_or("the server does not run")?;
        kill_process(Pid::from_child(child), signal).map_err(|error| error.to_string())
    }

    /// Where requests go.
    pub(crate) fn door(&self) -> Door {
        Door(self.address.clone())
    }
}

/// The address of a server, for requests that no client makes.
#[derive(Debug)]
pub(crate) struct Door(String);

impl Door {
    /// Sends a request below the namespace; status and body of the answer, null if it is no JSON.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Result<(u16, Value), String> {
        let told = |error: std::io::Error| format!("{method} {path}: {error}");
        let mut stream = TcpStream::connect(&self.0).map_err(told)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(told)?;
        let request = format!(
            "{method} /v1/default/{path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.0,
            body.len()
        );
        stream.write_all(request.as_bytes()).map_err(told)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(told)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or("an answer without an end")?;
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("no status: {head}"))?;
        Ok((status, serde_json::from_str(body).unwrap_or_default()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The server that was built with this test, or that a variable names.
fn program() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("DELAYQ_SERVER") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = own
        .parent()
        .and_then(std::path::Path::parent)
        .ok_or("no folder")?;
    let program = folder.join("delayq-server");
    let missing = || {
        format!(
            "{} is not there: cargo build -p delayq-server",
            program.display()
        )
    };
    program.is_file().then_some(()).ok_or_else(missing)?;
    Ok(program)
}
