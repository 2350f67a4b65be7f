//! Options that every store is opened with.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::name::Namespace;

/// How long a store remembers a task that has ended, by default.
pub const DEFAULT_RETENTION: Duration = Duration::from_mins(10);

/// How many ended tasks of one type a store remembers at least, by default.
pub const DEFAULT_REMEMBERED: usize = 50_000;

/// The largest [`StoreOptions::remembered`].
pub const MAX_REMEMBERED: usize = 1_000_000;

/// Longest time that a call may be given.
pub const MAX_CALL_TIMEOUT: Duration = Duration::from_hours(24);

/// What an acknowledged submit survives, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Durability {
    /// Lost with the store's process.
    Memory,
    /// Survives a crash of the store's process, not a power loss of its machine.
    Process,
    /// Survives a power loss of the store's machine: written to disk and synced before the answer.
    Disk,
    /// Survives the loss of a machine: acknowledged by a replica, too.
    Replicated,
}

impl Durability {
    /// The class's name as written in a store URL: `memory`, `process`, `disk`, `replicated`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Disk => "disk",
            Self::Replicated => "replicated",
        }
    }
}

/// Reads the name that [`Durability::as_str`] gives.
impl FromStr for Durability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let classes = [Self::Memory, Self::Process, Self::Disk, Self::Replicated];
        let class = classes.into_iter().find(|class| class.as_str() == name);
        class.ok_or_else(|| {
            let forms = "memory, process, disk or replicated";
            Error::invalid("durability", format!("{name:?} is not one of {forms}"))
        })
    }
}

/// What every store is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The namespace that the store serves; default `default`.
    pub namespace: Namespace,
    /// The weakest class that an acknowledgement may have; default [`Durability::Process`]. A store
    /// that cannot keep it refuses to open, and says what to change.
    pub durability: Durability,
    /// How long ended tasks are remembered; default [`DEFAULT_RETENTION`], zero: not at all.
    pub retention: Duration,
    /// How many ended tasks of a type, or of each shard of one, are remembered at least, 1 to
    /// [`MAX_REMEMBERED`]; default [`DEFAULT_REMEMBERED`]. Above this the oldest are forgotten
    /// before their retention is over (a store may keep up to twice as many): a request that is
    /// repeated after that runs again. [`TypeStats::remembered_since`] is the true span. On Redis
    /// each takes about 110 bytes and its id.
    ///
    /// [`TypeStats::remembered_since`]: crate::operate::TypeStats::remembered_since
    pub remembered: usize,
    /// How long one call may take before it fails; default 5 s. The largest batches take
    /// milliseconds, so a longer wait means that the store is down. At least 1 ms; more than a day
    /// counts as a day.
    pub call_timeout: Duration,
}

impl StoreOptions {
    /// The options with every value within its limits; a store opens with these.
    ///
    /// # Errors
    /// `InvalidInput` when no call could be answered in time, or as many ended tasks cannot be
    /// remembered.
    pub fn checked(self) -> Result<Self> {
        let timeout = self.call_timeout;
        if timeout < Duration::from_millis(1) {
            let reason = format!("{timeout:?} is too short: give at least 1 ms, better seconds");
            return Err(Error::invalid("call timeout", reason));
        }
        let remembered = self.remembered;
        if !(1..=MAX_REMEMBERED).contains(&remembered) {
            let reason = format!("{remembered} ended tasks: give 1 to {MAX_REMEMBERED}");
            return Err(Error::invalid("remembered", reason));
        }
        Ok(Self {
            call_timeout: timeout.min(MAX_CALL_TIMEOUT),
            ..self
        })
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            namespace: Namespace::default(),
            durability: Durability::Process,
            retention: DEFAULT_RETENTION,
            remembered: DEFAULT_REMEMBERED,
            call_timeout: Duration::from_secs(5),
        }
    }
}
