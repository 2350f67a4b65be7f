//! A real server process on a file of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

/// A server, ended by its process id with the test.
pub(crate) struct RunningServer {
    child: Child,
    pub(crate) url: String,
    pub(crate) token: String,
}

impl RunningServer {
    /// Starts it, and reads its address and first token.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    /// The same, with options in its environment.
    pub(crate) fn start_with(folder: &Path, options: &[(&str, &str)]) -> Self {
        let store = format!("sqlite:{}", folder.join("server.sqlite").display());
        let mut child = Command::new(env!("CARGO_BIN_EXE_delayq-server"))
            .args(["--listen", "127.0.0.1:0", "--store", &store])
            .env("DELAYQ_FIRST_TOKEN_FILE", "-")
            .envs(options.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = |word: &str| {
            let mut lines = lines.by_ref().map_while(Result::ok);
            let line = lines.find(|line| line.contains(word)).unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        };
        let url = said("listens on http://");
        let token = said("its first token");
        // What it says later has to go somewhere.
        std::thread::spawn(move || lines.count());
        Self { child, url, token }
    }

    /// Asks it, and reads the whole answer; null if that is no JSON.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        let (token, length) = (&self.token, body.len());
        let request = format!(
            "{method} /v1/default/types/order.cancel/{path} HTTP/1.1\r\nhost: {address}\r\n\
             authorization: Bearer {token}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n\
             {body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_default()
    }

    /// Creates a task.
    pub(crate) fn put(&self, path: &str, message: &str) {
        let answer = self.ask("PUT", &format!("tasks/{path}"), message);
        assert_eq!(answer["outcome"], "accepted", "{answer}");
    }

    /// Sets the target of the type, and answers with what is shown this once.
    pub(crate) fn set_target(&self, target: &Value) -> Value {
        self.ask("PUT", "target", &target.to_string())
    }

    /// Waits until a task is in this state.
    pub(crate) fn wait_for(&self, id: &str, state: &str, end: Instant) {
        loop {
            // It answers once the task has ended.
            self.ask("GET", &format!("tasks/{id}/reply?wait=30s"), "");
            let found = self.ask("GET", &format!("tasks/{id}"), "");
            if found["state"] == state {
                return;
            }
            assert!(Instant::now() < end, "{id} is not {state}: {found}");
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
