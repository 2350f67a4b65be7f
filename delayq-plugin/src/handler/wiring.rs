//! Connections between a handler and the set that it belongs to.

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

/// Whether to go on; sent to all handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// Nothing more is claimed, and the workers are stopped at this `Clock::elapsed`.
    Stopping(Duration),
}

/// What a handler found out that concerns the set of handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A bucket of this type takes no new tasks any more: the type has other ones.
    Sealed(TaskType),
    /// The handler of this bucket has ended, as nothing will ever be in it again.
    Drained(Bucket),
    /// The store has lost data, perhaps its list of types.
    StoreLostData,
}

/// What a handler shares with the set that made it.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    /// Who claims.
    pub(crate) instance: InstanceId,
    pub(crate) status: Status,
    pub(crate) wake: Arc<Notify>,
    pub(crate) phase: watch::Receiver<Phase>,
    /// The same, for the type alone.
    pub(crate) type_phase: watch::Receiver<Phase>,
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    pub(crate) skew_log: Arc<SkewLog>,
    pub(crate) idleness: IdlenessReport,
    /// The shutdown awaits its drop, with the handler.
    pub(crate) _alive: TaskTrackerToken,
}

impl Wiring {
    /// When the workers are to be stopped, if a shutdown has begun, or the type is served no more.
    pub(crate) fn stop_at(&self) -> Option<Duration> {
        let phases = [*self.phase.borrow(), *self.type_phase.borrow()];
        let ends = phases.into_iter().filter_map(|phase| match phase {
            Phase::Running => None,
            Phase::Stopping(at) => Some(at),
        });
        ends.min()
    }

    pub(crate) fn notify(&self, notice: Notice) {
        // Without a dispatcher the plugin is gone.
        let _ = self.notices.send(notice);
    }
}
