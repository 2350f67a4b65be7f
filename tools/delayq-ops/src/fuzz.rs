//! Entrances of the fuzz targets in `proof/fuzz`, for them alone: files, and what is left of a
//! lmstfy.

use delayq_plugin::Timestamp;

use crate::transfer::Line;

pub use crate::lmstfy::fuzz::{lmstfy_job, lmstfy_payload, lmstfy_place, lmstfy_reply};

/// A line of a file, as the line that it is written as again; `None` is a refusal.
///
/// # Panics
/// If a task of it is beyond what a store takes, or another one.
#[must_use]
pub fn transfer_line(text: &[u8], now_ms: i64) -> Option<String> {
    let line = Line::read(text).ok()?;
    if let Ok(task) = line.task(Timestamp::from_millis(now_ms)) {
        assert!(task.message.len() <= 1 << 20);
        assert_eq!((&task.task_type, &task.id), (&line.task_type, &line.id));
    }
    serde_json::to_string(&line).ok()
}
