//! Wake-up dispatcher: takes wake-ups to handlers, and their news to the set.

use std::sync::Arc;

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
            Some(notice) = notices.recv() => shared.take_notice(&notice),
            _ = phase.wait_for(|phase| *phase != Phase::Running) => return,
        }
    }
}
