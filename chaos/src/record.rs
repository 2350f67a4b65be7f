//! The writing side: events into files that outlive whoever writes them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use delayq_core::task::Headers;
use rustix::time::{ClockId, clock_gettime};
use xxhash_rust::xxh3::xxh3_64;

use crate::event::{Event, What};

mod store;
mod worker;

pub use store::RecordedStore;
pub use worker::RecordedWorker;

/// How often a pair of times is read; the closest pair is kept.
const CLOCK_READINGS: usize = 8;

/// How often a watched process looks at the clock, and how late it may be before it says so.
const PULSE: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(100);
/// How often the disk is written to: seldom enough to be no load itself.
const DISK_PULSE: Duration = Duration::from_millis(100);

fn in_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The digest of a message that events carry: XXH3, so that it shares nothing with the CRC-32 of the
/// stores whose integrity it checks.
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

/// Read from the kernel itself: a preloaded library that shifts the clock of a process shifts neither.
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0);
    whole * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Appends the events of one process to its file, one write of the system an event: once recorded, an
/// event outlives whatever kills the process. Clones share the file.
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

    /// Records what time of day it is; now and then, so that the checker can follow a clock that drifts.
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

    /// From now on records when this process is not run, or waits for its record: whoever judges what it did late should know that
    /// it could not have done it in time.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn watch(&self) -> io::Result<()> {
        self.is_watched.store(true, Ordering::Relaxed);
        let recorder = self.clone();
        let pulse = std::thread::Builder::new().name("chaos-pulse".to_owned());
        pulse.spawn(move || recorder.pulse()).map(drop)
    }

    /// From now on records when the disk that `folder` is on takes long for one small write: a store on the same disk
    /// was not served in time either, whatever else needed it.
    ///
    /// # Errors
    /// When there is no thread, or no file, for it.
    pub fn watch_disk(&self, folder: &Path) -> io::Result<()> {
        let file = File::create(folder.join("pulse"))?;
        let recorder = self.clone();
        let pulse = std::thread::Builder::new().name("chaos-disk".to_owned());
        pulse.spawn(move || recorder.pulse_of_disk(&file)).map(drop)
    }

    /// A disk that takes nothing, as it is full, is silent for ever, and no more is said of it.
    fn pulse_of_disk(&self, file: &File) {
        let (_silent, nothing) = channel::<()>();
        loop {
            let since_ns = monotonic_ns();
            // The same place each time: that changes nothing but the data.
            let written = file.write_all_at(b"here", 0);
            if written.and_then(|()| file.sync_data()).is_err() {
                return;
            }
            let now = monotonic_ns();
            if now - since_ns > in_ns(LATE) {
                self.record_at(now, What::DiskStalled { since_ns });
            }
            let _ = nothing.recv_timeout(DISK_PULSE);
        }
    }

    fn pulse(&self) -> ! {
        let (_silent, nothing) = channel::<()>();
        let late = in_ns(PULSE + LATE);
        let mut since_ns = monotonic_ns();
        loop {
            // A time-out is all that can come.
            let _ = nothing.recv_timeout(PULSE);
            let now = monotonic_ns();
            if now - since_ns > late {
                self.record_at(now, What::Stalled { since_ns });
            }
            since_ns = now;
        }
    }

    /// A number for the next call, unique in this incarnation.
    #[must_use]
    pub fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}
