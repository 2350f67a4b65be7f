//! Events of tasks: what this process did with them, for listeners and streams.

mod ends;
mod event;
mod hub;
mod listener;
mod stream;

pub(crate) use ends::EndAlarm;
pub use event::{FailureCause, TaskEvent, TaskEventKind};
pub(crate) use hub::EventHub;
pub use listener::TaskListener;
pub(crate) use listener::run_listener;
pub use stream::TaskEvents;
