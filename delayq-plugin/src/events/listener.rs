//! Listener: application code that is called for events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use delayq_core::Timestamp;
use tracing::error;

use super::{TaskEvent, TaskEventKind, TaskEvents};

/// Gets the events of this process's tasks. Every method has an empty default body.
///
/// Its methods are called on the application's runtime, one event after the other, and never on a
/// scheduler thread. A slow listener delays no task, and misses events if it is more than 4,096
/// behind. Methods must not block; for slow work use [`events`](crate::DelayQueuePlugin::events)
/// instead. A listener that holds the plugin's submit service keeps the store open and itself
/// alive.
///
/// ```
/// use delayq_plugin::{DelayQueuePlugin, TaskEvent, TaskListener};
///
/// struct Pager;
///
/// impl TaskListener for Pager {
///     fn on_dead(&self, event: &TaskEvent, error: &str) {
///         eprintln!("task {} of type {} is dead: {error}", event.id, event.task_type);
///     }
/// }
///
/// let builder = DelayQueuePlugin::builder().listener(Pager);
/// ```
#[allow(
    unused_variables,
    reason = "the empty bodies name what a listener gets"
)]
pub trait TaskListener: Send + Sync + 'static {
    /// Any event; called before the method of its kind.
    fn on_event(&self, event: &TaskEvent) {}
    /// The store accepted a task from this process.
    fn on_submitted(&self, event: &TaskEvent, due_at: Timestamp) {}
    /// An attempt was handed to the workers.
    fn on_started(&self, event: &TaskEvent, attempt: u32) {}
    /// A task is done.
    fn on_succeeded(&self, event: &TaskEvent, run_time: Duration) {}
    /// An attempt failed, panicked, or ran over its time limit.
    fn on_failed(&self, event: &TaskEvent, error: &str) {}
    /// A task is dead, and waits for an operator.
    fn on_dead(&self, event: &TaskEvent, error: &str) {}
    /// A task was too late to be worth running.
    fn on_expired(&self, event: &TaskEvent) {}
    /// A task is cancelled.
    fn on_cancelled(&self, event: &TaskEvent) {}
    /// An attempt has lost its lock.
    fn on_lock_lost(&self, event: &TaskEvent) {}
}

/// Passes events to the listener until there are no more.
pub(crate) async fn run_listener(listener: Arc<dyn TaskListener>, mut events: TaskEvents) {
    let mut missed = 0;
    while let Some(event) = events.next().await {
        if events.missed() > missed {
            error!(
                missed = events.missed() - missed,
                "a listener is too slow and has missed events"
            );
            missed = events.missed();
        }
        let heard = catch_unwind(AssertUnwindSafe(|| tell(&*listener, &event)));
        if heard.is_err() {
            error!(task_type = %event.task_type, id = %event.id, "a listener panicked");
        }
    }
}

fn tell(listener: &dyn TaskListener, event: &TaskEvent) {
    listener.on_event(event);
    match &event.kind {
        TaskEventKind::Submitted { due_at } => listener.on_submitted(event, *due_at),
        TaskEventKind::Started { attempt, .. } => listener.on_started(event, *attempt),
        TaskEventKind::Succeeded { run_time, .. } => listener.on_succeeded(event, *run_time),
        TaskEventKind::Failed { error, .. } => listener.on_failed(event, error),
        TaskEventKind::Released { .. } => {}
        TaskEventKind::Dead { error, .. } => listener.on_dead(event, error),
        TaskEventKind::Expired => listener.on_expired(event),
        TaskEventKind::Cancelled => listener.on_cancelled(event),
        TaskEventKind::LockLost { .. } => listener.on_lock_lost(event),
    }
}
