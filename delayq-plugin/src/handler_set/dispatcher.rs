//! Wake-up dispatcher: passes wake-ups to handlers, and their notices to the set.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delayq_core::store::Wakeups;
use tokio::sync::mpsc;

use super::shared::Shared;
use crate::handler::{Notice, Phase};

/// Runs until the set stops.
pub(super) async fn dispatch(
    shared: Arc<Shared>,
    mut wakeups: Wakeups,
    mut notices: mpsc::UnboundedReceiver<Notice>,
) {
    let mut phase = shared.phase.subscribe();
    loop {
        tokio::select! {
            wakeup = wakeups.next() => match wakeup {
                Some(wakeup) => shared.wake(&wakeup),
                None => return,
            },
            Some(notice) = notices.recv() => take_notice(&shared, &notice),
            _ = phase.wait_for(|phase| *phase != Phase::Running) => return,
        }
    }
}

/// Handles the notice of a handler.
fn take_notice(shared: &Shared, notice: &Notice) {
    match notice {
        Notice::Sealed(task_type) => shared.mark_stale(task_type),
        Notice::Drained(bucket) => {
            let task_type = bucket.task_type();
            if let Some(served) = shared.state().types.get_mut(task_type) {
                served.remove(bucket);
            }
            shared.mark_stale(task_type);
        }
        Notice::StoreLostData => {
            shared.has_lost_data.store(true, Ordering::Relaxed);
            shared.news.notify_one();
        }
    }
}
