//! What the drivers of a scenario have said, in the order in which it came, and a transcript of it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Lines of a transcript; the first ones are left out.
const MOST_LINES: usize = 300;

/// One thing that a driver said, or that was done to it.
#[derive(Debug)]
pub(crate) enum What {
    /// A line of JSON with `event`.
    Event(Value),
    /// A line of JSON with `n`.
    Answer(Value),
    /// It was stopped by SIGSTOP: it may lose its locks.
    Paused,
    /// It has ended, with this exit code unless by a signal.
    Ended(Option<i32>),
    /// A line that is neither an answer nor an event.
    Garbage(String),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) driver: String,
    pub(crate) what: What,
    /// An event is taken by the first step that it fits.
    pub(crate) is_taken: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) entries: Vec<Entry>,
    transcript: VecDeque<String>,
}

impl Heard {
    /// Why the scenario cannot go on, if a driver has ended unasked or talks nonsense.
    pub(crate) fn broken(&self, expected: &[String]) -> Option<String> {
        self.entries.iter().find_map(|entry| match &entry.what {
            What::Garbage(line) => Some(format!(
                "{} printed what is no line of the protocol: {line}",
                entry.driver
            )),
            What::Ended(code) if !expected.contains(&entry.driver) => {
                Some(format!("{} has ended by itself ({code:?})", entry.driver))
            }
            _ => None,
        })
    }
}

/// The log of one scenario, which the readers of its drivers write.
#[derive(Debug)]
pub(crate) struct Log {
    heard: Mutex<Heard>,
    told: Condvar,
    began: Instant,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self {
            heard: Mutex::default(),
            told: Condvar::new(),
            began: Instant::now(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line of the transcript.
    pub(crate) fn write(&self, text: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        let transcript = &mut self.lock().transcript;
        if transcript.len() == MOST_LINES {
            transcript.pop_front();
        }
        transcript.push_back(format!("{seconds:7.3} {}", cut(text, 500)));
    }

    pub(crate) fn add(&self, driver: &str, what: What) {
        let driver = driver.to_owned();
        self.lock().entries.push(Entry {
            driver,
            what,
            is_taken: false,
        });
        self.told.notify_all();
    }

    /// Waits until `look` has found something, or the time is over.
    pub(crate) fn wait<T>(
        &self,
        within: Duration,
        mut look: impl FnMut(&mut Heard) -> Option<T>,
    ) -> Option<T> {
        let end = Instant::now() + within;
        let mut heard = self.lock();
        loop {
            if let Some(found) = look(&mut heard) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            let waited = self.told.wait_timeout(heard, left);
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits without looking at anything.
    pub(crate) fn pause(&self, span: Duration) {
        self.wait::<()>(span, |_| None);
    }

    pub(crate) fn transcript(&self) -> String {
        let heard = self.lock();
        let lines = heard.transcript.iter().map(|line| format!("    {line}\n"));
        lines.collect()
    }
}

/// The beginning of a text.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most).collect::<String>() + ".."
}
