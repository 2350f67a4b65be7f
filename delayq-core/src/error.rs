//! The error type of this crate.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::state::TaskState;

/// What a call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// Callers decide by the predicates ([`Error::is_transient`], [`Error::is_indeterminate`]); the
/// message is for people and names the thing, the limit and what to do.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A namespace, task type, task id or header is not of the allowed form.
    #[error("invalid {what} {value:?}: {reason}")]
    InvalidName {
        /// What was named: `namespace`, `task type`, `task id`, `header`.
        what: &'static str,
        /// The value, cut to a printable length.
        value: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A number or a size is outside its limit.
    #[error("{what} is {actual}, the limit is {limit}")]
    LimitExceeded {
        /// What was measured, with its unit.
        what: &'static str,
        /// The value given.
        actual: u64,
        /// The largest value allowed.
        limit: u64,
    },
    /// A setting, URL or argument that cannot be used.
    #[error("invalid {what}: {reason}")]
    InvalidInput {
        /// What was given: `URL`, `setting`, `argument` or the like.
        what: &'static str,
        /// The value or its rule, and what to write instead.
        reason: String,
    },
    /// The store does not have an optional operation.
    #[error("this store does not support {0}")]
    Unsupported(&'static str),
    /// A type has several shards and a fleet limit, which exclude each other.
    #[error(
        "task type {task_type} has {shards} shards and a fleet limit, which exclude each other: \
         remove fleet_concurrency and fleet_rate, or shards (a type that is sharded stays sharded)"
    )]
    FleetLimitOnShards {
        /// The type.
        task_type: String,
        /// How many shards it has or would get.
        shards: u32,
    },
    /// A type that has tasks cannot be dropped. Nothing changed.
    #[error(
        "task type {task_type} has {scheduled} scheduled, {running} running and {dead} dead tasks: \
         purge the scheduled and the dead ones and let the others end, then drop it"
    )]
    TypeInUse {
        /// The type.
        task_type: String,
        /// Its scheduled tasks.
        scheduled: u64,
        /// Its running tasks.
        running: u64,
        /// Its dead tasks.
        dead: u64,
    },
    /// Another task has this id. Nothing changed.
    #[error(
        "task {id:?} of type {task_type} exists already and is {state}: {}",
        way_out(*state)
    )]
    Conflict {
        /// The type.
        task_type: String,
        /// The id.
        id: String,
        /// Where the existing task is.
        state: TaskState,
    },
    /// The message could not be written as JSON.
    #[error("the message cannot be written as JSON: {reason}")]
    Serialize {
        /// What serde said.
        reason: String,
    },
    /// The store cannot be reached or is busy. Certainly not applied; try again.
    #[error("{store} is unavailable: {detail}")]
    Unavailable {
        /// Which store, as a URL without secrets or a path.
        store: String,
        /// What the operating system, client or server said.
        detail: String,
    },
    /// The answer was lost: the call may have been applied. Repeating it is safe (same ids, same
    /// locks).
    #[error(
        "{store} did not answer: {detail}; it may have been applied, repeat it with the same id"
    )]
    Indeterminate {
        /// Which store.
        store: String,
        /// What happened to the answer.
        detail: String,
    },
    /// The store has no room left. Certainly not applied.
    #[error("{store} is full: {detail}")]
    Full {
        /// Which store.
        store: String,
        /// What is full and what to do.
        detail: String,
    },
    /// A type has as many scheduled tasks as it may have. Certainly not applied.
    #[error(
        "task type {task_type} is full: {pending} tasks are scheduled, max_pending is {limit}; \
         send it again later"
    )]
    QueueFull {
        /// The type.
        task_type: String,
        /// Its scheduled tasks.
        pending: u64,
        /// The most that it may have.
        limit: u64,
    },
    /// The store takes no writes. Certainly not applied.
    #[error("{store} is read-only: {detail}")]
    ReadOnly {
        /// Which store.
        store: String,
        /// Why, and what to do.
        detail: String,
    },
    /// The store's settings break a promise; `fix` is the exact line to change.
    #[error("{store}: {setting}; {fix}")]
    Misconfigured {
        /// Which store.
        store: String,
        /// The setting found and why it will not do.
        setting: String,
        /// What to change.
        fix: String,
    },
    /// Stored data is damaged.
    #[error("{key} is corrupt: {detail}")]
    Corrupt {
        /// Where the damage is.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Stored data of a version that this release does not read.
    #[error(
        "{what} has format version {found}, this release reads up to {supported}: upgrade delayq"
    )]
    Incompatible {
        /// What was read.
        what: String,
        /// The version found.
        found: u32,
        /// The newest version that is understood.
        supported: u32,
    },
    /// A call was made outside of a tokio runtime, which its time limit needs.
    #[error("no tokio runtime here: call it within one, for example under #[tokio::main]")]
    NoRuntime,
    /// A queue for tests that runs tasks inline has accepted the task and run it, and it failed.
    #[error("task {id:?} of type {task_type} was accepted and has failed: {error}")]
    TaskFailed {
        /// The type.
        task_type: String,
        /// The id.
        id: String,
        /// What its worker said.
        error: String,
    },
    /// The store or the plugin has been shut down.
    #[error("{0} has been shut down")]
    Closed(&'static str),
}

/// The message, as `Display` has it: a `main` that returns an error prints this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The message as text.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What may be sent instead.
fn way_out(state: TaskState) -> &'static str {
    match state {
        TaskState::Scheduled | TaskState::Dead => "use another id, or replace() or keep()",
        TaskState::Running => {
            "add again_if_running() to run once more after it, or use another id, or keep()"
        }
        _ => "use another id",
    }
}

impl Error {
    /// A setting, URL or argument that cannot be used; `reason` says what to write instead.
    pub fn invalid(what: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what,
            reason: reason.into(),
        }
    }

    /// A message without a JSON form.
    pub fn serialize(error: impl std::fmt::Display) -> Self {
        Self::Serialize {
            reason: error.to_string(),
        }
    }

    /// The store cannot be reached or is busy: certainly not applied.
    pub fn unavailable(store: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Unavailable {
            store: store.into(),
            detail: detail.into(),
        }
    }

    /// The answer was lost: the call may have been applied.
    pub fn indeterminate(store: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Indeterminate {
            store: store.into(),
            detail: detail.into(),
        }
    }

    /// The store has no room left; `detail` says what is full and what to do.
    pub fn full(store: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Full {
            store: store.into(),
            detail: detail.into(),
        }
    }

    /// The store takes no writes; `detail` says why and what to do.
    pub fn read_only(store: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::ReadOnly {
            store: store.into(),
            detail: detail.into(),
        }
    }

    /// The store's settings break a promise; `fix` is the exact line to change.
    pub fn misconfigured(
        store: impl Into<String>,
        setting: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::Misconfigured {
            store: store.into(),
            setting: setting.into(),
            fix: fix.into(),
        }
    }

    /// The data at `key` is damaged.
    pub fn corrupt(key: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Corrupt {
            key: key.into(),
            detail: detail.into(),
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Indeterminate { .. }
                | Self::Full { .. }
                | Self::QueueFull { .. }
        )
    }

    /// Whether the call may have been applied although it failed.
    #[must_use]
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Indeterminate { .. })
    }
}
