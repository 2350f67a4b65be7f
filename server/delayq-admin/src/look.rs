//! The data that pages read from the store.

mod batch_look;
mod history_look;
mod log_look;
mod task_look;
mod tasks_look;
mod type_look;

pub(crate) use batch_look::{BatchLook, BatchesLook};
pub(crate) use history_look::{HistoryAsk, HistoryLook};
pub(crate) use log_look::{LogAsk, LogLook};
pub(crate) use task_look::TaskLook;
pub(crate) use tasks_look::{Search, TasksAsk, TasksLook};
pub(crate) use type_look::{Ahead, Range, TypeLook};
