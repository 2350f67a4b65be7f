//! Health of a running plugin.

use std::time::Duration;

use delayq_core::operate::TypeStats;
use delayq_core::store::{Bucket, Concern};
use delayq_core::time::duration_ms;
use delayq_core::{Error, TaskType};
use serde::{Serialize, Serializer};

use crate::clock_skew::ClockSkew;
use crate::history::HistoryHealth;

#[allow(clippy::ref_option, reason = "serde passes the field")]
fn millis<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(duration_ms).serialize(serializer)
}

/// The state of a running plugin, see
/// [`DelayQueuePlugin::health`](crate::DelayQueuePlugin::health).
///
/// In JSON, errors are text and durations are in milliseconds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// The store's name.
    pub store: String,
    /// The problem with the store, if any.
    pub store_error: Option<Error>,
    /// What becomes a problem of the store later: [`is_ok`](Self::is_ok) stays true.
    pub concerns: Vec<Concern>,
    /// The history, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryHealth>,
    /// One entry for each type served here; for a sharded type, one for each shard.
    pub handlers: Vec<HandlerHealth>,
    /// Types in the store that no worker here serves. They are left alone, as another instance may
    /// serve them.
    pub unserved: Vec<UnservedType>,
}

impl Health {
    /// True if the store is sound and the last call of every handler reached it.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.store_error.is_none() && self.handlers.iter().all(HandlerHealth::is_ok)
    }
}

/// The state of one handler.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HandlerHealth {
    /// The type it serves.
    pub task_type: TaskType,
    /// Its bucket: the whole type, or one shard of it.
    pub bucket: Bucket,
    /// Workers running now.
    pub running: usize,
    /// Attempts handed to the application's runtime since the plugin was started.
    pub started: u64,
    /// Attempts settled since the plugin was started.
    pub settled: u64,
    /// Attempts that failed since the plugin was started. For an at-most-once type each is a task
    /// whose work was not done.
    pub failed: u64,
    /// Tasks that this handler sent to dead since the plugin was started.
    pub dead: u64,
    /// Locks lost since the plugin was started.
    pub locks_lost: u64,
    /// Calls to the store that failed since the last one that succeeded.
    pub failures_in_a_row: u32,
    /// The error of the last failed call.
    pub last_error: Option<Error>,
    /// Time since the last claim that succeeded; `None` before the first.
    #[serde(rename = "since_last_claim_ms", serialize_with = "millis")]
    pub since_last_claim: Option<Duration>,
    /// Why the handler runs nothing any more, if so: a shutdown, or the end of the runtime that its
    /// workers run on.
    pub stopped: Option<&'static str>,
    /// The difference between the store's clock and this host's, if above 500 ms.
    pub clock_skew: Option<ClockSkew>,
    /// How often the store was found to have lost data since the plugin was started: emptied by
    /// somebody, or replaced by an older copy. The handler recovers at once: [`is_ok`](Self::is_ok)
    /// stays true.
    pub store_losses: u32,
    /// The last loss of data, in words.
    pub last_store_loss: Option<String>,
}

impl HandlerHealth {
    pub(crate) fn new(bucket: Bucket) -> Self {
        Self {
            task_type: bucket.task_type().clone(),
            bucket,
            running: 0,
            started: 0,
            settled: 0,
            failed: 0,
            dead: 0,
            locks_lost: 0,
            failures_in_a_row: 0,
            last_error: None,
            since_last_claim: None,
            stopped: None,
            clock_skew: None,
            store_losses: 0,
            last_store_loss: None,
        }
    }

    /// True if the handler runs, its last call to the store succeeded, and the clocks agree.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.stopped.is_none() && self.failures_in_a_row == 0 && self.clock_skew.is_none()
    }
}

/// A type that is in the store and that nobody here serves.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct UnservedType {
    /// The type.
    pub task_type: TaskType,
    /// Its counts, unless the store did not answer.
    pub stats: Option<TypeStats>,
}
