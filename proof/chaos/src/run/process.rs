//! A process of a run, from the outside.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use delayq_plugin::{millis, seconds};
use rustix::process::{Pid, Signal, kill_process};

use super::child::{DONE, PART, UP};
use super::failure::{Result, failure};
use super::part::Part;
use super::preload::Preload;

/// How long a process may take to start or to end: far more than any needs without a fault.
const PATIENCE: Duration = seconds(60);

/// A process that may be killed and started again under its name.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) part: Part,
    child: Child,
    said: Arc<Said>,
    /// What its earlier incarnations had done.
    earlier: u64,
    preload: Option<Preload>,
}

#[derive(Debug, Default)]
struct Said {
    up: AtomicBool,
    done: AtomicU64,
}

impl Process {
    /// Starts `part`, with a library if need be.
    pub(crate) fn start(part: Part, preload: Option<Preload>) -> Result<Self> {
        let (child, said) = spawn(&part, preload.as_ref())?;
        Ok(Self {
            part,
            child,
            said,
            earlier: 0,
            preload,
        })
    }

    /// Starts it again as the next incarnation.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.kill();
        self.earlier = self.done();
        self.part.incarnation += 1;
        (self.child, self.said) = spawn(&self.part, self.preload.as_ref())?;
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.part.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file whose number a preloaded clock adds to the time of day.
    pub(crate) fn clock_file(&self) -> Option<&PathBuf> {
        self.preload.as_ref().map(|preload| &preload.place)
    }

    /// How many tasks it has sent or started, as far as it has said.
    pub(crate) fn done(&self) -> u64 {
        self.earlier + self.said.done.load(Ordering::Relaxed)
    }

    /// Ends it with SIGKILL; it has gone when this returns. Says whether it was alive before.
    pub(crate) fn kill(&mut self) -> bool {
        let alive = matches!(self.child.try_wait(), Ok(None));
        // Neither fails but for a process that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        alive
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        send(self.pid(), signal)
    }

    /// Tells a submitter to send nothing new.
    pub(crate) fn quiet(&mut self) -> Result<()> {
        match self.child.stdin.as_mut() {
            Some(stdin) => Ok(stdin.write_all(b"quiet\n")?),
            None => failure("a process without an input"),
        }
    }

    /// Its status once it has ended by itself.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Awaits that it is ready.
    pub(crate) async fn up(&mut self) -> Result<()> {
        for _ in 0..PATIENCE.as_millis() / 10 {
            if self.said.up.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                return self.failure(&format!("ended before it was up: {status}"));
            }
            tokio::time::sleep(millis(10)).await;
        }
        self.failure(&format!("is not up after {PATIENCE:?}"))
    }

    /// Awaits that it ends by itself.
    pub(crate) async fn gone(&mut self) -> Result<ExitStatus> {
        for _ in 0..PATIENCE.as_millis() / 10 {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            tokio::time::sleep(millis(10)).await;
        }
        self.failure(&format!("has not ended after {PATIENCE:?}"))
    }

    /// A failure of this process, and where to look for the reason.
    pub(crate) fn failure<T>(&self, what: &str) -> Result<T> {
        let (name, folder) = (self.name(), self.part.folder.display());
        failure(format!("{name} {what}: {folder}/{name}.stderr may say why"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(part: &Part, preload: Option<&Preload>) -> Result<(Child, Arc<Said>)> {
    let errors = part.folder.join(format!("{}.stderr", part.name));
    let mut command = Command::new(std::env::current_exe()?);
    // The same arguments, for an application that reads them.
    command.args(std::env::args_os().skip(1));
    command.env(PART, serde_json::to_string(part)?);
    if let Some(preload) = preload {
        preload.add_to(&mut command);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(OpenOptions::new().append(true).create(true).open(errors)?);
    let mut child = command.spawn()?;
    let said = Arc::new(Said::default());
    if let Some(output) = child.stdout.take() {
        let said = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in BufReader::new(output)
                .lines()
                .map_while(std::result::Result::ok)
            {
                if line == UP {
                    said.up.store(true, Ordering::Relaxed);
                }
                let done = line.strip_prefix(DONE).and_then(|done| done.parse().ok());
                if let Some(number) = done {
                    said.done.store(number, Ordering::Relaxed);
                }
            }
        });
    }
    Ok((child, said))
}

/// Sends `signal` to the process with this id.
pub(crate) fn send(pid: u32, signal: Signal) -> Result<()> {
    match i32::try_from(pid).ok().and_then(Pid::from_raw) {
        Some(pid) => Ok(kill_process(pid, signal)?),
        None => failure(format!("{pid} is no process id")),
    }
}
