//! Lanes: the jobs of one tube that have one priority, as a task type.
//!
//! ```text
//! tube:emails::00000400                         priority 1,024 of the tube `emails`
//! tube:a:2Bb::00000000                          priority 0 of the tube `a+b`
//! tube:-<hash>::00000000                        a tube with a long name, see `Tubes`
//! tube:emails::00000400::0000000000000017       job 17 alone, reserved by its number
//! ```

use std::fmt::Write;

use delayq_plugin::{TaskId, TaskType};
use sha2::{Digest, Sha256};

use super::tube_name::TubeName;

/// What every type of a lane begins with.
pub(super) const PREFIX: &str = "tube:";
/// Longest name within a type: beside it are the prefix, the priority and a number.
const MAX_NAME_BYTES: usize = 60;
/// Digits of a number in an id, so that ids are ordered as their numbers.
const DIGITS: usize = 16;

/// The part of a type that says which tube it is of.
pub(super) fn tube_part(tube: &TubeName) -> String {
    let mut part = String::new();
    for character in tube.as_str().chars() {
        if character.is_ascii_alphanumeric() || "._-".contains(character) {
            part.push(character);
        } else {
            let _ = write!(part, ":{:02X}", u32::from(character));
        }
    }
    if part.len() <= MAX_NAME_BYTES {
        return part;
    }
    // No tube begins with a hyphen.
    let hash = Sha256::digest(tube.as_str());
    let hex: String = hash.iter().take(20).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("-{hex}")
}

/// The name behind a part, unless that is a hash.
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
    /// The only job of the lane, if it is for one.
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

    /// The lane behind a type and the part that says which tube it is of, if it is a lane.
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

/// The id of the job with a number.
pub(super) fn id_of(number: u64) -> delayq_plugin::Result<TaskId> {
    TaskId::new(format!("{number:0DIGITS$}"))
}

/// The number of a job; `None` for a task that no client of this protocol has put.
pub(super) fn number_of(id: &TaskId) -> Option<u64> {
    let text = id.as_str();
    let is_number = text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
