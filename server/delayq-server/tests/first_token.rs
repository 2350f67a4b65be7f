//! The first token of a service, whose output is no terminal: logs would keep what it prints.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

const GIVEN: &str = "dq_first_0123456789abcdef0123456789abcdef";

/// A folder with a store, and the file of its first token.
struct Stage {
    folder: TempDir,
    file: PathBuf,
}

/// A server, which dies with this value.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Running {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Ends it; returns all that it has written since.
    fn end(mut self) -> String {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.unwrap().success());
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        let mut log = self.child.stderr.take().unwrap();
        log.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/delayq-first.token");
        fs::create_dir(folder.path().join("data")).unwrap();
        Self { folder, file }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-server"));
        let store = self.folder.path().join("data/a.sqlite");
        command
            .args(["--store", &format!("sqlite:{}", store.display())])
            .args(options)
            .current_dir(self.folder.path())
            .env_clear()
            .stdin(Stdio::null());
        command
    }

    fn start(&self, options: &[&str]) -> Running {
        let mut command = self.command(options);
        command.args(["--listen", "127.0.0.1:0", "--log", "debug"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, output };
        let line = running.line();
        assert!(line.contains("listens on"), "{line}");
        running
    }

    /// True if the token with this text is one of the server, which is found by its id.
    fn has(&self, text: &str) -> bool {
        let output = self.command(&["token", "list"]).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        let id = text.split('_').nth(1).unwrap();
        listed.lines().any(|line| line.starts_with(id))
    }
}

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn it_is_in_a_file_of_its_owner_and_in_no_output() {
    let stage = Stage::new();
    let file = &stage.file;
    let mut server = stage.start(&[]);
    let line = server.line();
    assert!(line.contains(file.to_str().unwrap()), "{line}");
    let token = fs::read_to_string(file).unwrap();
    let token = token.trim();
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(stage.has(token));
    let said = line + &server.end();
    assert!(said.contains("$(cat ") && !said.contains(token), "{said}");
    // A server that has tokens writes none.
    fs::remove_file(file).unwrap();
    let said = stage.start(&[]).end();
    assert!(!file.exists() && !said.contains("first token"), "{said}");
}

#[test]
fn a_file_that_is_there_is_taken_or_refused_and_stays() {
    let stage = Stage::new();
    let file = &stage.file;
    for (text, mode, why) in [
        ("no token", 0o600, "has no token"),
        (GIVEN, 0o644, "chmod 600"),
    ] {
        fs::write(file, text).unwrap();
        set_mode(file, mode);
        let output = stage.command(&["--listen", "127.0.0.1:0"]).output();
        let output = output.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let says = error.contains(why) && error.contains("--first-token-file");
        assert!(says && output.status.code() == Some(1), "{error}");
        assert_eq!(fs::read_to_string(file).unwrap(), text);
        assert!(!stage.has(GIVEN));
    }
    set_mode(file, 0o600);
    let mut server = stage.start(&[]);
    let line = server.line();
    assert!(line.contains("its first token is in"), "{line}");
    assert!(stage.has(GIVEN));
    let said = server.end();
    assert!(
        said.contains("is there already") && !said.contains(GIVEN),
        "{said}"
    );
}

#[test]
fn an_option_names_another_file_or_prints_it() {
    let stage = Stage::new();
    let mut server = stage.start(&["--first-token-file", "own"]);
    // Whole, as nobody knows in which folder the server runs.
    let own = stage.folder.path().join("own");
    let said = format!("its first token is in {},", own.display());
    assert!(server.line().contains(&said), "{said}");
    let token = fs::read_to_string(own).unwrap();
    assert!(stage.has(&token) && !stage.file.exists());
    drop(server);
    let other = Stage::new();
    let mut server = other.start(&["--first-token-file", "-"]);
    let line = server.line();
    let token = line.trim().rsplit(' ').next().unwrap();
    assert!(other.has(token) && !other.file.exists(), "{line}");
}
