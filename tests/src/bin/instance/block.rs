//! What an application must not do, and does: block every thread of its runtime.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use delayq_tests::instance::log::{Log, What};

/// Blocks all `threads` of this runtime for `span`. The barrier proves that each has one of the
/// tasks, and keeps them all until the end of the block is logged.
pub(crate) fn block(threads: usize, span: Duration, log: &Arc<Log>) {
    let together = Arc::new(Barrier::new(threads));
    for _ in 0..threads {
        let (together, log) = (Arc::clone(&together), Arc::clone(log));
        tokio::spawn(async move {
            if together.wait().is_leader() {
                log.write(What::Blocked);
            }
            wait(span);
            if together.wait().is_leader() {
                log.write(What::Unblocked);
            }
            together.wait();
        });
    }
}

/// Waits on this very thread.
fn wait(span: Duration) {
    let (_silent, nothing): (Sender<()>, _) = channel();
    // A time-out is all that can come.
    let _ = nothing.recv_timeout(span);
}
