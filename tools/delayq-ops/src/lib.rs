//! Operations for people who run delayq, shared by the command line, the web page and the server.
//!
//! - [`overview`]: all types at a glance, with their problems.
//! - [`explain`]: why a task has not started, or started late, in one sentence.
//! - [`timeline`]: the known events of a task, in order.
//! - [`forecast`]: the number of tasks that fall due, by time.
//! - [`known_type`]: a type by its name, or the name that was probably meant.
//! - [`doctor()`]: problems of a store and its instances, and the lines to change.
//! - [`dead_groups`]: dead tasks by error.
//! - [`recurring()`]: the recurring tasks of a store, with their next occurrences.
//! - [`Search`]: types and tasks by a text.
//! - [`Operator`]: changes tasks and types by hand, each with an entry in the log of actions.
//! - [`export`], [`import`] and [`copy`]: tasks as lines of JSON, and from store to store.
//! - [`is_same_site`]: whether a request of a browser comes from a page of the same site.
//! - [`LmstfyImport`]: the jobs that wait in a running lmstfy, moved into a store.
//!
//! Each takes a [`TaskSubmitService`](delayq_plugin::TaskSubmitService), returns values that are
//! `Serialize`, and prints nothing. Only `import`, `copy` and an `Operator` change anything. In
//! JSON, times are milliseconds since the epoch, and spans are milliseconds, in fields that end in
//! `_ms`.
//!
//! Errors come from the store, see [`Error`](delayq_plugin::Error).

mod dead;
mod doctor;
mod explain;
mod forecast;
#[doc(hidden)]
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod known_type;
mod lmstfy;
mod look;
mod operator;
mod overview;
mod recurring;
mod same_site;
mod search;
mod selection;
mod span;
mod text;
mod timeline;
mod transfer;

pub use dead::{DeadGroup, DeadGroups, dead_group_counts, dead_groups};
pub use doctor::{Finding, Severity, Symptom, concerns, doctor, doctor_at, examine, quoted};
pub use explain::{Cause, Explanation, Holder, OldestRun, Pace, explain};
pub use forecast::{Forecast, ForecastBucket, forecast};
pub use known_type::{known_type, known_types, known_types_among, nearest};
pub use lmstfy::{
    LMSTFY_ATTRIBUTE, LMSTFY_TRIES, LmstfyError, LmstfyImport, LmstfyReport, lmstfy_type,
};
pub use operator::{DeadSelection, Operator, forget_history};
pub use overview::{
    MAX_OVERVIEW_TYPES, Overview, Trouble, TypeOverview, overview, overview_of, overview_of_all,
};
pub use recurring::{RecurringTask, RecurringTasks, recurring};
pub use same_site::is_same_site;
pub use search::{
    MAX_FOUND, MAX_SEARCH_CALLS, MAX_SEARCHED, Search, SearchHit, SearchPlace, SearchResults,
};
pub use span::{read_pace, read_rate};
pub use text::is_invisible;
pub use timeline::{Moment, MomentKind, timeline};
pub use transfer::{
    DeadTasks, Progress, Rejected, TransferError, TransferFault, TransferReport, copy, export,
    import,
};
