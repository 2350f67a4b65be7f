//! States of tasks, pages of them, and wake-ups.

use delayq_core::operate::{Cursor, DeadFilter, Page};
use delayq_core::store::Wakeup;
use delayq_core::{Error, PastError, Result, TaskId, TaskInfo, TaskType, WaitsFor};

use crate::field::{ids, required, unknown};
use crate::outcome::{read_state, state};
use crate::pb;
use crate::pb::waits_for::Reason;
use crate::time::{read_time, read_time_if, time};

impl From<TaskInfo> for pb::TaskInfo {
    fn from(info: TaskInfo) -> Self {
        Self {
            id: info.id.to_string(),
            state: state(info.state),
            at: Some(time(info.at)),
            submitted_at: info.submitted_at.map(time),
            due_at: info.due_at.map(time),
            expires_at: info.expires_at.map(time),
            attempt: info.attempt,
            message: info.message,
            headers: info.headers,
            history: Some(info.history.into()),
            cancel_requested: info.cancel_requested,
            again_at: info.again_at.map(time),
            started_at: info.started_at.map(time),
            attempt_due_at: info.attempt_due_at.map(time),
            holder: info.holder,
            errors: info.errors.into_iter().map(Into::into).collect(),
            waits_for: info.waits_for.map(Into::into),
            settled_fence: info.settled_fence,
            fence: info.fence,
        }
    }
}

impl TryFrom<pb::TaskInfo> for TaskInfo {
    type Error = Error;

    fn try_from(sent: pb::TaskInfo) -> Result<Self> {
        let at = read_time("at", required("at", sent.at)?)?;
        let mut info = Self::new(TaskId::new(sent.id)?, read_state(sent.state)?, at);
        info.submitted_at = read_time_if("submitted_at", sent.submitted_at)?;
        info.due_at = read_time_if("due_at", sent.due_at)?;
        info.expires_at = read_time_if("expires_at", sent.expires_at)?;
        info.attempt = sent.attempt;
        info.message = sent.message;
        info.headers = sent.headers;
        info.history = sent.history.unwrap_or_default().into();
        info.cancel_requested = sent.cancel_requested;
        info.again_at = read_time_if("again_at", sent.again_at)?;
        info.started_at = read_time_if("started_at", sent.started_at)?;
        info.attempt_due_at = read_time_if("attempt_due_at", sent.attempt_due_at)?;
        info.holder = sent.holder;
        let errors = sent.errors.into_iter().map(TryInto::try_into);
        info.errors = errors.collect::<Result<_>>()?;
        info.waits_for = sent.waits_for.map(TryInto::try_into).transpose()?;
        info.settled_fence = sent.settled_fence;
        info.fence = sent.fence;
        Ok(info)
    }
}

impl From<PastError> for pb::PastError {
    fn from(error: PastError) -> Self {
        Self {
            at: Some(time(error.at)),
            attempt: error.attempt,
            error: error.error,
            started_at: error.started_at.map(time),
            due_at: error.due_at.map(time),
            holder: error.holder,
        }
    }
}

impl TryFrom<pb::PastError> for PastError {
    type Error = Error;

    fn try_from(sent: pb::PastError) -> Result<Self> {
        let at = read_time("errors.at", required("errors.at", sent.at)?)?;
        let mut error = Self::new(at, sent.attempt, sent.error);
        error.started_at = read_time_if("errors.started_at", sent.started_at)?;
        error.due_at = read_time_if("errors.due_at", sent.due_at)?;
        error.holder = sent.holder;
        Ok(error)
    }
}

impl From<WaitsFor> for pb::WaitsFor {
    fn from(waits_for: WaitsFor) -> Self {
        let mut until = None;
        let reason = match waits_for {
            WaitsFor::Delay => Reason::Delay,
            WaitsFor::Retry => Reason::Retry,
            WaitsFor::Release => Reason::Release,
            WaitsFor::Requeue => Reason::Requeue,
            WaitsFor::Pause { until: end } => {
                until = end.map(time);
                Reason::Pause
            }
            WaitsFor::Concurrency => Reason::Concurrency,
            WaitsFor::Rate => Reason::Rate,
            WaitsFor::Claim => Reason::Claim,
            _ => Reason::Unspecified,
        };
        Self {
            reason: reason.into(),
            until,
        }
    }
}

impl TryFrom<pb::WaitsFor> for WaitsFor {
    type Error = Error;

    fn try_from(sent: pb::WaitsFor) -> Result<Self> {
        Ok(match Reason::try_from(sent.reason) {
            Ok(Reason::Delay) => Self::Delay,
            Ok(Reason::Retry) => Self::Retry,
            Ok(Reason::Release) => Self::Release,
            Ok(Reason::Requeue) => Self::Requeue,
            Ok(Reason::Pause) => Self::Pause {
                until: read_time_if("waits_for.until", sent.until)?,
            },
            Ok(Reason::Concurrency) => Self::Concurrency,
            Ok(Reason::Rate) => Self::Rate,
            Ok(Reason::Claim) => Self::Claim,
            Ok(Reason::Unspecified) | Err(_) => {
                return Err(unknown("waits_for.reason", sent.reason));
            }
        })
    }
}

impl From<Cursor> for pb::Cursor {
    fn from(cursor: Cursor) -> Self {
        Self {
            at: Some(time(cursor.at)),
            id: cursor.id.to_string(),
        }
    }
}

impl TryFrom<pb::Cursor> for Cursor {
    type Error = Error;

    fn try_from(sent: pb::Cursor) -> Result<Self> {
        let at = read_time("cursor.at", required("cursor.at", sent.at)?)?;
        Ok(Self::new(at, TaskId::new(sent.id)?))
    }
}

impl From<Page> for pb::ListResponse {
    fn from(page: Page) -> Self {
        Self {
            tasks: page.tasks.into_iter().map(Into::into).collect(),
            next: page.next.map(Into::into),
        }
    }
}

impl TryFrom<pb::ListResponse> for Page {
    type Error = Error;

    fn try_from(sent: pb::ListResponse) -> Result<Self> {
        let mut page = Self::default();
        let tasks = sent.tasks.into_iter().map(TryInto::try_into);
        page.tasks = tasks.collect::<Result<_>>()?;
        page.next = sent.next.map(TryInto::try_into).transpose()?;
        Ok(page)
    }
}

impl From<DeadFilter> for pb::DeadFilter {
    fn from(filter: DeadFilter) -> Self {
        use pb::dead_filter::{Filter, Ids, Matching};
        let filter = match filter {
            DeadFilter::Ids(ids) => Filter::Ids(Ids {
                ids: ids.iter().map(ToString::to_string).collect(),
            }),
            DeadFilter::Matching {
                died_before,
                error_contains,
                limit,
            } => Filter::Matching(Matching {
                died_before: died_before.map(time),
                error_contains,
                limit: (limit != usize::MAX).then_some(limit as u64),
            }),
        };
        Self {
            filter: Some(filter),
        }
    }
}

impl TryFrom<pb::DeadFilter> for DeadFilter {
    type Error = Error;

    fn try_from(sent: pb::DeadFilter) -> Result<Self> {
        use pb::dead_filter::Filter;
        match required("filter", sent.filter)? {
            Filter::Ids(sent) => Ok(Self::Ids(ids(sent.ids)?)),
            Filter::Matching(sent) => {
                let limit = sent.limit.map(usize::try_from).and_then(Result::ok);
                Ok(Self::Matching {
                    died_before: read_time_if("filter.died_before", sent.died_before)?,
                    error_contains: sent.error_contains,
                    limit: limit.unwrap_or(usize::MAX),
                })
            }
        }
    }
}

impl From<Wakeup> for pb::Wakeup {
    fn from(wakeup: Wakeup) -> Self {
        use pb::wakeup::Wakeup as Form;
        let wakeup = match wakeup {
            Wakeup::Bucket(bucket) => Form::Bucket((&bucket).into()),
            Wakeup::Type(task_type) => Form::TaskType(task_type.to_string()),
            // An unknown wake-up (from a newer release) wakes everything.
            _ => Form::All(true),
        };
        Self {
            wakeup: Some(wakeup),
        }
    }
}

impl TryFrom<pb::Wakeup> for Wakeup {
    type Error = Error;

    fn try_from(sent: pb::Wakeup) -> Result<Self> {
        use pb::wakeup::Wakeup as Form;
        Ok(match sent.wakeup {
            Some(Form::Bucket(bucket)) => Self::Bucket(bucket.try_into()?),
            Some(Form::TaskType(task_type)) => Self::Type(TaskType::new(task_type)?),
            Some(Form::All(_)) | None => Self::All,
        })
    }
}
