//! Group commit: the threads of a store, and the path of a call to them and back.

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

/// State shared by a store and its threads.
#[derive(Clone)]
pub(crate) struct Shared {
    context: Context,
    writes: Arc<Queue<Command>>,
    reads: Arc<Queue<Command>>,
    wakeups: broadcast::Sender<Wakeup>,
    /// Number of committed transactions.
    commits: Arc<AtomicU64>,
}

impl Shared {
    /// Wakes handlers after a commit.
    fn wake(&self, wakeup: Wakeup) {
        // An error means that there is no listener to wake.
        let _ = self.wakeups.send(wakeup);
    }
}
