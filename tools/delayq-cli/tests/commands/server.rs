//! A delayq-server for a test, on a file of its own, with a second namespace.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A token with every right.
const TOKEN: &str = "dq_first_0123456789abcdef0123456789abcdef";

/// A server process, ended with this.
pub(crate) struct Server {
    child: Child,
    address: String,
    folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", folder.path().join("a.sqlite").display());
        let config = folder.path().join("server.toml");
        std::fs::write(&config, "[namespaces.shop]\n").unwrap();
        let mut child = Command::new(program())
            .args([
                "--listen",
                "127.0.0.1:0",
                "--log",
                "warn",
                "--store",
                &store,
            ])
            .arg("--config")
            .arg(config)
            .env("DELAYQ_BOOTSTRAP_TOKEN", TOKEN)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let address = line.rsplit('/').next().unwrap().to_owned();
        // What it says later has to go somewhere.
        std::thread::spawn(move || lines.count());
        Self {
            child,
            address,
            folder,
        }
    }

    /// The URL of a namespace, for a command line.
    pub(crate) fn url(&self, namespace: &str) -> String {
        format!("delayq://{TOKEN}@{}/{namespace}", self.address)
    }

    /// A file of the test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server that was built with this test.
fn program() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_delayq")).with_file_name("delayq-server");
    let (is_there, place) = (program.is_file(), program.display());
    assert!(
        is_there,
        "{place} is not there: cargo build -p delayq-server"
    );
    program
}
