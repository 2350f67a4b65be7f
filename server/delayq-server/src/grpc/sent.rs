//! Tasks and ends of attempts, as calls send them.

use delayq_core::NewTask;
use delayq_core::store::AttemptEnd;
use delayq_plugin::{Clock, DelayQueueJob, Error, Expiry, OnConflict, Result, SystemClock, When};
use delayq_proto::{pb, read_span, required};
use delayq_service::context::Context;
use delayq_service::operation::{FollowUp, Submission};
use delayq_service::pull::{ClientEnd, Failure};
use delayq_service::push::refuse_reserved;
use pb::attempt_end::End;

use super::refusal::CallError;

/// Reads a task. A throttle gives it the id and the time of its window.
pub(super) fn submission(mut sent: pb::NewTask) -> Result<Submission> {
    let (target, throttle) = (sent.target.take(), sent.throttle.take());
    if throttle.is_some() && sent.id.is_empty() {
        let reason = "it goes by the id of the task: set it";
        return Err(Error::invalid("throttle", reason));
    }
    let mut task = NewTask::try_from(sent)?;
    if let Some(window) = throttle {
        let window = read_span("throttle", window)?;
        task = task.throttled(window, SystemClock.now())?;
    }
    Ok(Submission::from(task).to(target))
}

/// Reads a task of a batch.
pub(super) fn job(sent: pb::NewTask) -> Result<DelayQueueJob> {
    if sent.target.is_some() || sent.throttle.is_some() {
        let reason = "a task of a batch has neither a target of its own nor a throttle";
        return Err(Error::invalid("tasks", reason));
    }
    let has_own_id = !sent.id.is_empty();
    let task = NewTask::try_from(sent)?;
    let job = DelayQueueJob::raw(task.task_type.as_str(), task.message);
    let job = if has_own_id {
        job.id(task.id.as_str())
    } else {
        job
    };
    let job = match (task.when, task.on_conflict) {
        (When::After(delay), OnConflict::Debounce { max_wait }) => job.debounce(delay, max_wait),
        (When::At(_), OnConflict::Debounce { .. }) => {
            return Err(Error::invalid("when", "a debounce takes a delay"));
        }
        (When::After(delay), _) => job.after(delay),
        (When::At(time), _) => job.at(time),
    };
    let job = match task.on_conflict {
        OnConflict::Keep => job.keep(),
        OnConflict::Replace => job.replace(),
        OnConflict::Reject | OnConflict::Debounce { .. } => job,
    };
    let job = match task.expiry {
        Some(Expiry::At(time)) => job.expires_at(time),
        Some(Expiry::AfterDue(span)) => job.expires_after(span),
        None => job,
    };
    let job = if task.again_if_running {
        job.again_if_running()
    } else {
        job
    };
    refuse_reserved(task.headers.keys())?;
    let headers = task.headers.into_iter();
    Ok(headers.fold(job, |job, (name, value)| job.header(name, value)))
}

/// The end of an attempt.
pub(super) struct SentEnd {
    pub(super) end: ClientEnd,
    /// The tasks that follow.
    pub(super) then: Vec<FollowUp>,
}

impl SentEnd {
    /// Reads the end of an attempt.
    pub(super) fn read(context: &Context, sent: Option<pb::AttemptEnd>) -> Result<Self, CallError> {
        let mut then = Vec::new();
        let end = match required("end", required("end", sent)?.end)? {
            End::Done(done) => {
                for mut sent in done.then {
                    let has_own_id = !sent.id.is_empty();
                    if !has_own_id && sent.on_conflict == i32::from(pb::OnConflict::Keep) {
                        // It is kept anyway.
                        sent.on_conflict = pb::OnConflict::Reject.into();
                    }
                    let task = submission(sent)?;
                    then.push(FollowUp::new(context, task, has_own_id)?);
                }
                ClientEnd::Plain(AttemptEnd::Done)
            }
            End::Fail(fail) => {
                let after = fail.after.map(|after| read_span("end.fail.after", after));
                let failure = Failure {
                    error: fail.error,
                    after: after.transpose()?,
                    max_attempts: fail.max_attempts,
                };
                failure.check()?;
                ClientEnd::Failed(failure)
            }
            end => ClientEnd::Plain(pb::AttemptEnd { end: Some(end) }.try_into()?),
        };
        Ok(Self { end, then })
    }
}
