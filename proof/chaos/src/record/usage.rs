//! Usage of the machine by the processes of a run: processor time and bytes written.

use std::collections::{HashMap, HashSet};
use std::fs::{read_dir, read_to_string};
use std::io;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

use super::{Recorder, monotonic_ns};
use crate::event::What;

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Processes of this machine.
const PROCESSES: &str = "/proc";

impl Recorder {
    /// From now on records what this process and its descendants use of the machine, so that the
    /// checker can tell a shortage of the run's own making from one of the machine.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn watch_usage(&self) -> io::Result<()> {
        let recorder = self.clone();
        let usage = Builder::new().name("chaos-usage".to_owned());
        usage.spawn(move || recorder.sample_usage()).map(drop)
    }

    fn sample_usage(&self) -> ! {
        let (_silent, nothing) = channel::<()>();
        let mut family = Family::new(std::process::id());
        let mut since_ns = monotonic_ns();
        family.sample(Path::new(PROCESSES));
        loop {
            // A time-out is all that can come.
            let _ = nothing.recv_timeout(SAMPLE_INTERVAL);
            let used = family.sample(Path::new(PROCESSES));
            let now = monotonic_ns();
            let usage = What::Usage {
                since_ns,
                processor_ns: used.processor_ns,
                written_bytes: used.written_bytes,
            };
            self.record_at(now, usage);
            since_ns = now;
        }
    }
}

/// Processor time and bytes written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    processor_ns: u64,
    written_bytes: u64,
}

/// A process with its descendants, and what each had used at the last sample.
#[derive(Debug)]
struct Family {
    root: u32,
    last: Option<HashMap<u32, Used>>,
}

impl Family {
    fn new(root: u32) -> Self {
        Self { root, last: None }
    }

    /// What the family has used since the last sample, by the files in `folder`. A process that
    /// ended meanwhile loses its last part.
    fn sample(&mut self, folder: &Path) -> Used {
        let mut now = HashMap::new();
        let mut sum = Used::default();
        for pid in self.members(folder) {
            let Some(used) = used(&folder.join(pid.to_string())) else {
                continue;
            };
            if let Some(last) = &self.last {
                // A number may be that of a new process by now.
                let before = last.get(&pid).copied().unwrap_or_default();
                sum.processor_ns += used.processor_ns.saturating_sub(before.processor_ns);
                sum.written_bytes += used.written_bytes.saturating_sub(before.written_bytes);
            }
            now.insert(pid, used);
        }
        self.last = Some(now);
        sum
    }

    fn members(&self, folder: &Path) -> HashSet<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for process in read_dir(folder).into_iter().flatten().flatten() {
            let pid = process
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let parent = stat(&process.path()).and_then(|fields| fields.get(1)?.parse().ok());
            if let (Some(pid), Some(parent)) = (pid, parent) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let (mut members, mut queue) = (HashSet::new(), vec![self.root]);
        while let Some(pid) = queue.pop() {
            if members.insert(pid) {
                queue.extend(children.remove(&pid).unwrap_or_default());
            }
        }
        members
    }
}

/// Fields of `stat` after the name, which may hold blanks: state, parent, ..; "proc.rst" of the
/// kernel lists them.
fn stat(process: &Path) -> Option<Vec<String>> {
    let text = read_to_string(process.join("stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn used(process: &Path) -> Option<Used> {
    let fields = stat(process)?;
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let processor = ticks(11)? + ticks(12)?;
    let io = read_to_string(process.join("io")).unwrap_or_default();
    let written = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    Some(Used {
        processor_ns: processor * (1_000_000_000 / clock_ticks_per_second().max(1)),
        written_bytes: written.and_then(|bytes| bytes.parse().ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    fn process(folder: &Path, ids: (u32, u32), ticks: u64, written: u64) {
        let process = folder.join(ids.0.to_string());
        create_dir_all(&process).unwrap();
        let parent = ids.1;
        let stat = format!("7 (a name) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 1 0 0 20 0 1");
        write(process.join("stat"), stat).unwrap();
        write(
            process.join("io"),
            format!("rchar: 9\nwrite_bytes: {written}\n"),
        )
        .unwrap();
    }

    #[test]
    fn descendants_count_and_strangers_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let tell = |ticks, written| {
            process(folder.path(), (10, 1), ticks, written);
            process(folder.path(), (11, 10), ticks, written);
            process(folder.path(), (12, 11), ticks, written);
            process(folder.path(), (20, 1), 100 * ticks, 100 * written);
        };
        let mut family = Family::new(10);
        tell(5, 100);
        assert_eq!(family.sample(folder.path()), Used::default(), "of before");
        tell(7, 150);
        let tick_ns = 1_000_000_000 / clock_ticks_per_second();
        let used = Used {
            processor_ns: 6 * tick_ns,
            written_bytes: 150,
        };
        assert_eq!(family.sample(folder.path()), used);
        process(folder.path(), (13, 12), 2, 30);
        let new = Used {
            processor_ns: 3 * tick_ns,
            written_bytes: 30,
        };
        assert_eq!(family.sample(folder.path()), new, "a new process");
    }

    #[test]
    fn the_kernel_tells_what_this_process_has_used() {
        let mut family = Family::new(std::process::id());
        family.sample(Path::new(PROCESSES));
        let begun = monotonic_ns();
        let mut sum = 0;
        while sum < 50_000_000 {
            sum += family.sample(Path::new(PROCESSES)).processor_ns;
            assert!(monotonic_ns() - begun < 60_000_000_000, "used {sum} ns");
        }
    }
}
