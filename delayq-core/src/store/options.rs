//! Options for opening any store.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::name::Namespace;

/// How long a store remembers a task that has ended, by default.
pub const DEFAULT_RETENTION: Duration = Duration::from_mins(10);

/// Minimum number of ended tasks of one type that a store remembers, by default.
pub const DEFAULT_REMEMBERED: usize = 50_000;

/// The largest [`StoreOptions::remembered`].
pub const MAX_REMEMBERED: usize = 1_000_000;

/// The longest call timeout.
pub const MAX_CALL_TIMEOUT: Duration = Duration::from_hours(24);

/// What an acknowledged submit survives, from weakest to strongest.
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
    /// The name of the class as written in a store URL: `memory`, `process`, `disk`, `replicated`.
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

/// Parses the name returned by [`Durability::as_str`].
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

/// Minimum of [`StoreOptions::history_buffer`].
const MIN_HISTORY_BUFFER: u64 = 1 << 20;

/// The options for opening any store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The namespace of the store; default `default`.
    pub namespace: Namespace,
    /// The weakest acceptable class of an acknowledgement; default [`Durability::Process`]. A store
    /// that cannot provide it refuses to open, and says what to change.
    pub durability: Durability,
    /// How long ended tasks are remembered; default [`DEFAULT_RETENTION`]; zero: not at all.
    pub retention: Duration,
    /// The minimum number of ended tasks of a type, or of each shard, that are remembered, 1 to
    /// [`MAX_REMEMBERED`]; default [`DEFAULT_REMEMBERED`]. Beyond this number the oldest are
    /// forgotten before their retention is over (a store may keep up to twice as many): a request
    /// that is repeated after that runs again. [`TypeStats::remembered_since`] tells the real span.
    /// On Redis each takes about 110 bytes plus its id.
    ///
    /// [`TypeStats::remembered_since`]: crate::operate::TypeStats::remembered_since
    pub remembered: usize,
    /// The time limit of one call; default 5 s. The largest batches take milliseconds, so a longer
    /// wait means that the store is down. At least 1 ms; more than a day counts as a day.
    pub call_timeout: Duration,
    /// The maximum size in bytes of the recorded [ends](crate::history::Ends) that wait to be
    /// shipped, at least 1 MiB. It is kept in the store and holds for all its users. Default
    /// `None`: as the store has it, at first [`DEFAULT_HISTORY_BUFFER`], on Redis less. At the
    /// bound the oldest records are dropped, and counted.
    ///
    /// [`DEFAULT_HISTORY_BUFFER`]: crate::history::DEFAULT_HISTORY_BUFFER
    pub history_buffer: Option<u64>,
}

impl StoreOptions {
    /// The options with every value within its limits, as a store uses them.
    ///
    /// # Errors
    /// `InvalidInput` if no call could be answered in time, or if the number of remembered tasks or
    /// the history buffer is out of range.
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
        let possible = MIN_HISTORY_BUFFER..=i64::MAX.unsigned_abs();
        if let Some(buffer) = self.history_buffer
            && !possible.contains(&buffer)
        {
            let reason = format!("{buffer} bytes: give at least {MIN_HISTORY_BUFFER} (1 MiB)");
            return Err(Error::invalid("history buffer", reason));
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
            history_buffer: None,
        }
    }
}
