//! A driver: a process that takes calls as lines of JSON, and answers in lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Map, Value};

use crate::log::{Log, What};

/// The log that the readers write to; another one once another scenario has the driver.
type Sink = Arc<Mutex<Arc<Log>>>;

/// A running driver, ended with this.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) name: String,
    group: Pid,
    input: ChildStdin,
    sink: Sink,
    next: u64,
    /// It has its first app, and works: another scenario may have it, with types of its own.
    pub(crate) is_clean: bool,
    is_ended: Arc<Mutex<bool>>,
}

impl Driver {
    /// Starts the program, in a group of processes of its own.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        environment: &[(String, String)],
        log: &Arc<Log>,
    ) -> Result<Self, String> {
        let mut child = Command::new(program)
            .envs(environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
        let group = Pid::from_child(&child);
        let input = child.stdin.take().ok_or("no input")?;
        let sink: Sink = Arc::new(Mutex::new(Arc::clone(log)));
        let is_ended = Arc::new(Mutex::new(false));
        let output = child.stdout.take().ok_or("no output")?;
        let errors = child.stderr.take().ok_or("no errors")?;
        let (of_errors, named) = (Arc::clone(&sink), name.to_owned());
        std::thread::spawn(move || {
            for line in lines(errors) {
                log_of(&of_errors).write(&format!("{named} ! {line}"));
            }
        });
        let reader = Reader {
            name: name.to_owned(),
            sink: Arc::clone(&sink),
            is_ended: Arc::clone(&is_ended),
        };
        std::thread::spawn(move || reader.read(child, output));
        let name = name.to_owned();
        Ok(Self {
            name,
            group,
            input,
            sink,
            next: 0,
            is_clean: true,
            is_ended,
        })
    }

    /// Gives it to another scenario.
    pub(crate) fn turn_to(&self, log: &Arc<Log>) {
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(log);
    }

    /// Writes the first line, which makes the app as it is by default, and returns its number.
    pub(crate) fn greet(&mut self) -> Result<u64, String> {
        let line = Map::from_iter([("do".to_owned(), "app".into())]);
        let number = self.call(&line);
        self.is_clean = true;
        number
    }

    /// Writes a call, and returns its number.
    pub(crate) fn call(&mut self, call: &Map<String, Value>) -> Result<u64, String> {
        self.next += 1;
        let mut line = call.clone();
        line.insert("n".to_owned(), self.next.into());
        let text = Value::Object(line).to_string();
        log_of(&self.sink).write(&format!("{} < {text}", self.name));
        let changes = ["app", "stop"];
        if call
            .get("do")
            .and_then(Value::as_str)
            .is_some_and(|verb| changes.contains(&verb))
        {
            self.is_clean = false;
        }
        let written = self.input.write_all(format!("{text}\n").as_bytes());
        let written = written.and_then(|()| self.input.flush());
        written.map_err(|error| format!("{} takes no line any more: {error}", self.name))?;
        Ok(self.next)
    }

    /// Sends a signal to all of its processes, and SIGTERM to the first one alone.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<(), String> {
        self.is_clean = false;
        log_of(&self.sink).write(&format!("{} <- {signal:?}", self.name));
        // Once it has ended and is collected, another process may get its id.
        let is_ended = self.is_ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_ended {
            return Err(format!("{} has ended already", self.name));
        }
        let sent = match signal {
            Signal::TERM => kill_process(self.group, signal),
            _ => kill_process_group(self.group, signal),
        };
        sent.map_err(|error| format!("{}: {error}", self.name))?;
        if signal == Signal::STOP {
            log_of(&self.sink).add(&self.name, What::Paused);
        }
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // What it says from here on belongs to no scenario.
        self.turn_to(&Arc::new(Log::new()));
        // It may have ended.
        let _ = self.signal(Signal::KILL);
    }
}

/// Reads the lines of a driver to their end, and collects its exit code.
struct Reader {
    name: String,
    sink: Sink,
    is_ended: Arc<Mutex<bool>>,
}

impl Reader {
    fn read(self, mut child: Child, output: impl Read) {
        for line in lines(output) {
            let log = log_of(&self.sink);
            log.write(&format!("{} > {line}", self.name));
            let said: Value = serde_json::from_str(&line).unwrap_or_default();
            let what = match &said {
                Value::Object(parts) if parts.contains_key("n") => What::Answer(said),
                Value::Object(parts) if parts.contains_key("event") => What::Event(said),
                _ => What::Garbage(line),
            };
            log.add(&self.name, what);
        }
        // Its id stays its own until the lock is released: nobody signals it later.
        let collected = wait_without_collecting(&child);
        let mut is_ended = self.is_ended.lock().unwrap_or_else(PoisonError::into_inner);
        *is_ended = true;
        let status = child.wait().ok().filter(|_| collected);
        drop(is_ended);
        let code = status.and_then(|status| status.code());
        let signal = status.and_then(|status| status.signal());
        let log = log_of(&self.sink);
        log.write(&format!(
            "{} ended: code {code:?}, signal {signal:?}",
            self.name
        ));
        log.add(&self.name, What::Ended(code));
    }
}

/// Waits for the end of the process, which keeps its id.
fn wait_without_collecting(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), options).is_ok()
}

fn log_of(sink: &Sink) -> Arc<Log> {
    Arc::clone(&sink.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The lines of an output, also of one that is no UTF-8.
fn lines(output: impl Read) -> impl Iterator<Item = String> {
    let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}
