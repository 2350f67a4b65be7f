//! Entry points for the fuzz targets in `proof/fuzz` only: export files, and the data of lmstfy.

use delayq_plugin::Timestamp;

use crate::transfer::Line;

pub use crate::lmstfy::fuzz::{lmstfy_job, lmstfy_payload, lmstfy_place, lmstfy_reply};

/// Reads a line of a file and writes it again; `None` if it is refused.
///
/// # Panics
/// If its task exceeds the limits of a store, or differs from the one read.
#[must_use]
pub fn transfer_line(text: &[u8], now_ms: i64) -> Option<String> {
    let line = Line::read(text).ok()?;
    if let Ok(task) = line.task(Timestamp::from_millis(now_ms)) {
        assert!(task.message.len() <= 1 << 20);
        assert_eq!((&task.task_type, &task.id), (&line.task_type, &line.id));
    }
    serde_json::to_string(&line).ok()
}
