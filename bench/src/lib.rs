//! The parts of the Redis store that `benches/parts.rs` times. They are private to the store, and stay so: their
//! files are compiled into this library as they are, and find here what they call `crate::`.

use delayq_core::{job, task, time};

#[allow(dead_code, reason = "only a part of the module is timed")]
#[path = "../../delayq-core/src/store/redis/record.rs"]
mod record;

/// The record of a task as it is sent to Redis, which writes its beginning.
#[must_use]
pub fn encode(task: &job::NewTask) -> Vec<u8> {
    record::encode(task)
}

/// The message of a record as Redis hands it out; `None` when the record is damaged.
#[must_use]
pub fn decode(stored: Vec<u8>) -> Option<Vec<u8>> {
    record::decode(stored).ok().map(|record| record.message)
}
