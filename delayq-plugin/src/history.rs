//! History: ships the records of ended tasks, and answers what became of a task.

mod health;
mod kept_history;
mod shipper;
mod shipping;
mod shipping_task;
mod task_history;

pub use delayq_core::history::{KeptMessage, Life, LifeOutcome, Recording};
pub use delayq_history::{
    Expired, FOREVER, Forget, HistoryCursor, HistoryPage, HistoryQuery, HistoryRetention,
    HistorySink, HistoryStatus, HistoryStore, MAX_HISTORY_PAGE,
};

pub use health::{HistoryHealth, concern_of_records};
pub(crate) use kept_history::KeptHistory;
pub(crate) use shipper::{HistoryPlan, TypeRetention, check_store};
pub(crate) use shipping_task::Shipping;
pub use task_history::{Fate, Forgotten, TaskHistory};
