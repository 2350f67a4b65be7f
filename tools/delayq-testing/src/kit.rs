//! The test kit: a queue for the tests of an application, and assertions on it.

mod assert;
mod done;
mod faults;
mod test_queue;

pub use assert::{Due, check_dead, check_done, check_not_scheduled, check_scheduled};
pub use test_queue::TestQueue;
