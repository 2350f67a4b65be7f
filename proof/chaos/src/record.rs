//! The writing side: events into files that outlive whoever writes them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use delayq_core::task::Headers;
use rustix::time::{ClockId, clock_gettime};
use xxhash_rust::xxh3::xxh3_64;

use crate::event::{Event, What};

mod heartbeat;
mod store;
mod usage;
mod worker;

pub use store::RecordedStore;
pub use worker::RecordedWorker;

/// How often a pair of times is read; the closest pair is kept.
const CLOCK_READINGS: usize = 8;

/// How late something may be before it is recorded as a stall.
pub(crate) const LATE: Duration = Duration::from_millis(100);

pub(crate) fn in_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The digest of a message that events carry: XXH3, so that it shares nothing with the CRC-32 of
/// the stores whose integrity it checks.
#[must_use]
pub fn digest(message: &[u8]) -> u64 {
    xxh3_64(message)
}

/// The same of a task's headers; `None` without any.
#[must_use]
pub fn digest_of_headers(headers: &Headers) -> Option<u64> {
    if headers.is_empty() {
        return None;
    }
    let lines = headers
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"));
    Some(digest(lines.collect::<String>().as_bytes()))
}

/// The kernel's monotonic clock in nanoseconds: the same in all processes of this machine.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Read from the kernel itself: a preloaded library that shifts the clock of a process shifts
/// neither.
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0);
    whole * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Appends the events of one process to its file, one write of the system an event: once recorded,
/// an event outlives whatever kills the process. Clones share the file.
#[derive(Clone, Debug)]
pub struct Recorder {
    file: Arc<File>,
    calls: Arc<AtomicU64>,
    is_watched: Arc<AtomicBool>,
}

impl Recorder {
    /// Opens `FOLDER/NAME.INCARNATION.jsonl` and records `Up` and the time of day.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(folder: &Path, name: &str, incarnation: u32, namespace: &str) -> io::Result<Self> {
        let path = folder.join(format!("{name}.{incarnation}.jsonl"));
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let recorder = Self {
            file: Arc::new(file),
            calls: Arc::new(AtomicU64::new(1)),
            is_watched: Arc::default(),
        };
        recorder.record(What::Up {
            name: name.to_owned(),
            pid: std::process::id(),
            incarnation,
            namespace: namespace.to_owned(),
        });
        recorder.record_clock();
        Ok(recorder)
    }

    /// Records `what`, now.
    ///
    /// # Panics
    /// When it cannot be written: a run that goes on unrecorded proves nothing.
    pub fn record(&self, what: What) {
        self.record_at(monotonic_ns(), what);
    }

    /// Records `what` as of an earlier reading of [`monotonic_ns`].
    ///
    /// # Panics
    /// As [`record`](Self::record).
    pub fn record_at(&self, at_ns: u64, what: What) {
        let mut line =
            serde_json::to_vec(&Event { at_ns, what }).expect("an event has a JSON form");
        line.push(b'\n');
        let since_ns = monotonic_ns();
        if let Err(error) = (&*self.file).write_all(&line) {
            panic!("the record cannot be written: {error}");
        }
        // Whoever waits for the record does nothing else meanwhile.
        let now = monotonic_ns();
        if self.is_watched.load(Ordering::Relaxed) && now - since_ns > in_ns(LATE) {
            self.record_at(now, What::Stalled { since_ns });
        }
    }

    /// Records what time of day it is; now and then, so that the checker can follow a clock that
    /// drifts.
    ///
    /// # Panics
    /// As [`record`](Self::record).
    pub fn record_clock(&self) {
        let readings = (0..CLOCK_READINGS).map(|_| {
            let before = monotonic_ns();
            let real_ns = read(ClockId::Realtime);
            (monotonic_ns() - before, before, real_ns)
        });
        if let Some((spread_ns, at_ns, real_ns)) = readings.min() {
            self.record_at(at_ns, What::Clock { real_ns, spread_ns });
        }
    }

    /// A number for the next call, unique in this incarnation.
    #[must_use]
    pub fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}
