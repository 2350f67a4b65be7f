//! Claims, their answers, and claimed tasks.

use delayq_core::presence::InstanceId;
use delayq_core::store::{ClaimEnd, ClaimRequest, Claimed, EndCause};
use delayq_core::{AttemptHistory, Bucket, ClaimedTask, Error, Result, TaskId, Timestamp};

use crate::field::{required, unknown};
use crate::fleet::read_bucket_state;
use crate::pb;
use crate::time::{read_span, read_time, read_time_if, span, time};

impl pb::ClaimRequest {
    /// Makes the request that claims from a bucket.
    #[must_use]
    pub fn new(namespace: String, bucket: &Bucket, request: &ClaimRequest) -> Self {
        Self {
            namespace,
            bucket: Some(bucket.into()),
            limit: u32::try_from(request.limit).unwrap_or(u32::MAX),
            lock_for: Some(span(request.lock_for)),
            caller_now: Some(time(request.caller_now)),
            max_lock_expiries: Some(request.max_lock_expiries),
            fleet: Some(request.fleet.into()),
            holder: request.holder.as_ref().map(ToString::to_string),
            max_alone_expiries: request.max_alone_expiries,
            counts_own_only: request.counts_own_only,
        }
    }

    /// The bucket and the claim. `now` replaces the claimer's clock if the message has none.
    ///
    /// # Errors
    /// `InvalidInput` for a field that is missing or invalid.
    pub fn read(self, now: Timestamp) -> Result<(Bucket, ClaimRequest)> {
        let bucket = required("bucket", self.bucket)?.try_into()?;
        let lock_for = read_span("lock_for", required("lock_for", self.lock_for)?)?;
        let now = read_time_if("caller_now", self.caller_now)?.unwrap_or(now);
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut request = ClaimRequest::new(limit, lock_for, now);
        if let Some(expiries) = self.max_lock_expiries {
            request = request.max_lock_expiries(expiries);
        }
        request.max_alone_expiries = self.max_alone_expiries;
        request.counts_own_only = self.counts_own_only;
        if let Some(fleet) = self.fleet {
            request = request.fleet(fleet.try_into()?);
        }
        request.holder = self.holder.map(InstanceId::stored);
        Ok((bucket, request))
    }
}

impl From<Claimed> for pb::ClaimResponse {
    fn from(claimed: Claimed) -> Self {
        let end = |end: ClaimEnd| pb::ClaimEnd {
            id: end.id.to_string(),
            cause: pb::EndCause::from(end.cause).into(),
        };
        Self {
            now: Some(time(claimed.now)),
            store_now: Some(time(claimed.store_now)),
            high_water: claimed.high_water,
            tasks: claimed.tasks.into_iter().map(Into::into).collect(),
            ended: claimed.ended.into_iter().map(end).collect(),
            next_in: claimed.next_in.map(span),
            bucket: pb::BucketState::from(claimed.bucket).into(),
        }
    }
}

impl TryFrom<pb::ClaimResponse> for Claimed {
    type Error = Error;

    fn try_from(response: pb::ClaimResponse) -> Result<Self> {
        let now = read_time("now", required("now", response.now)?)?;
        let store_now = read_time("store_now", required("store_now", response.store_now)?)?;
        let mut claimed = Self::nothing(now, store_now);
        claimed.high_water = response.high_water;
        let tasks = response.tasks.into_iter().map(TryInto::try_into);
        claimed.tasks = tasks.collect::<Result<_>>()?;
        let ended = response.ended.into_iter().map(|end| {
            let cause = read_cause(end.cause)?;
            Ok(ClaimEnd::new(TaskId::new(end.id)?, cause))
        });
        claimed.ended = ended.collect::<Result<_>>()?;
        let next_in = response.next_in.map(|next| read_span("next_in", next));
        claimed.next_in = next_in.transpose()?;
        claimed.bucket = read_bucket_state(response.bucket)?;
        Ok(claimed)
    }
}

impl From<EndCause> for pb::EndCause {
    fn from(cause: EndCause) -> Self {
        match cause {
            EndCause::Expired => Self::Expired,
            EndCause::Cancelled => Self::Cancelled,
            EndCause::Poison => Self::Poison,
            EndCause::Corrupt => Self::Corrupt,
            _ => Self::Unspecified,
        }
    }
}

fn read_cause(value: i32) -> Result<EndCause> {
    match pb::EndCause::try_from(value) {
        Ok(pb::EndCause::Expired) => Ok(EndCause::Expired),
        Ok(pb::EndCause::Cancelled) => Ok(EndCause::Cancelled),
        Ok(pb::EndCause::Poison) => Ok(EndCause::Poison),
        Ok(pb::EndCause::Corrupt) => Ok(EndCause::Corrupt),
        Ok(pb::EndCause::Unspecified) | Err(_) => Err(unknown("cause", value)),
    }
}

impl From<AttemptHistory> for pb::AttemptHistory {
    fn from(history: AttemptHistory) -> Self {
        Self {
            failures: history.failures,
            lock_expiries: history.lock_expiries,
            releases: history.releases,
            requeues: history.requeues,
            last_error: history.last_error,
            succeeded: history.succeeded,
            note: history.note,
        }
    }
}

impl From<pb::AttemptHistory> for AttemptHistory {
    fn from(sent: pb::AttemptHistory) -> Self {
        let mut history = Self::default();
        history.failures = sent.failures;
        history.lock_expiries = sent.lock_expiries;
        history.releases = sent.releases;
        history.requeues = sent.requeues;
        history.last_error = sent.last_error;
        history.succeeded = sent.succeeded;
        history.note = sent.note;
        history
    }
}

impl From<ClaimedTask> for pb::ClaimedTask {
    fn from(task: ClaimedTask) -> Self {
        Self {
            lock: Some(task.lock.into()),
            lock_until: Some(time(task.lock_until)),
            attempt: task.attempt,
            due_at: Some(time(task.due_at)),
            submitted_at: Some(time(task.submitted_at)),
            expires_at: task.expires_at.map(time),
            message: task.message,
            headers: task.headers,
            history: Some(task.history.into()),
            is_taken_over: task.is_taken_over,
        }
    }
}

impl TryFrom<pb::ClaimedTask> for ClaimedTask {
    type Error = Error;

    fn try_from(sent: pb::ClaimedTask) -> Result<Self> {
        let lock = required("lock", sent.lock)?.try_into()?;
        let lock_until = read_time("lock_until", required("lock_until", sent.lock_until)?)?;
        let due_at = read_time("due_at", required("due_at", sent.due_at)?)?;
        let submitted_at = required("submitted_at", sent.submitted_at)?;
        let mut task = Self::new(lock, lock_until, due_at);
        task.attempt = sent.attempt;
        task.submitted_at = read_time("submitted_at", submitted_at)?;
        task.expires_at = read_time_if("expires_at", sent.expires_at)?;
        task.message = sent.message;
        task.headers = sent.headers;
        task.history = sent.history.unwrap_or_default().into();
        task.is_taken_over = sent.is_taken_over;
        Ok(task)
    }
}
