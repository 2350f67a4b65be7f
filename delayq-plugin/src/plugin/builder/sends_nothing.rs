//! Refuses sends without a store.

use async_trait::async_trait;
use delayq_core::{DelayQueueJob, Error, Result};

use crate::middleware::Middleware;

/// Refuses every send of workers without a store: the tasks would be lost.
#[derive(Debug)]
pub(super) struct SendsNothing;

#[async_trait]
impl Middleware for SendsNothing {
    async fn on_submit(&self, _job: DelayQueueJob) -> Result<DelayQueueJob> {
        let reason = "these workers have no store: give their builder the URL of the server, such as \
                      delayq://TOKEN@HOST:7880/NAMESPACE";
        Err(Error::invalid("send", reason))
    }
}
