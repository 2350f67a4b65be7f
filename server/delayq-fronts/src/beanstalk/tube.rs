//! A tube as known to this server: its name, its lanes, and the clients that refer to it.
//!
//! A lane is the jobs of one tube that have one priority, as a task type:
//!
//! ```text
//! tube:emails::00000400                         priority 1,024 of the tube `emails`
//! tube:a:2Bb::00000000                          priority 0 of the tube `a+b`
//! tube:-<hash>::00000000                        a tube with a long name, which a document keeps
//! tube:emails::00000400::0000000000000017       job 17 alone, reserved by its number
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::{Cursor, TaskId, TaskType};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// The longest name of a tube, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// The prefix of the type of every lane.
pub(super) const PREFIX: &str = "tube:";
/// The longest tube name inside a type, which also contains the prefix, the priority and a number.
const MAX_PART_BYTES: usize = 60;
/// The digits of a number in an id, so that ids sort like numbers.
const DIGITS: usize = 16;

/// The name of a tube: 1 to 200 of `A-Z a-z 0-9 - + / ; . $ _ ( )`, not beginning with `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TubeName(Arc<str>);

impl TubeName {
    /// Parses a name; `None` if it is invalid.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let is_name = (1..=MAX_NAME_BYTES).contains(&bytes.len())
            && bytes.first() != Some(&b'-')
            && bytes.iter().all(|byte| is_part(*byte));
        let text = str::from_utf8(bytes).ok()?;
        is_name.then(|| Self(text.into()))
    }

    /// The tube that every connection starts with.
    pub(super) fn first() -> Self {
        Self("default".into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

impl fmt::Debug for TubeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for TubeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The part of a type name that stands for the tube.
pub(super) fn tube_part(tube: &TubeName) -> String {
    let mut part = String::new();
    for character in tube.as_str().chars() {
        if character.is_ascii_alphanumeric() || "._-".contains(character) {
            part.push(character);
        } else {
            let _ = write!(part, ":{:02X}", u32::from(character));
        }
    }
    if part.len() <= MAX_PART_BYTES {
        return part;
    }
    // No tube name begins with a hyphen, so the hash is unambiguous.
    let hash = Sha256::digest(tube.as_str());
    let hex: String = hash.iter().take(20).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("-{hex}")
}

/// The tube name for a part; `None` if the part is a hash.
pub(super) fn tube_of(part: &str) -> Option<TubeName> {
    let mut name = Vec::new();
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b':' {
            let hex = [bytes.next()?, bytes.next()?];
            let hex = str::from_utf8(&hex).ok()?;
            name.push(u8::from_str_radix(hex, 16).ok()?);
        } else {
            name.push(byte);
        }
    }
    TubeName::read(&name)
}

/// A lane: the type of jobs with one priority.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Lane {
    pub(super) pri: u32,
    /// The only job of the lane, if it is a lane for one job.
    pub(super) job: Option<u64>,
    pub(super) task_type: TaskType,
}

impl Lane {
    /// The lane of a tube for a priority.
    pub(super) fn new(part: &str, pri: u32) -> delayq_plugin::Result<Self> {
        let task_type = TaskType::new(format!("{PREFIX}{part}::{pri:08x}"))?;
        Ok(Self {
            pri,
            job: None,
            task_type,
        })
    }

    /// The lane for one job of a tube.
    pub(super) fn of_job(part: &str, pri: u32, job: u64) -> delayq_plugin::Result<Self> {
        let task_type = TaskType::new(format!("{PREFIX}{part}::{pri:08x}::{job:0DIGITS$}"))?;
        Ok(Self {
            pri,
            job: Some(job),
            task_type,
        })
    }

    /// The lane of a type, with the part that stands for its tube; `None` for any other type.
    pub(super) fn read(task_type: &TaskType) -> Option<(String, Self)> {
        let name = task_type.as_str().strip_prefix(PREFIX)?;
        let mut parts = name.split("::");
        let (tube, pri, job) = (parts.next()?, parts.next()?, parts.next());
        if parts.next().is_some() || pri.len() != 8 {
            return None;
        }
        let job = match job {
            Some(job) => Some(job.parse().ok()?),
            None => None,
        };
        let lane = Self {
            pri: u32::from_str_radix(pri, 16).ok()?,
            job,
            task_type: task_type.clone(),
        };
        Some((tube.to_owned(), lane))
    }
}

/// The task id for a job number.
pub(super) fn id_of(number: u64) -> delayq_plugin::Result<TaskId> {
    TaskId::new(format!("{number:0DIGITS$}"))
}

/// The number of a job; `None` for a task that no client of this protocol has put.
pub(super) fn number_of(id: &TaskId) -> Option<u64> {
    let text = id.as_str();
    let is_number = text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Estimates when a lane is worth a claim.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    /// Not before this time; `None` means now.
    pub(super) not_before: Option<Instant>,
    /// Grows with each change of the lane that this server hears of. A claim under way at that time
    /// then does not hide the change.
    pub(super) changes: u64,
    /// The number of the first ready job as of the last read. A client that watches many tubes
    /// compares the heads of all lanes.
    pub(super) head: Option<u64>,
    /// The time when the lane was first found empty.
    pub(super) empty_since: Option<Instant>,
    /// The last dead job that was checked for an abandoned move.
    pub(super) mended: Option<Cursor>,
}

/// A pause, for the statistics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) length: Duration,
    pub(super) until: Instant,
}

/// A tube: its lanes, and the clients of this server that refer to it.
#[derive(Debug)]
pub(super) struct Tube {
    /// The part that stands for the tube in the types of its lanes.
    pub(super) part: String,
    pub(super) lanes: BTreeMap<Lane, Outlook>,
    pub(super) using: u64,
    pub(super) watching: u64,
    pub(super) waiting: u64,
    /// Counted since this server has known the tube.
    pub(super) jobs: u64,
    pub(super) deletes: u64,
    pub(super) pauses: u64,
    pub(super) pause: Option<Pause>,
    /// The time when a client last asked for one of its jobs.
    pub(super) asked_at: Option<Instant>,
}

impl Tube {
    pub(super) fn new(name: &TubeName) -> Self {
        Self {
            part: tube_part(name),
            lanes: BTreeMap::new(),
            using: 0,
            watching: 0,
            waiting: 0,
            jobs: 0,
            deletes: 0,
            pauses: 0,
            pause: None,
            asked_at: None,
        }
    }

    /// Returns true if a client of this server refers to the tube.
    pub(super) fn is_referred(&self) -> bool {
        self.using + self.watching > 0
    }

    /// The pause, unless it is over.
    pub(super) fn pause(&self) -> Option<Pause> {
        self.pause.filter(|pause| Instant::now() < pause.until)
    }

    /// The number of lanes that are not for one job alone.
    pub(super) fn shared_lanes(&self) -> usize {
        self.lanes.keys().filter(|lane| lane.job.is_none()).count()
    }

    /// The next less urgent lane after an unknown one, or else the last lane.
    pub(super) fn shared_lane(&self, unknown: &Lane) -> Option<Lane> {
        let is_shared = |lane: &&Lane| lane.job.is_none();
        let mut behind = self.lanes.range::<Lane, _>(unknown..).map(|(lane, _)| lane);
        let next = behind.find(is_shared);
        let shared = next.or_else(|| self.lanes.keys().rfind(is_shared));
        shared.cloned()
    }

    /// Records that a lane may have a job, from `at` on.
    pub(super) fn changed(&mut self, lane: &Lane, at: Option<Instant>) {
        let outlook = self.lanes.entry(lane.clone()).or_default();
        outlook.changes += 1;
        outlook.head = None;
        outlook.empty_since = None;
        outlook.not_before = match (outlook.not_before, at) {
            (Some(before), Some(at)) => Some(before.min(at)),
            _ => None,
        };
    }

    /// Records the first ready job of a lane, unless the lane changed after `changes`.
    pub(super) fn found_head(&mut self, lane: &Lane, changes: u64, head: u64) {
        if let Some(outlook) = self.lanes.get_mut(lane)
            && outlook.changes == changes
        {
            outlook.head = Some(head);
        }
    }

    /// Records that a lane has nothing ready until `next`, unless the lane changed after `changes`.
    pub(super) fn found_nothing(&mut self, lane: &Lane, changes: u64, next: Instant) {
        if let Some(outlook) = self.lanes.get_mut(lane)
            && outlook.changes == changes
        {
            outlook.not_before = Some(next);
            outlook.head = None;
        }
    }
}
