//! One handler of the set.

use std::sync::Arc;

use delayq_core::store::Bucket;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::error;

use super::thread::SchedulerThread;
use crate::handler::{DelayBucketHandler, Idleness, Wiring};
use crate::status::Status;
use crate::type_context::TypeContext;

/// A handler as seen by its set.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) wake: Arc<Notify>,
    pub(super) status: Status,
    pub(super) idleness: watch::Receiver<Idleness>,
    /// Taken by the shutdown that awaits it.
    pub(super) ended: Option<JoinHandle<()>>,
}

impl Member {
    pub(super) fn start(
        bucket: Bucket,
        context: Arc<TypeContext>,
        wiring: Wiring,
        thread: &SchedulerThread,
    ) -> Self {
        Self {
            wake: Arc::clone(&wiring.wake),
            status: wiring.status.clone(),
            idleness: wiring.idleness.subscribe(),
            ended: Some(thread.spawn(supervise(bucket, context, wiring))),
        }
    }
}

/// Runs the handler of one bucket. If it panics, which would be a defect of delayq, the bucket must
/// not stall: its locks are left to expire and a new handler takes over.
async fn supervise(bucket: Bucket, context: Arc<TypeContext>, wiring: Wiring) {
    loop {
        let handler = DelayBucketHandler::new(bucket.clone(), Arc::clone(&context), wiring.clone());
        let Err(error) = tokio::spawn(handler.run()).await else {
            return;
        };
        wiring.status.update(|health| health.failures_in_a_row += 1);
        error!(%bucket, %error, "a handler ended abnormally; starting another");
        let pause = context.clock.elapsed().saturating_add(context.poll);
        context.clock.sleep_until(pause).await;
    }
}
