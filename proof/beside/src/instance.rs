//! A running program of one release.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use delayq_beside::{Answer, Command, READY};
use serde_json::Value;

use crate::failure::{Failure, Result, ensure};

/// How long an answer, or anything else that has to come, may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A part of an answer, such as `/history/last_error`; null when it is not there.
pub(crate) fn at<'a>(answer: &'a Value, path: &str) -> &'a Value {
    answer.pointer(path).unwrap_or(&Value::Null)
}

/// A process, which dies with this value.
#[derive(Debug)]
pub(crate) struct Instance {
    /// Its name, which its workers write to their lines.
    pub(crate) name: String,
    child: Child,
    log: PathBuf,
    answers: Receiver<String>,
}

impl Instance {
    /// Starts `program` on the store of this URL, and awaits that its plugin has started. Its log
    /// and the lines of its workers go into `folder`.
    pub(crate) fn start(name: &str, program: &Path, url: &str, folder: &Path) -> Result<Self> {
        let log = folder.join(name).with_extension("log");
        let mut child = Process::new(program)
            .args([name, url])
            .arg(folder.join("lines"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()?;
        let output = child.stdout.take().ok_or("the output is piped")?;
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output)
                .lines()
                .map_while(std::result::Result::ok)
            {
                let _ = sender.send(line);
            }
        });
        let instance = Self {
            name: name.to_owned(),
            child,
            log,
            answers,
        };
        let line = instance.line()?;
        ensure(line == READY, || format!("{name} says {line}"))?;
        Ok(instance)
    }

    /// Has it do something; fails when that fails.
    pub(crate) fn ask(&mut self, command: &Command) -> Result<Value> {
        let asked = format!("{command:?}");
        let answer = self.try_ask(command)?;
        answer.map_err(|error| format!("{}: {asked}: {error}", self.name).into())
    }

    /// Has it do something that may fail.
    pub(crate) fn try_ask(&mut self, command: &Command) -> Result<Answer> {
        self.tell(command)?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    /// Shuts it down in order.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.tell(&Command::Stop)?;
        // Its output ends with it. Its input stays open until then: its end is the end of a driver.
        let last = self.answers.recv_timeout(PATIENCE);
        let has_ended = last == Err(RecvTimeoutError::Disconnected);
        ensure(has_ended, || {
            format!("{} does not end: {last:?}", self.name)
        })?;
        let status = self.child.wait()?;
        ensure(status.success(), || {
            format!("{} ended: {status}", self.name)
        })
    }

    /// Ends it with SIGKILL; it is gone when this returns.
    pub(crate) fn kill(mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure(ended.is_none(), || {
            format!("{} has ended: {ended:?}", self.name)
        })?;
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn tell(&mut self, command: &Command) -> Result<()> {
        let input = self.child.stdin.as_mut().ok_or("the input is piped")?;
        Ok(writeln!(input, "{}", serde_json::to_string(command)?)?)
    }

    fn line(&self) -> Result<String> {
        let line = self.answers.recv_timeout(PATIENCE);
        line.map_err(|_| {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last = log.lines().last().unwrap_or("nothing");
            Failure::from(format!("{} does not answer; it logged: {last}", self.name))
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Neither fails but for a process that has ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
