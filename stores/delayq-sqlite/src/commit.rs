//! Group commit: the threads of a store, and the way of a call to them and back.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use delayq_core::store::Wakeup;
use tokio::sync::broadcast;

pub(crate) mod call;
pub(crate) mod engine;
pub(crate) mod maintenance;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod writer;

pub(crate) use engine::Engine;
pub(crate) use queue::{Lane, Size};

use crate::commit::call::Command;
use crate::commit::queue::Queue;
use crate::rows::Context;

/// What a store and its threads share.
#[derive(Clone)]
pub(crate) struct Shared {
    context: Context,
    writes: Arc<Queue<Command>>,
    reads: Arc<Queue<Command>>,
    wakeups: broadcast::Sender<Wakeup>,
    /// Transactions committed.
    commits: Arc<AtomicU64>,
}

impl Shared {
    /// Wakes handlers after a commit.
    fn wake(&self, wakeup: Wakeup) {
        // Without a listener there is nobody to wake.
        let _ = self.wakeups.send(wakeup);
    }
}
