//! A server process of a test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A server process that a test kills and starts again.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: Option<String>,
}

impl Server {
    pub(crate) fn start(options: &[impl AsRef<OsStr>], address: &str, is_first: bool) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_delayq-server"))
            .args(["--listen", address, "--log", "warn"])
            .args(options)
            .env("DELAYQ_FIRST_TOKEN_FILE", "-")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let address = line.rsplit('/').next().unwrap().to_owned();
        // A server that has tokens gives no further one.
        let token = is_first.then(|| {
            let line = lines.next().unwrap().unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        });
        // What it says later has to go somewhere.
        std::thread::spawn(move || lines.count());
        Self {
            child,
            address,
            token,
        }
    }

    #[allow(dead_code, reason = "not every test pauses a server")]
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
