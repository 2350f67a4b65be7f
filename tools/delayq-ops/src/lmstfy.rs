//! The jobs of lmstfy as tasks: their types and headers, and the move of those that wait.
//!
//! lmstfy keeps a job in several keys: its data under `j/NAMESPACE/QUEUE/ID`, and its place in the
//! set `timer_set` (delayed, or taken by a consumer), in the list `q/NAMESPACE/QUEUE` (ready) or in
//! `d/NAMESPACE/QUEUE` (dead). A move takes a place out and into a list of its own in one step,
//! sends the job, and then forgets it: whatever interrupts it, the next one goes on from there.

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

/// The header that says how many attempts a job of lmstfy has.
pub const LMSTFY_TRIES: &str = "lmstfy-tries";
/// What the name of a header begins with that is an attribute of a job of lmstfy.
pub const LMSTFY_ATTRIBUTE: &str = "lmstfy-attr-";
/// What the type of a queue begins with whose name is too long for one. No name has a dot.
const LONG: &str = "long.";

/// The task type of a queue of lmstfy: `NAMESPACE:QUEUE`, and a hash of that where it is too long.
///
/// # Errors
/// A name has characters that no name has.
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
