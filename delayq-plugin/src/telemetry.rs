//! What a process reports with: its events, and the parts of its log that handlers and submit
//! services share.

use std::sync::Arc;

use delayq_core::Clock;

use crate::events::EventHub;
use crate::outage::OutageLog;
use crate::skew_log::SkewLog;
use crate::unserved::UnservedLog;

/// The reports of one process.
#[derive(Clone, Debug)]
pub(crate) struct Telemetry {
    pub(crate) hub: EventHub,
    pub(crate) outages: OutageLog,
    pub(crate) skew: Arc<SkewLog>,
    pub(crate) unserved: UnservedLog,
}

impl Telemetry {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            hub: EventHub::new(Arc::clone(&clock)),
            outages: OutageLog::new(Arc::clone(&clock)),
            skew: Arc::default(),
            unserved: UnservedLog::new(clock),
        }
    }
}
