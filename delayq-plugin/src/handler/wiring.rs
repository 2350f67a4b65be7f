//! Connections between a handler and its handler set.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::TaskType;
use delayq_core::presence::InstanceId;
use delayq_core::store::Bucket;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::idleness::IdlenessReport;
use crate::skew_log::SkewLog;
use crate::status::Status;

/// The phase of all handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// No more claims; the workers are stopped at this `Clock::elapsed`.
    Stopping(Duration),
}

/// A handler's message to its set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A bucket of this type takes no new tasks any more: the type has other buckets now.
    Sealed(TaskType),
    /// The handler of this bucket has ended, as no task will ever be in it again.
    Drained(Bucket),
    /// The store has lost data, possibly its list of types.
    StoreLostData,
}

/// The values that a handler shares with the set that created it.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    /// The holder of the handler's claims.
    pub(crate) instance: InstanceId,
    pub(crate) status: Status,
    pub(crate) wake: Arc<Notify>,
    pub(crate) phase: watch::Receiver<Phase>,
    /// The phase of this type alone.
    pub(crate) type_phase: watch::Receiver<Phase>,
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    pub(crate) skew_log: Arc<SkewLog>,
    pub(crate) idleness: IdlenessReport,
    /// A shutdown waits until this is dropped with the handler.
    pub(crate) _alive: TaskTrackerToken,
}

impl Wiring {
    /// The time to stop the workers, if a shutdown has begun or the type is no longer served.
    pub(crate) fn stop_at(&self) -> Option<Duration> {
        let phases = [*self.phase.borrow(), *self.type_phase.borrow()];
        let ends = phases.into_iter().filter_map(|phase| match phase {
            Phase::Running => None,
            Phase::Stopping(at) => Some(at),
        });
        ends.min()
    }

    pub(crate) fn notify(&self, notice: Notice) {
        // An error means that there is no dispatcher: the plugin is gone.
        let _ = self.notices.send(notice);
    }
}
