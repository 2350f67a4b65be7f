//! One look at a type, together with the clocks.

use delayq_plugin::{ClockSkew, Result, TaskSubmitService, Timestamp, TypeStats};

/// The counts of a type, and the difference between the clocks when they were read.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) stats: TypeStats,
    /// This host's time after the answer.
    pub(crate) host_now: Timestamp,
    pub(crate) skew: Option<ClockSkew>,
}

impl Look {
    pub(crate) async fn at(tasks: &TaskSubmitService, task_type: &str) -> Result<Self> {
        let before = tasks.clock().now();
        let stats = tasks.stats(task_type).await?;
        let host_now = tasks.clock().now();
        let skew = ClockSkew::between(stats.now, before, host_now);
        Ok(Self {
            stats,
            host_now,
            skew,
        })
    }
}
