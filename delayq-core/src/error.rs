//! The error type of this crate.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::state::TaskState;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call failed.
///
/// Callers decide by the predicates ([`Error::is_transient`], [`Error::is_indeterminate`]). The
/// message is for people: it names the subject, the limit and what to do.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A namespace, task type, task id or header does not have the allowed form.
    #[error("invalid {what} {value:?}: {reason}")]
    InvalidName {
        /// The kind of name: `namespace`, `task type`, `task id`, `header`.
        what: &'static str,
        /// The value, shortened for printing.
        value: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// A number or a size is outside its limit.
    #[error("{what} is {actual}, the limit is {limit}")]
    LimitExceeded {
        /// The quantity, with its unit.
        what: &'static str,
        /// The value given.
        actual: u64,
        /// The largest value allowed.
        limit: u64,
    },
    /// An invalid setting, URL or argument.
    #[error("invalid {what}: {reason}")]
    InvalidInput {
        /// The kind of input: `URL`, `setting`, `argument` or the like.
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
        /// The number of shards it has or would get.
        shards: u32,
    },
    /// No listed task type has this name, or matches this pattern. Nothing changed.
    #[error("there is no task type {types}{}", meant(nearest.as_deref()))]
    UnknownType {
        /// The name or the pattern.
        types: String,
        /// The listed type whose name is most like it, if one is.
        nearest: Option<String>,
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
        /// The state of the existing task.
        state: TaskState,
    },
    /// The attempt cannot end its task. What it has done in a transaction is to be rolled back.
    #[error(
        "task {id:?} of type {task_type} cannot be settled: {reason}; roll the transaction back"
    )]
    LockLost {
        /// The type.
        task_type: String,
        /// The id.
        id: String,
        /// Who has ended it, or has its lock.
        reason: &'static str,
    },
    /// The database refused a call in a transaction of the application. Most databases refuse
    /// everything else in this transaction, too: it is to be rolled back.
    #[error("the database refused a call in the transaction, which must be rolled back: {detail}")]
    Transaction {
        /// The words of the database, with its hint.
        detail: String,
    },
    /// The message could not be written as JSON.
    #[error("the message cannot be written as JSON: {reason}")]
    Serialize {
        /// serde's message.
        reason: String,
    },
    /// The store cannot be reached or is busy. Certainly not applied; try again.
    #[error("{store} is unavailable: {detail}")]
    Unavailable {
        /// The store, as a URL without secrets or a path.
        store: String,
        /// The error of the operating system, client or server.
        detail: String,
    },
    /// The answer was lost: the call may have been applied. Repeating it is safe (same ids, same
    /// locks).
    #[error(
        "{store} did not answer: {detail}; it may have been applied, repeat it with the same id"
    )]
    Indeterminate {
        /// The store.
        store: String,
        /// The reason why there is no answer.
        detail: String,
    },
    /// The store has no room left. Certainly not applied.
    #[error("{store} is full: {detail}")]
    Full {
        /// The store.
        store: String,
        /// The full resource, and what to do.
        detail: String,
    },
    /// A type has reached its limit of scheduled tasks. Certainly not applied.
    #[error(
        "task type {task_type} is full: {pending} tasks are scheduled, max_pending is {limit}; \
         send it again later"
    )]
    QueueFull {
        /// The type.
        task_type: String,
        /// Its scheduled tasks.
        pending: u64,
        /// Its limit.
        limit: u64,
    },
    /// The store takes no writes. Certainly not applied.
    #[error("{store} is read-only: {detail}")]
    ReadOnly {
        /// The store.
        store: String,
        /// The reason, and what to do.
        detail: String,
    },
    /// The store's settings break a guarantee; `fix` is the exact line to change.
    #[error("{store}: {setting}; {fix}")]
    Misconfigured {
        /// The store.
        store: String,
        /// The setting found, and why it is not acceptable.
        setting: String,
        /// The change to make.
        fix: String,
    },
    /// Stored data is damaged.
    #[error("{key} is corrupt: {detail}")]
    Corrupt {
        /// The place of the damage.
        key: String,
        /// The kind of damage.
        detail: String,
    },
    /// Stored data has a version that this release cannot read.
    #[error(
        "{what} has format version {found}, this release reads up to {supported}: upgrade delayq"
    )]
    Incompatible {
        /// The data.
        what: String,
        /// The version found.
        found: u32,
        /// The newest supported version.
        supported: u32,
    },
    /// A call was made outside a tokio runtime, which it needs for its time limit.
    #[error("no tokio runtime here: call it within one, for example under #[tokio::main]")]
    NoRuntime,
    /// A test queue that runs tasks inline accepted the task and ran it, and it failed.
    #[error("task {id:?} of type {task_type} was accepted and has failed: {error}")]
    TaskFailed {
        /// The type.
        task_type: String,
        /// The id.
        id: String,
        /// The worker's error.
        error: String,
    },
    /// The store or the plugin has been shut down.
    #[error("{0} has been shut down")]
    Closed(&'static str),
}

/// The same text as `Display`, because a `main` that returns an error prints it with `Debug`.
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

/// The name that was probably meant, as a question.
fn meant(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!(": did you mean {name}?"))
}

/// The way out for the sender.
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
    /// An invalid setting, URL or argument; `reason` says what to write instead.
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

    /// The store's settings break a guarantee; `fix` is the exact line to change.
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

    /// The database refused a call in a transaction of the application.
    pub fn transaction(detail: impl fmt::Display) -> Self {
        Self::Transaction {
            detail: detail.to_string(),
        }
    }

    /// True if the same call may succeed later without any change.
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

    /// True if the call may have been applied although it failed.
    #[must_use]
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Indeterminate { .. })
    }
}

/// The error of a TLS library, with a code that says nothing to people put into words.
#[must_use]
pub fn readable_tls(text: &str) -> Cow<'_, str> {
    const CODE: &str = "Other(OtherError(CaUsedAsEndEntity))";
    if !text.contains(CODE) {
        return Cow::Borrowed(text);
    }
    let words = "it is that of an authority (CA:TRUE), as `openssl req -x509` makes it: a server or \
                 client needs one of its own, with basicConstraints CA:FALSE";
    Cow::Owned(text.replace(CODE, words))
}
