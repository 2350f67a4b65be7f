//! The jobs of lmstfy as tasks: their types and headers, and the move of the waiting ones.
//!
//! lmstfy keeps a job in several keys: its data under `j/NAMESPACE/QUEUE/ID`, and its place in the
//! set `timer_set` (delayed, or taken by a consumer), in the list `q/NAMESPACE/QUEUE` (ready) or in
//! `d/NAMESPACE/QUEUE` (dead). A move takes the entry out of its place and into a separate list in
//! one step, sends the job, and then forgets it. If it is interrupted, the next move continues from
//! there.

use std::fmt::Write;

use delayq_plugin::{Result, TaskType};
use sha2::{Digest, Sha256};

#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod job;
mod mover;
mod old_redis;
mod payload;
mod place;
mod report;

pub use mover::LmstfyImport;
pub use old_redis::LmstfyError;
pub use report::LmstfyReport;

/// The header with the number of attempts of a lmstfy job.
pub const LMSTFY_TRIES: &str = "lmstfy-tries";
/// The prefix of a header that is an attribute of a lmstfy job.
pub const LMSTFY_ATTRIBUTE: &str = "lmstfy-attr-";
/// The prefix of the type of a queue whose name is too long for one. No name of lmstfy contains a
/// dot.
const LONG: &str = "long.";

/// The task type of a queue of lmstfy: `NAMESPACE:QUEUE`, or a hash of it if it is too long.
///
/// # Errors
/// A name contains invalid characters.
pub fn lmstfy_type(namespace: &str, queue: &str) -> Result<TaskType> {
    let text = format!("{namespace}:{queue}");
    TaskType::new(&text).or_else(|_| {
        let mut hash = LONG.to_owned();
        for byte in Sha256::digest(text.as_bytes()) {
            write!(hash, "{byte:02x}").ok();
        }
        TaskType::new(hash)
    })
}
