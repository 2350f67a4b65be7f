//! The service's methods on types: operations and reads of the store.

use std::time::Duration;

use delayq_core::operate::{AuditReport, Cursor, DeadFilter, Page, TypeSettings, TypeStats};
use delayq_core::presence::InstanceInfo;
use delayq_core::{Result, TaskId, TaskInfo, TaskState, TaskType, Timestamp};

use super::TaskSubmitService;
use crate::bulk::{self, TaskFilter};

/// Operations on a type by the store. The name of the type is validated first.
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

/// Reads of the store. The names in the call are validated first.
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

/// Operations on the listed types that a pattern matches, implemented in `bulk`.
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
    /// The number of tasks that match, of one type or of the listed types that a pattern such as
    /// `remind.*` matches. Reads all tasks of these types in the filter's state, page by page:
    /// while tasks come and go, the number is not exact.
    ///
    /// # Errors
    /// `InvalidInput` for a contradictory filter, and as for every call.
    count[filter: &TaskFilter] -> u64;

    /// Pauses these types until `until`, or until [`resume`](Self::resume) if `None`: none of their
    /// tasks start. Returns the types. A type that appears later is not paused.
    ///
    /// # Errors
    /// `InvalidInput` for a time that has passed by the store's clock (nothing is paused then); and
    /// as for every call. Types before the one that failed are paused; the call can be repeated.
    pause[until: Option<Timestamp>] -> Vec<TaskType>;

    /// Ends the pauses of these types. Returns the types.
    ///
    /// # Errors
    /// As for [`pause`](Self::pause).
    resume[] -> Vec<TaskType>;
}

reads! {
    /// A task's record; `None` if there is no such task, or if it ended longer ago than the
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

    /// The plugins running on this store and namespace, in the order of their starts.
    ///
    /// # Errors
    /// As for every call.
    instances[] -> Vec<InstanceInfo>;
}

of_a_type! {
    /// A page of the tasks of a type in `state`; pass a page's `next` to get the following page.
    /// Ended tasks are listed latest first.
    ///
    /// # Errors
    /// As for every call.
    list[state: TaskState, cursor: Option<&Cursor>, limit: usize] -> Page;

    /// Counts, next due time, and pause of a type.
    ///
    /// # Errors
    /// As for every call.
    stats[] -> TypeStats;

    /// Changes settings of a type in the store, for all processes at once; settings that are not
    /// named keep their values.
    ///
    /// # Errors
    /// As for every call.
    configure_type[settings: &TypeSettings] -> ();

    /// The number of tasks due in each of `steps` equal parts of `from..to`: the forecast.
    ///
    /// # Errors
    /// `InvalidInput` for an empty range or a bad number of steps, and as for every call.
    due_histogram[from: Timestamp, to: Timestamp, steps: usize] -> Vec<u64>;

    /// Schedules dead tasks again with their attempts reset: the first now, each further one
    /// `interval` later (zero: all now). Returns their ids.
    ///
    /// # Errors
    /// As for every call.
    requeue_dead[filter: &DeadFilter, interval: Duration] -> Vec<TaskId>;

    /// Removes dead tasks for good. Returns their ids.
    ///
    /// # Errors
    /// As for every call.
    discard_dead[filter: &DeadFilter] -> Vec<TaskId>;

    /// Removes every scheduled or dead task of a type, or forgets its ended ones. Returns the
    /// number.
    ///
    /// # Errors
    /// `InvalidInput` for running tasks, and as for every call.
    purge[state: TaskState] -> u64;

    /// Removes a type that has no tasks from the list of types, with its settings, its pause and
    /// its records of ended tasks. A task sent at the same time or later is kept and lists the type
    /// again, and so does an instance with a worker of exactly this type.
    ///
    /// # Errors
    /// `TypeInUse` while it has scheduled, running or dead tasks, `InvalidInput` for a type that
    /// was sharded, and as for every call.
    drop_type[] -> ();

    /// Checks the stored structure of a type, and mends it with `repair`.
    ///
    /// # Errors
    /// As for every call.
    audit[repair: bool] -> AuditReport;
}
