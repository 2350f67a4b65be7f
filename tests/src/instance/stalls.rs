//! Spans in which the machine served nobody, or not one of the processes: its disk was busy for
//! others, or its processors.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_plugin::{Clock, SystemClock, Timestamp};

/// How often a little is written: seldom enough to be no load itself.
const PULSE: Duration = Duration::from_millis(100);
/// What is long: about a third of the shortest lock.
const LATE: Duration = Duration::from_millis(300);

/// A span in which the machine served nobody.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// The last time before it.
    pub from: Timestamp,
    /// The first time after it.
    pub to: Timestamp,
}

#[derive(Debug, Default)]
struct Seen {
    over: Vec<Stall>,
    /// Since when the disk is written to.
    writing: Option<Timestamp>,
}

/// Looks for stalls until it is dropped.
#[derive(Debug)]
pub(super) struct Stalls {
    seen: Arc<Mutex<Seen>>,
    _until: Sender<()>,
}

impl Stalls {
    /// Of the disk that `folder` is on.
    pub(super) fn watch(folder: &Path) -> Self {
        let mut file = File::create(folder.join("pulse")).expect("a scene has a folder");
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let noted = Arc::clone(&seen);
        let (until, dropped) = channel();
        let note = move |from: Timestamp, allowed: Duration, is_written: bool| {
            let (from, to) = (from.plus(allowed), SystemClock.now());
            let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
            if to.since(from) > LATE {
                seen.over.push(Stall { from, to });
            }
            seen.writing = (!is_written).then_some(to);
            to
        };
        std::thread::spawn(move || {
            let mut now = note(SystemClock.now(), Duration::ZERO, false);
            // At its end, as stores do: that is also for the journal of the file system.
            while file.write_all(b"here").is_ok() && file.sync_data().is_ok() {
                now = note(now, Duration::ZERO, true);
                if dropped.recv_timeout(PULSE) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                now = note(now, PULSE, false);
            }
            // A disk that takes nothing says nothing more.
            note(SystemClock.now(), Duration::ZERO, true);
        });
        Self {
            seen,
            _until: until,
        }
    }

    /// Those so far, and one that is not over yet.
    pub(super) fn seen(&self) -> Vec<Stall> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let to = SystemClock.now();
        let writing = seen.writing.map(|from| Stall { from, to });
        let late = writing.filter(|stall| stall.to.since(stall.from) > LATE);
        seen.over.iter().copied().chain(late).collect()
    }
}

/// Tells `note` of each span in which this process had no processor, until the process ends.
pub fn watch_own(note: impl Fn(Stall) + Send + 'static) {
    std::thread::spawn(move || {
        let (_until, never) = channel::<()>();
        loop {
            let from = SystemClock.now().plus(PULSE);
            let waited = never.recv_timeout(PULSE);
            let to = SystemClock.now();
            if waited == Err(RecvTimeoutError::Timeout) && to.since(from) > LATE {
                note(Stall { from, to });
            }
        }
    });
}

/// The time between two moments in which none of the stalls was, zero when the second is not later.
pub(super) fn between(from: i64, to: i64, stalls: &[Stall]) -> Duration {
    let (from, to) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
    let mut stalls = stalls.to_vec();
    stalls.sort_unstable_by_key(|stall| stall.from);
    // Several may have seen one stall.
    let (mut passed, mut counted) = (Duration::ZERO, from);
    for stall in stalls {
        passed += stall.from.min(to).since(counted);
        counted = counted.max(stall.to);
    }
    passed + to.since(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_machine_stood_still_does_not_count() {
        let stall = |from, to| {
            let [from, to] = [from, to].map(Timestamp::from_millis);
            Stall { from, to }
        };
        let stalls = [stall(20, 50), stall(0, 10), stall(30, 40), stall(95, 200)];
        for (from, to, expected) in [(5, 100, 55), (50, 95, 45), (30, 40, 0), (9, 7, 0)] {
            let counted = between(from, to, &stalls);
            assert_eq!(counted, Duration::from_millis(expected), "{from} to {to}");
        }
    }
}
