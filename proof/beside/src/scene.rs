//! One store, the instances on it, and what was asked of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use delayq_beside::{Command, Known, Line};
use delayq_plugin::{Clock, SystemClock};
use serde_json::Value;

use crate::failure::{Result, ensure};
use crate::instance::{Instance, PATIENCE, at};
use crate::ledger::{Done, Expected, Ledger};

/// A release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Earlier,
    Present,
}

/// What is known of a run so far.
#[derive(Debug)]
pub(crate) struct Scene {
    url: String,
    folder: PathBuf,
    earlier: PathBuf,
    present: PathBuf,
    /// What was accepted.
    pub(crate) ledger: Ledger,
    /// Instances that were killed.
    pub(crate) killed: BTreeSet<String>,
    instances: usize,
    ids: usize,
}

impl Scene {
    /// A scene with the programs of the earlier release and of this one.
    pub(crate) fn new(url: String, folder: &Path, [earlier, present]: [&PathBuf; 2]) -> Self {
        Self {
            url,
            folder: folder.to_owned(),
            earlier: earlier.clone(),
            present: present.clone(),
            ledger: Ledger::new(),
            killed: BTreeSet::new(),
            instances: 0,
            ids: 0,
        }
    }

    /// Says what comes next.
    pub(crate) fn say(&self, what: &str) {
        println!("  {what} ({} tasks so far)", self.ledger.len());
    }

    /// Starts an instance.
    pub(crate) fn start(&mut self, release: Release) -> Result<Instance> {
        self.instances += 1;
        let (word, program) = match release {
            Release::Earlier => ("earlier", &self.earlier),
            Release::Present => ("present", &self.present),
        };
        let name = format!("{word}-{}", self.instances);
        Instance::start(&name, program, &self.url, &self.folder)
    }

    /// Kills an instance.
    pub(crate) fn kill(&mut self, instance: Instance) -> Result<()> {
        self.killed.insert(instance.name.clone());
        instance.kill()
    }

    /// Sends a new task, which is done once; returns its id.
    pub(crate) fn send(
        &mut self,
        by: &mut Instance,
        kind: &str,
        message: &str,
        after_ms: u64,
    ) -> Result<String> {
        self.send_in_group(by, (kind, ""), message, after_ms)
    }

    /// The same, with a group.
    pub(crate) fn send_in_group(
        &mut self,
        by: &mut Instance,
        (kind, group): (&str, &str),
        message: &str,
        after_ms: u64,
    ) -> Result<String> {
        self.ids += 1;
        let id = format!("{}-{}", by.name, self.ids);
        let expected = Expected {
            sender: by.name.clone(),
            done: Done::Times(1),
            message: message.to_owned(),
            not_before: now_ms() + i64::try_from(after_ms)?,
        };
        let receipt = by.ask(&Command::Send {
            kind: kind.to_owned(),
            id: id.clone(),
            message: message.to_owned(),
            after_ms,
            known: Known::Refuse,
            group: group.to_owned(),
        })?;
        ensure(at(&receipt, "/outcome") == "accepted", || {
            format!("{id}: {receipt}")
        })?;
        self.ledger.insert((kind.to_owned(), id.clone()), expected);
        Ok(id)
    }

    /// Sends a task whose id is known; the answer is the receipt.
    pub(crate) fn send_known(
        &mut self,
        by: &mut Instance,
        (kind, id): (&str, &str),
        message: &str,
        known: Known,
    ) -> Result<Value> {
        let after_ms = if known == Known::Debounce { 20_000 } else { 0 };
        let command = Command::Send {
            kind: kind.to_owned(),
            id: id.to_owned(),
            message: message.to_owned(),
            after_ms,
            known,
            group: String::new(),
        };
        if known != Known::Refuse {
            message.clone_into(&mut self.expect(kind, id)?.message);
            self.may_start_now(kind, id)?;
        }
        by.ask(&command)
    }

    /// What is expected of a task, to be changed.
    pub(crate) fn expect(&mut self, kind: &str, id: &str) -> Result<&mut Expected> {
        let key = (kind.to_owned(), id.to_owned());
        Ok(self
            .ledger
            .get_mut(&key)
            .ok_or_else(|| format!("{id} was not sent"))?)
    }

    /// The task is about to be moved to this moment.
    pub(crate) fn may_start_now(&mut self, kind: &str, id: &str) -> Result<()> {
        self.expect(kind, id)?.not_before = now_ms();
        Ok(())
    }

    /// The task is done so often.
    pub(crate) fn is_done(&mut self, kind: &str, id: &str, done: Done) -> Result<()> {
        self.expect(kind, id)?.done = done;
        Ok(())
    }

    /// The lines of all workers so far. The last one may be half written.
    pub(crate) fn lines(&self) -> Result<Vec<Line>> {
        let text = fs::read_to_string(self.folder.join("lines"))?;
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().map(serde_json::from_str);
        Ok(lines.collect::<serde_json::Result<_>>()?)
    }

    /// Awaits a line of a task, the last one that is meant.
    pub(crate) fn line(
        &self,
        what: &str,
        (kind, id): (&str, &str),
        is_meant: impl Fn(&Line) -> bool,
    ) -> Result<Line> {
        until(&format!("{what} of {kind}/{id}"), || {
            let lines = self.lines()?;
            let mut of_task = lines.into_iter().rev();
            Ok(of_task.find(|line| line.kind == kind && line.id == id && is_meant(line)))
        })
    }
}

/// Awaits that a question has an answer.
pub(crate) fn until<T>(what: &str, mut question: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(answer) = question()? {
            return Ok(answer);
        }
        ensure(begin.elapsed() < PATIENCE, || format!("never came: {what}"))?;
        // A pause between questions, not a guess at how long something takes.
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// The time of day.
pub(crate) fn now_ms() -> i64 {
    SystemClock.now().as_millis()
}
