//! `Debug` for messages and headers without their contents, which do not belong in a log.

use std::collections::BTreeMap;
use std::fmt;

/// A message, shown by its length alone.
pub(crate) struct RedactedMessage<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for RedactedMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Headers, shown by their names alone.
pub(crate) struct RedactedHeaders<'a>(pub(crate) &'a BTreeMap<String, String>);

impl fmt::Debug for RedactedHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use crate::job::{DelayQueueJob, Limits, NewTask};
    use crate::name::TaskId;
    use crate::state::TaskState;
    use crate::task::{ClaimedTask, Headers, Lock, TaskInfo};
    use crate::time::Timestamp;
    use crate::worker::{Attempt, StopSignal, TaskContext};

    fn assert_redacted(value: &impl Debug) {
        let shown = format!("{value:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("authorization"), "{shown}");
    }

    #[test]
    fn no_form_of_a_task_shows_its_message_or_the_values_of_its_headers() {
        let now = Timestamp::ZERO;
        let job = DelayQueueJob::raw("a", "hunter2").header("authorization", "hunter2");
        assert_redacted(&job);
        assert!(format!("{job:?}").contains("7 bytes"));
        let task: NewTask = job.into_task(&Limits::default(), now).unwrap();
        assert_redacted(&task);
        let (id, headers): (TaskId, Headers) = (task.id.clone(), task.headers.clone());
        let lock = Lock {
            id: id.clone(),
            fence: 1,
        };
        let mut claimed = ClaimedTask::new(lock, now, now);
        claimed.message.clone_from(&task.message);
        claimed.headers.clone_from(&headers);
        assert_redacted(&claimed);
        let mut info = TaskInfo::new(id.clone(), TaskState::Scheduled, now);
        info.message = Some(task.message);
        info.headers.clone_from(&headers);
        assert_redacted(&info);
        let attempt = Attempt {
            task_type: task.task_type,
            id,
            attempt: 1,
            tried: 1,
            due_at: now,
            claimed_at: now,
            submitted_at: now,
            fence: 1,
            headers,
        };
        assert_redacted(&TaskContext::new(attempt, StopSignal::new()));
    }
}
