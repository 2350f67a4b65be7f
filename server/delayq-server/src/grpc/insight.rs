//! Insight into tasks and types, for people.

use delayq_ops::{Explanation, Holder, Moment, MomentKind};
use delayq_proto::{pb, span, state, time};
use delayq_service::operation::no_task;
use delayq_service::problem::Problem;
use serde::Serialize;
use serde_json::Value;

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::TimelineRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let (task_type, id) = (task_type.as_str(), id.as_str());
        let moments = delayq_ops::timeline(&call.space.tasks, task_type, id).await?;
        if moments.is_empty() {
            return Err(no_task(call, task_type, id).into());
        }
        Ok(pb::TimelineResponse {
            moments: moments.into_iter().map(moment).collect(),
        })
    }
}

impl Run for pb::ExplainRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let explained = delayq_ops::explain(&call.space.tasks, task_type.as_str(), id.as_str());
        let explanation = explanation(&explained.await?)?;
        Ok(pb::ExplainResponse {
            explanation: Some(explanation),
        })
    }
}

impl Run for pb::OverviewRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        call.caller.require_all_types()?;
        let overview = delayq_ops::overview_of_all(&call.space.tasks).await?;
        let json = written(&overview)?;
        Ok(pb::OverviewResponse { json })
    }
}

/// The JSON form of an answer.
pub(super) fn written<T: Serialize>(answer: &T) -> Result<String, Problem> {
    serde_json::to_string(answer).map_err(|error| {
        tracing::error!(%error, "cannot write an answer as JSON");
        Problem::unavailable("the answer could not be written")
    })
}

/// Converts a moment to a message.
fn moment(moment: Moment) -> pb::Moment {
    use pb::MomentKind as Form;
    let mut sent = pb::Moment {
        at: moment.at.map(time),
        text: moment.text,
        ..pb::Moment::default()
    };
    let what = match moment.kind {
        MomentKind::Submitted => Form::Submitted,
        MomentKind::Due => Form::Due,
        MomentKind::Forgotten { attempts } => {
            sent.times = Some(attempts);
            Form::Forgotten
        }
        MomentKind::Released { times } => {
            sent.times = Some(times);
            Form::Released
        }
        MomentKind::Requeued { times } => {
            sent.times = Some(times);
            Form::Requeued
        }
        MomentKind::Failed {
            attempt,
            error,
            holder: of,
        } => {
            sent.attempt = Some(attempt);
            sent.error = Some(error);
            sent.holder = of.map(holder);
            Form::Failed
        }
        MomentKind::Started {
            attempt,
            holder: of,
            due_at,
            late,
        } => {
            sent.attempt = Some(attempt);
            sent.holder = of.map(holder);
            sent.due_at = due_at.map(time);
            sent.late = late.map(span);
            Form::Started
        }
        MomentKind::Ended { state: at, error } => {
            sent.state = state(at);
            sent.error = error;
            Form::Ended
        }
        MomentKind::Next { attempt } => {
            sent.attempt = Some(attempt);
            Form::Next
        }
        MomentKind::Now => Form::Now,
        MomentKind::LockExpires => Form::LockExpires,
        MomentKind::Again => Form::Again,
        MomentKind::Expires => Form::Expires,
        // A kind added by a later release is sent as text only.
        _ => Form::Unspecified,
    };
    sent.what = what.into();
    sent
}

fn holder(holder: Holder) -> pb::TaskHolder {
    pb::TaskHolder {
        instance: holder.instance,
        host: holder.host,
        pid: holder.pid,
    }
}

/// Converts an explanation to a message, with the figures of its cause as JSON.
fn explanation(explained: &Explanation) -> Result<pb::Explanation, Problem> {
    let json = written(explained)?;
    let form: Value = serde_json::from_str(&json).unwrap_or_default();
    let cause = form.get("cause").and_then(Value::as_str);
    Ok(pb::Explanation {
        task_type: explained.task_type.to_string(),
        id: explained.id.to_string(),
        state: explained.state.map_or(0, state),
        sentence: explained.sentence.clone(),
        cause: cause.unwrap_or_default().to_owned(),
        late: explained.late.map(span),
        now: Some(time(explained.now)),
        json,
    })
}
