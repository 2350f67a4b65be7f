//! The events of an instance, in a file that outlives it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use delayq_plugin::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use super::plan::Outcome;

/// One thing that happened in an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// When, in milliseconds on the clock that all processes of this machine share.
    pub at: i64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The plugin has started.
    Up,
    /// A task was accepted.
    Sent {
        /// Its type and id.
        task: String,
        /// When it was first sent plus its delay: it must not start before.
        not_before: i64,
        /// When the store says that it is due; `None` for one that had been accepted before.
        due: Option<i64>,
    },
    /// A task was not accepted, or the answer was lost.
    Refused {
        /// Its type and id.
        task: String,
        /// Why.
        error: String,
        /// Whether the store promises that trying again may help.
        transient: bool,
    },
    /// A worker was started.
    Start {
        /// Its type and id.
        task: String,
        /// The attempt.
        attempt: u32,
        /// The lock.
        fence: u64,
        /// When it was due.
        due: i64,
        /// When it was handed out, on the store's clock.
        claimed: i64,
    },
    /// A worker is about to return.
    End {
        /// Its type and id.
        task: String,
        /// The lock.
        fence: u64,
        /// What it returns.
        outcome: Outcome,
        /// Whether its context says that it should stop.
        told: bool,
    },
    /// No more tasks are sent.
    Quiet,
    /// Every thread of the application's runtime is blocked now.
    Blocked,
    /// They go on.
    Unblocked,
    /// The process had no processor for a while.
    Stalled {
        /// Since when.
        from: i64,
    },
    /// The plugin has been shut down.
    Down {
        /// How many locks its handlers found lost.
        locks_lost: u64,
    },
}

impl What {
    /// Whether the plugin has started.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up)
    }

    /// Whether a task was accepted.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        matches!(self, Self::Sent { .. })
    }

    /// Whether a task was not accepted.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether a worker was started.
    #[must_use]
    pub fn is_start(&self) -> bool {
        matches!(self, Self::Start { .. })
    }

    /// Whether a worker returned.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::End { .. })
    }

    /// Whether a worker returned that had been told to stop.
    #[must_use]
    pub fn is_told_end(&self) -> bool {
        matches!(self, Self::End { told: true, .. })
    }
}

/// Where the instance with this log writes its stalls: seldom any, and asked for often.
#[must_use]
pub fn stalls_beside(log: &Path) -> PathBuf {
    log.with_extension("stalls")
}

/// The writing end.
#[derive(Debug)]
pub struct Log {
    file: File,
}

impl Log {
    /// Appends to `path`.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    pub fn append_to(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Self {
            file: file.expect("the log can be opened"),
        }
    }

    /// Writes one event, in one call of the system: whatever kills this process later leaves it
    /// there.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, what: What) {
        let at = SystemClock.now().as_millis();
        let mut line =
            serde_json::to_string(&Event { at, what }).expect("an event has a JSON form");
        line.push('\n');
        (&self.file)
            .write_all(line.as_bytes())
            .expect("the log can be written");
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    read: usize,
    events: Vec<Event>,
}

impl Reader {
    /// Reads `path`, which need not be there yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: 0,
            events: Vec::new(),
        }
    }

    /// All events so far. A last line without an end is still being written, or was cut off by a
    /// kill.
    ///
    /// # Panics
    /// When a line is no event.
    pub fn events(&mut self) -> &[Event] {
        let bytes = std::fs::read(&self.path).unwrap_or_default();
        let new = bytes.get(self.read..).unwrap_or_default();
        let whole = new.iter().rposition(|byte| *byte == b'\n');
        let lines = whole.and_then(|end| new.get(..=end)).unwrap_or_default();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let event = serde_json::from_slice(line);
            self.events
                .push(event.unwrap_or_else(|e| panic!("{}: {e}", self.path.display())));
        }
        self.read += lines.len();
        &self.events
    }
}
