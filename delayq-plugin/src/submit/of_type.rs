//! What the store does to a type, and what it is asked.

use std::time::Duration;

use delayq_core::operate::{AuditReport, Cursor, DeadFilter, Page, TypeSettings, TypeStats};
use delayq_core::presence::InstanceInfo;
use delayq_core::{Result, TaskId, TaskInfo, TaskState, TaskType, Timestamp};

use super::TaskSubmitService;
use crate::bulk::{self, TaskFilter};

/// Operations on a type, which the store does; the name of the type is validated first.
macro_rules! of_a_type {
    ($($(#[$doc:meta])* $name:ident[$($arg:ident: $ty:ty),*] -> $out:ty;)*) => {
        impl TaskSubmitService {$(
            $(#[$doc])*
            pub async fn $name(&self, task_type: &str, $($arg: $ty),*) -> Result<$out> {
                self.store.$name(&TaskType::new(task_type)?, $($arg),*).await
            }
        )*}
    };
}

/// Reads of the store; the names of the task are validated first.
macro_rules! reads {
    ($($(#[$doc:meta])* $name:ident[$($arg:ident: $id:ty),*] -> $out:ty;)*) => {
        impl TaskSubmitService {$(
            $(#[$doc])*
            pub async fn $name(&self, $($arg: &str),*) -> Result<$out> {
                self.store.$name($(&<$id>::new($arg)?),*).await
            }
        )*}
    };
}

/// Operations on the listed types that a pattern matches, which the functions of `bulk` do.
macro_rules! of_types {
    ($($(#[$doc:meta])* $name:ident[$($arg:ident: $ty:ty),*] -> $out:ty;)*) => {
        impl TaskSubmitService {$(
            $(#[$doc])*
            pub async fn $name(&self, types: &str, $($arg: $ty),*) -> Result<$out> {
                bulk::$name(&*self.store, types, $($arg),*).await
            }
        )*}
    };
}

of_types! {
    /// How many tasks of a type match, or of the listed types that a pattern such as `remind.*`
    /// matches. Reads all tasks of these types that are in the filter's state, in
    /// pages: beside tasks that come and go the number is not exact.
    ///
    /// # Errors
    /// `InvalidInput` for a filter that cannot be meant, and as for every call.
    count[filter: &TaskFilter] -> u64;

    /// Starts nothing of these types until `until`, or until [`resume`](Self::resume) when `None`.
    /// Returns which types that is. A type that appears later is not paused.
    ///
    /// # Errors
    /// `InvalidInput` for a time that has passed by the store's clock, of which nothing is paused;
    /// and as for every call. Types before the one that failed are paused; the call can be
    /// repeated.
    pause[until: Option<Timestamp>] -> Vec<TaskType>;

    /// Ends the pauses of these types. Returns which types that is.
    ///
    /// # Errors
    /// As for [`pause`](Self::pause).
    resume[] -> Vec<TaskType>;
}

reads! {
    /// What is known of a task; `None` when there is none, or it ended longer ago than the
    /// retention.
    ///
    /// # Errors
    /// As for every call.
    find[task_type: TaskType, id: TaskId] -> Option<TaskInfo>;

    /// Every type that was ever served or sent to, sorted.
    ///
    /// # Errors
    /// As for every call.
    types[] -> Vec<TaskType>;

    /// The plugins that work on this store and namespace now, in the order of their starts.
    ///
    /// # Errors
    /// As for every call.
    instances[] -> Vec<InstanceInfo>;
}

of_a_type! {
    /// A page of the tasks of a type in `state`; pass the page's `next` for the next. Ended ones
    /// come the latest first.
    ///
    /// # Errors
    /// As for every call.
    list[state: TaskState, cursor: Option<&Cursor>, limit: usize] -> Page;

    /// Counts, next due time, and pause of a type.
    ///
    /// # Errors
    /// As for every call.
    stats[] -> TypeStats;

    /// Changes settings of a type in the store, for everybody at once; what is not named stays.
    ///
    /// # Errors
    /// As for every call.
    configure_type[settings: &TypeSettings] -> ();

    /// How many tasks are due in each of `steps` equal parts of `from..to`: the forecast.
    ///
    /// # Errors
    /// `InvalidInput` for an empty range or a bad number of steps, and as for every call.
    due_histogram[from: Timestamp, to: Timestamp, steps: usize] -> Vec<u64>;

    /// Schedules dead tasks again, their attempts counted anew: the first now, each next one
    /// `interval` later (zero: all now). Returns which.
    ///
    /// # Errors
    /// As for every call.
    requeue_dead[filter: &DeadFilter, interval: Duration] -> Vec<TaskId>;

    /// Removes dead tasks for good. Returns which.
    ///
    /// # Errors
    /// As for every call.
    discard_dead[filter: &DeadFilter] -> Vec<TaskId>;

    /// Removes every scheduled or dead task of a type, or forgets its ended ones. Returns how many.
    ///
    /// # Errors
    /// `InvalidInput` for running tasks, and as for every call.
    purge[state: TaskState] -> u64;

    /// Removes a type that has no tasks from the list of types, with its settings, its pause and
    /// what is remembered of ended tasks. A task sent at the same time or later is kept and lists
    /// it again, and so does an instance with a worker of exactly this type.
    ///
    /// # Errors
    /// `TypeInUse` while it has scheduled, running or dead tasks, `InvalidInput` for one that was
    /// sharded, and as for every call.
    drop_type[] -> ();

    /// Checks the stored structure of a type, and mends it with `repair`.
    ///
    /// # Errors
    /// As for every call.
    audit[repair: bool] -> AuditReport;
}
