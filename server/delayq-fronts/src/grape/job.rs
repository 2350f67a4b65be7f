//! A job as consumers see it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delayq_core::ClaimedTask;
use delayq_plugin::TaskInfo;
use serde::Serialize;

use super::asked::job_id;
use super::course::Course;

/// The largest number of jobs in one answer.
pub(super) const SEEN: usize = 1_000;

/// A job.
#[derive(Clone, Debug, Serialize)]
pub(super) struct GrapeJob {
    id: String,
    dtr: i64,
    ttr: i64,
    noe: u64,
    /// The message in base64url without padding.
    data: String,
}

impl GrapeJob {
    fn new(id: &delayq_plugin::TaskId, course: Course, message: &[u8]) -> Self {
        Self {
            id: job_id(id).into_owned(),
            dtr: course.dtr,
            ttr: course.ttr,
            noe: course.noe,
            data: URL_SAFE_NO_PAD.encode(message),
        }
    }

    /// A job handed out to a consumer.
    pub(super) fn given(task: &ClaimedTask) -> Self {
        let course = Course::of(&task.headers, &task.history);
        Self::new(&task.lock.id, course, &task.message)
    }

    /// A failed job.
    pub(super) fn failed(task: TaskInfo) -> Self {
        let course = Course::of(&task.headers, &task.history);
        Self::new(&task.id, course, &task.message.unwrap_or_default())
    }
}
