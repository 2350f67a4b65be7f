//! A process that a test starts, such as a server: its output is read, its children share its fate,
//! and it is gone with the test process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// How long a process may take to load its data and answer.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How many ports are tried; another process may take one between the look and the start.
const TRIES: usize = 20;
/// Ports below those that systems give to outgoing connections. A client that reconnects to a dead
/// server could otherwise get the server's own port and connect to itself.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Sends a signal to a process and its children. The process is stopped first, so that it has no
/// new ones meanwhile.
const SIGNAL: &str = r#"
signal() {
    kill -s STOP "$2" || return
    for child in $(cat "/proc/$2/task/$2/children" 2>/dev/null || pgrep -P "$2"); do
        kill -s "$1" "$child" 2>/dev/null
    done
    kill -s "$1" "$2"
}
"#;

/// What ends the process and its children. Neither has a chance to tidy up.
pub const KILL: &str = r#"signal KILL "$pid"
"#;

/// Starts the process, and ends it by its process id as soon as the pipe from the test process
/// closes: on `kill`, on drop, and when the test process dies in whatever way. Only a line on the
/// pipe keeps the folder. It closes its own output, so that the output ends when the process and
/// its children do. An output that nobody reads any more is no reason to die.
const WATCHER: &str = r#"
trap "" INT TERM HUP PIPE
"$@" </dev/null 2>&1 &
pid=$!
echo "pid $pid"
exec >&-
read -r keep
eval "$END"
wait "$pid"
[ -n "$keep" ] || rm -rf -- "$FOLDER"
"#;

/// A process, and the shell that ends it.
#[derive(Debug)]
pub struct WatchedProcess {
    pid: u32,
    watcher: Child,
    pipe: ChildStdin,
    is_stopped: bool,
    log: Mutex<Receiver<String>>,
}

impl WatchedProcess {
    /// Starts `command`, and returns once it has printed a line that contains `ready`. The script
    /// `end`, such as [`KILL`], runs on `kill` and when the test process has ended. In the latter
    /// case `folder` is removed, too.
    ///
    /// # Errors
    /// What it printed, when it ended instead.
    ///
    /// # Panics
    /// When there is no shell.
    pub fn start(
        command: &Command,
        folder: &Path,
        ready: &str,
        end: &str,
    ) -> Result<Self, Vec<String>> {
        let mut watcher = Command::new("sh");
        watcher.args(["-c", &format!("{SIGNAL}{WATCHER}"), "watcher"]);
        watcher.arg(command.get_program()).args(command.get_args());
        let set = |(name, value): (_, Option<_>)| Some((name, value?));
        watcher.envs(command.get_envs().filter_map(set));
        watcher.env("FOLDER", folder).env("END", end);
        watcher.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
        watcher.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut watcher = watcher
            .stderr(Stdio::null())
            .spawn()
            .expect("sh can be started");
        let pipe = watcher.stdin.take().expect("the watcher's input is piped");
        let output = watcher
            .stdout
            .take()
            .expect("the watcher's output is piped");
        let mut process = Self {
            pid: 0,
            watcher,
            pipe,
            is_stopped: false,
            log: Mutex::new(read_lines(output)),
        };
        let mut log = Vec::new();
        while let Some(line) = process.next_line() {
            if let Some(pid) = line.strip_prefix("pid ") {
                process.pid = pid.parse().expect("the shell prints the process id");
            }
            if line.contains(ready) {
                return Ok(process);
            }
            log.push(line);
        }
        process.kill();
        Err(log)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the last signal was SIGSTOP.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Sends SIGSTOP or SIGCONT to it and its children.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&mut self, name: &str) {
        let script = format!("{SIGNAL} signal {name} {}", self.pid);
        let sent = Command::new("sh").args(["-c", &script]).status();
        assert!(sent.expect("sh can be started").success(), "SIG{name}");
        self.is_stopped = name == "STOP";
    }

    /// What it has printed since it was started, or asked last.
    ///
    /// # Panics
    /// When a thread panicked in here.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let log = self.log.lock().expect("no holder panics");
        log.try_iter().collect()
    }

    fn next_line(&mut self) -> Option<String> {
        let log = self.log.get_mut().expect("no holder panics");
        log.recv_timeout(PATIENCE).ok()
    }

    /// Has the watcher end it and its children; returns once all have gone. Its folder stays.
    pub fn kill(mut self) {
        // A watcher that has gone cannot be told, and needs not be.
        let _ = self.pipe.write_all(b"keep\n");
        let _ = self.watcher.wait();
        // The output ends with the last child.
        while self.next_line().is_some() {}
    }
}

/// Lines of the process's output. It is read to its end, so that the process never waits for a
/// reader.
fn read_lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).split(b'\n');
        for line in lines.map_while(Result::ok) {
            let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    receiver
}

/// Launches a server until a port was free.
///
/// # Panics
/// When it does not start.
pub fn start(name: &str, mut launch: impl FnMut() -> Result<(), Vec<String>>) {
    let mut log = Vec::new();
    for _ in 0..TRIES {
        match launch() {
            Ok(()) => return,
            Err(lines) => log = lines,
        }
    }
    panic!("{name} does not start: {log:#?}");
}

/// Launches a server on the port that it had before.
///
/// # Panics
/// When it does not start.
pub fn start_again(name: &str, mut launch: impl FnMut() -> Result<(), Vec<String>>) {
    let mut tries = 0;
    while let Err(log) = launch() {
        tries += 1;
        // Another test may hold the port for a moment, to see whether it is free.
        let is_taken = log
            .iter()
            .any(|line| line.contains("Address already in use"));
        assert!(
            is_taken && tries < 200,
            "{name} does not start again: {log:#?}"
        );
    }
}

/// A port that nobody listens on at present, and that no outgoing connection gets.
///
/// # Panics
/// Never: another port is tried as long as one is taken.
#[must_use]
pub fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| fastrand::u16(PORTS));
    ports.find(is_free).expect("the ports do not end")
}

/// A folder for a server's files.
///
/// # Panics
/// When there is no place for temporary files.
#[must_use]
pub fn new_folder(prefix: &str) -> PathBuf {
    let folder = tempfile::Builder::new().prefix(prefix).tempdir();
    folder.expect("a temporary folder can be made").keep()
}

/// Whether there is a process with this id.
#[cfg(test)]
pub(crate) fn is_alive(pid: u32) -> bool {
    let mut kill = Command::new("kill");
    kill.args(["-0", &pid.to_string()]).stderr(Stdio::null());
    kill.status().unwrap().success()
}
