//! The reporting of a process: its events, and the parts of its log that handlers and submit
//! services share.

use std::sync::Arc;

use delayq_core::{Clock, DelayQueueJob, Error};

use crate::events::EventHub;
use crate::metric::Metrics;
use crate::outage::OutageLog;
use crate::skew_log::SkewLog;
use crate::tally::Tallies;
use crate::unserved::UnservedLog;

/// The reports of one process.
#[derive(Clone, Debug)]
pub(crate) struct Telemetry {
    pub(crate) hub: EventHub,
    pub(crate) outages: OutageLog,
    pub(crate) skew: Arc<SkewLog>,
    pub(crate) tallies: Tallies,
    /// `None` for a service created by hand, possibly for a single task.
    pub(crate) unserved: Option<UnservedLog>,
    /// `None` if metrics were not asked for.
    pub(crate) metrics: Option<Metrics>,
}

impl Telemetry {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self {
            hub: EventHub::new(Arc::clone(clock)),
            outages: OutageLog::new(Arc::clone(clock)),
            skew: Arc::default(),
            tallies: Tallies::new(Arc::clone(clock)),
            unserved: None,
            metrics: None,
        }
    }

    /// Also warns of types that nobody serves.
    pub(crate) fn with_unserved(mut self, clock: Arc<dyn Clock>) -> Self {
        self.unserved = Some(UnservedLog::new(clock));
        self
    }

    /// Also counts for the metrics.
    pub(crate) fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Counts the errors of a job that does not reach the store.
    pub(crate) fn refusals(&self, job: &DelayQueueJob) -> impl Fn(&Error) + use<> {
        let metrics = self.metrics.clone();
        let counted = metrics.map(|metrics| (metrics, job.task_type().to_owned()));
        move |error| {
            if let Some((metrics, task_type)) = &counted {
                metrics.sends_of_name(task_type).sent(Err(error));
            }
        }
    }
}
