//! Programs of other languages: where `cargo xtask test` installs what they need, and how one is
//! run to its end. Tests of other packages include this file, too.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a program may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The folder of the workspace, above the package that includes this file.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = package.ancestors();
    let root = folders.find(|folder| folder.join("Cargo.lock").is_file());
    root.expect("the package stands in the workspace")
}

/// What `go` is told, as `cargo xtask test` does when it builds the clients: so the standard
/// library is compiled once, and kept with all else that is built.
#[allow(dead_code, reason = "not every test program runs Go")]
pub(crate) fn go_variables() -> [(&'static str, OsString); 2] {
    let flags = "-buildvcs=false -modcacherw '-gcflags=all=-N -l'";
    [
        ("GOFLAGS", flags.into()),
        ("GOCACHE", root().join("target/go-cache").into()),
    ]
}

/// A path in what was installed; `None`, and a line, where it is not there.
pub(crate) fn installed(path: &str) -> Option<PathBuf> {
    let found = root().join("target/clients").join(path);
    if found.exists() {
        return Some(found);
    }
    eprintln!(
        "LEFT OUT: target/clients/{path} is not here; `cargo xtask test --only install` fetches it \
         where its language is on the machine and its registry has it"
    );
    None
}

/// Runs it, and returns what it printed to its output. Fails with all of it unless it succeeds.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = Pid::from_child(&child);
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()).unwrap());
    let output = end.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        kill_process_group(group, Signal::KILL).ok();
        end.recv().unwrap()
    });
    let output = output.unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let status = output.status;
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}
