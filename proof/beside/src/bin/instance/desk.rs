//! What the workers of a process share: the file that they write to, and the mood.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use delayq_beside::{Line, What};
use delayq_plugin::{Clock, SystemClock, TaskContext};
use tokio::sync::watch;

/// What tasks do whose messages leave it open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mood {
    /// Tasks with the message `hold` go on running.
    pub(crate) holds: bool,
    /// Tasks with the message `die` fail for good.
    pub(crate) dies: bool,
}

/// Shared by all workers.
#[derive(Debug)]
pub(crate) struct Desk {
    instance: String,
    file: File,
    mood: watch::Sender<Mood>,
}

impl Desk {
    /// One that appends to `file` in the name of `instance`.
    pub(crate) fn new(instance: String, file: &Path) -> io::Result<Self> {
        let mood = Mood {
            holds: true,
            dies: true,
        };
        Ok(Self {
            instance,
            file: OpenOptions::new().append(true).create(true).open(file)?,
            mood: watch::Sender::new(mood),
        })
    }

    pub(crate) fn mood(&self) -> Mood {
        *self.mood.borrow()
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Returns once the mood holds nothing.
    pub(crate) async fn until_let_go(&self) {
        // The sender lives as long as this.
        let _ = self.mood.subscribe().wait_for(|mood| !mood.holds).await;
    }

    /// Appends a line with one write, so that lines of several processes do not mix.
    pub(crate) fn note(&self, message: &str, cx: &TaskContext, what: What) -> io::Result<()> {
        let line = Line {
            instance: self.instance.clone(),
            kind: cx.task_type().to_string(),
            id: cx.id().to_string(),
            attempt: cx.attempt(),
            fence: cx.fence(),
            due: cx.due_at().as_millis(),
            at: SystemClock.now().as_millis(),
            message: message.to_owned(),
            what,
        };
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        (&self.file).write_all(&line)
    }
}
