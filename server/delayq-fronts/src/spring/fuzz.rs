//! Entry points of the fuzz targets for applications of the Spring delay queue.

use delayq_core::Limits;
use delayq_endpoint::{SpringJob, spelled_id, spelled_type};
use delayq_plugin::Timestamp;

use super::add::read_job;
use super::answer::shown;
use super::look::instance;

/// Parses a new task and writes it as JSON; `None` is a refusal. `now_ms` is the server's time.
///
/// # Panics
/// If the type of an accepted task does not belong to its application.
#[must_use]
pub fn spring_job(body: &[u8], now_ms: i64) -> Option<String> {
    let sent: SpringJob = serde_json::from_slice(body).ok()?;
    let written = serde_json::to_string(&sent).ok()?;
    let app = sent.app_name.clone()?.to_lowercase();
    let app = spelled_type(&app);
    let job = read_job(body).ok()?;
    let size = job.message().len();
    let now = Timestamp::from_millis(now_ms);
    let task = job.into_task(&Limits::default(), now).ok()?;
    let within = task.task_type.as_str().strip_prefix(&*app);
    let within = within.and_then(|rest| rest.strip_prefix('-'));
    let spelled = sent.task_type.as_deref().map(spelled_type);
    assert_eq!(within, spelled.as_deref());
    let spelled = sent.task_id.as_deref().map(spelled_id);
    assert_eq!(
        (Some(task.id.as_str()), task.message.len()),
        (spelled.as_deref(), size)
    );
    Some(written)
}

/// Removes a leading token from a path.
#[must_use]
pub fn spring_path(path: &str) -> String {
    shown(path)
}

/// Converts a record of a registry for display.
#[must_use]
pub fn spring_instance(record: &[u8]) -> Option<String> {
    let record = serde_json::from_slice(record).ok()?;
    Some(instance(&record).to_string())
}
