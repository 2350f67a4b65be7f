//! What the machine does not give: a processor, or its disk. Seen by threads that do nothing but
//! look.

use std::collections::HashMap;
use std::fs::{File, read_dir, read_to_string};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use super::{LATE, Recorder, in_ns, monotonic_ns};
use crate::event::What;

/// How often a watched process looks at the clock and at its threads.
const HEARTBEAT: Duration = Duration::from_millis(20);
/// How often the disk is written to: seldom enough to be no load itself.
const DISK_HEARTBEAT: Duration = Duration::from_millis(100);
/// The threads of this process.
const THREADS: &str = "/proc/self/task";
/// The thread that writes to SQLite: while it waits, it may have the file's lock, which everybody
/// else waits for.
const WRITER: &str = "delayq-sqlite";

impl Recorder {
    /// From now on records when this process, or one of its threads, is not run, or waits for its
    /// record: whoever judges what it did late should know that it could not have done it in time.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn watch(&self) -> io::Result<()> {
        self.is_watched.store(true, Ordering::Relaxed);
        let recorder = self.clone();
        let heartbeat = Builder::new().name("chaos-heartbeat".to_owned());
        heartbeat.spawn(move || recorder.heartbeat()).map(drop)
    }

    /// From now on records when the disk that `folder` is on takes long for one small write: a
    /// store on the same disk was not served in time either, whatever else needed it.
    ///
    /// # Errors
    /// When there is no thread, or no file, for it.
    pub fn watch_disk(&self, folder: &Path) -> io::Result<()> {
        let file = File::create(folder.join("heartbeat"))?;
        let recorder = self.clone();
        let heartbeat = Builder::new().name("chaos-disk".to_owned());
        heartbeat
            .spawn(move || recorder.disk_heartbeat(file))
            .map(drop)
    }

    /// A disk that takes nothing, as it is full, is silent for ever, and no more is said of it.
    fn disk_heartbeat(&self, mut file: File) {
        let (_silent, nothing) = channel::<()>();
        loop {
            let since_ns = monotonic_ns();
            // At its end, as stores do: a new size is for the journal of the file system, which may
            // wait for the data of others where one place written again and again does not.
            let written = file.write_all(b"here");
            if written.and_then(|()| file.sync_data()).is_err() {
                return;
            }
            let now = monotonic_ns();
            if now - since_ns > in_ns(LATE) {
                self.record_at(now, What::DiskStalled { since_ns });
            }
            let _ = nothing.recv_timeout(DISK_HEARTBEAT);
        }
    }

    fn heartbeat(&self) -> ! {
        let (_silent, nothing) = channel::<()>();
        let late = in_ns(HEARTBEAT + LATE);
        let mut threads = Threads::default();
        let mut since_ns = monotonic_ns();
        loop {
            // A time-out is all that can come.
            let _ = nothing.recv_timeout(HEARTBEAT);
            let now = monotonic_ns();
            if now - since_ns > late {
                self.record_at(now, What::Stalled { since_ns });
            }
            // They ended since the last look.
            let waits = threads.look(Path::new(THREADS));
            if let Some(longest) = waits.iter().map(|wait| wait.ns).max() {
                let since_ns = since_ns.saturating_sub(longest);
                self.record_at(now, What::Stalled { since_ns });
            }
            if let Some(wait) = waits.iter().find(|wait| wait.of_writer) {
                let since_ns = since_ns.saturating_sub(wait.ns);
                self.record_at(now, What::StoreStalled { since_ns });
            }
            since_ns = now;
        }
    }
}

/// How long each thread of a process has waited for a processor so far.
#[derive(Debug, Default)]
struct Threads(HashMap<String, u64>);

/// A wait of one thread that was longer than [`LATE`].
#[derive(Debug, PartialEq, Eq)]
struct Wait {
    ns: u64,
    of_writer: bool,
}

impl Threads {
    /// The long waits that ended since the last look, by what the kernel tells in `folder`.
    fn look(&mut self, folder: &Path) -> Vec<Wait> {
        let mut waits = Vec::new();
        let mut known = HashMap::new();
        for thread in read_dir(folder).into_iter().flatten().flatten() {
            let name = thread.file_name().to_string_lossy().into_owned();
            // A thread may end at any time.
            let Some(waited) = waited_ns(&thread.path()) else {
                continue;
            };
            // A number may be that of a new thread by now.
            let ns = waited.saturating_sub(self.0.get(&name).copied().unwrap_or(waited));
            if ns > in_ns(LATE) {
                let comm = read_to_string(thread.path().join("comm"));
                let of_writer = comm.is_ok_and(|comm| comm.trim_end() == WRITER);
                waits.push(Wait { ns, of_writer });
            }
            known.insert(name, waited);
        }
        self.0 = known;
        waits
    }
}

/// The second number of `schedstat`; the kernel's "sched-stats.rst" says so.
fn waited_ns(thread: &Path) -> Option<u64> {
    let text = read_to_string(thread.join("schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    fn tells(folder: &Path, thread: &str, waited_ms: u64) {
        let thread = folder.join(thread);
        create_dir_all(&thread).unwrap();
        write(
            thread.join("schedstat"),
            format!("7 {} 3\n", waited_ms * 1_000_000),
        )
        .unwrap();
        write(thread.join("comm"), "delayq-sqlite\n").unwrap();
    }

    #[test]
    fn a_thread_that_waits_long_for_a_processor_is_seen_and_many_short_waits_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut threads = Threads::default();
        let mut look = |one, other| {
            tells(folder.path(), "1", one);
            tells(folder.path(), "2", other);
            threads.look(folder.path())
        };
        assert_eq!(look(5_000, 0), [], "of before it was watched");
        assert_eq!(look(5_100, 100), [], "not longer than that");
        let ns = 101_000_000;
        assert_eq!(
            look(5_100, 201),
            [Wait {
                ns,
                of_writer: true
            }]
        );
        assert_eq!(look(5_100, 201), []);
        write(folder.path().join("1/comm"), "tokio\n").unwrap();
        assert!(
            waited_ns(&folder.path().join("3")).is_none(),
            "it has ended"
        );
    }

    #[test]
    fn the_kernel_tells_it_of_this_process() {
        let mut threads = Threads::default();
        threads.look(Path::new(THREADS));
        assert!(threads.0.values().any(|waited| *waited > 0));
    }
}
