//! How the plugin is doing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_core::store::TypeStats;
use delayq_core::{Error, TaskType};

/// The state of a running plugin, see [`DelayQueuePlugin::health`](crate::DelayQueuePlugin::health).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The store's name.
    pub store: String,
    /// What is wrong with the store, if anything.
    pub store_error: Option<Error>,
    /// One for each type served here.
    pub handlers: Vec<HandlerHealth>,
    /// Types in the store that no worker here serves. Left alone: another instance may.
    pub unserved: Vec<UnservedType>,
}

impl Health {
    /// Whether the store is sound and every handler has reached it with its last call.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.store_error.is_none() && self.handlers.iter().all(HandlerHealth::is_ok)
    }
}

/// The state of one handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerHealth {
    /// The type it serves.
    pub task_type: TaskType,
    /// Workers under way.
    pub running: usize,
    /// Attempts handed to the application's runtime since the plugin was started.
    pub started: u64,
    /// Attempts settled since the plugin was started.
    pub settled: u64,
    /// Locks lost since the plugin was started.
    pub locks_lost: u64,
    /// Calls to the store that failed since the last one that succeeded.
    pub failures_in_a_row: u32,
    /// What the last of them said.
    pub last_error: Option<Error>,
    /// Time since the last claim that succeeded; `None` before the first.
    pub since_last_claim: Option<Duration>,
    /// Why it runs nothing any more, if so: a shutdown, or the end of the runtime that workers run on.
    pub stopped: Option<&'static str>,
    /// How far the store's clock runs ahead of this process's, when that holds tasks back; else zero.
    pub clock_skew: Duration,
    /// How often the store was found to have lost data since the plugin was started: emptied by somebody, or
    /// replaced by an older copy. Over at once, so it does not make [`is_ok`](Self::is_ok) false.
    pub store_losses: u32,
    /// What was found the last time.
    pub last_store_loss: Option<String>,
}

impl HandlerHealth {
    /// Whether it runs, its last call to the store succeeded, and the clocks agree.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.stopped.is_none() && self.failures_in_a_row == 0 && self.clock_skew.is_zero()
    }
}

/// A type that the store knows and nobody here serves.
#[derive(Clone, Debug)]
pub struct UnservedType {
    /// The type.
    pub task_type: TaskType,
    /// Its counts, unless the store could not be asked.
    pub stats: Option<TypeStats>,
}

/// What a handler lets others see; shared between its thread and `health()`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    shared: Arc<Mutex<Counters>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) running: usize,
    pub(crate) started: u64,
    pub(crate) settled: u64,
    pub(crate) locks_lost: u64,
    pub(crate) failures_in_a_row: u32,
    pub(crate) last_error: Option<Error>,
    /// `Clock::elapsed` when the last claim was sent.
    pub(crate) claimed_at: Option<Duration>,
    pub(crate) clock_skew: Duration,
    pub(crate) stopped: Option<&'static str>,
    pub(crate) store_losses: u32,
    pub(crate) last_store_loss: Option<String>,
}

impl Status {
    pub(crate) fn update(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes why the handler stops; returns how many workers are under way.
    pub(crate) fn stopping(&self, why: &'static str) -> usize {
        let mut running = 0;
        self.update(|counters| {
            counters.stopped = Some(why);
            running = counters.running;
        });
        running
    }

    pub(crate) fn health(&self, task_type: TaskType, elapsed: Duration) -> HandlerHealth {
        let counters = self
            .shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        HandlerHealth {
            task_type,
            running: counters.running,
            started: counters.started,
            settled: counters.settled,
            locks_lost: counters.locks_lost,
            failures_in_a_row: counters.failures_in_a_row,
            last_error: counters.last_error,
            since_last_claim: counters.claimed_at.map(|at| elapsed.saturating_sub(at)),
            clock_skew: counters.clock_skew,
            stopped: counters.stopped,
            store_losses: counters.store_losses,
            last_store_loss: counters.last_store_loss,
        }
    }
}
