//! Replies.

use delayq_core::reply::{KeptReply, Reply};
use delayq_plugin::{Error, ReplyOutcome};
use delayq_proto::{pb, read_span, read_span_or_zero, required, time};
use delayq_service::pull::{MAX_WAIT, keep_own};

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::KeepReplyRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let lock = required("lock", self.lock)?.try_into()?;
        let retention = read_span("retention", required("retention", self.retention)?)?;
        let reply = Reply::bytes(self.body).content_type(self.content_type);
        let reply = reply.keep_for(retention);
        let kept = keep_own(&**call.store(), &task_type, &lock, &reply).await?;
        Ok(pb::KeepReplyResponse { kept })
    }
}

impl Run for pb::GetReplyRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let reply = call.store().reply(&task_type, &id).await?;
        let reply = reply.map(kept);
        Ok(pb::GetReplyResponse { reply })
    }
}

impl Run for pb::WaitForReplyRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        use pb::wait_for_reply_response::Outcome;
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let wait = read_span_or_zero("wait", self.wait)?;
        if wait > MAX_WAIT {
            return Err(Error::invalid("wait", "at most 60s: call again for longer").into());
        }
        let end = call.space.reply(task_type.as_str(), id.as_str(), wait);
        let outcome = match end.await?.outcome {
            ReplyOutcome::Replied(reply) => Outcome::Replied(kept(reply)),
            ReplyOutcome::Done => Outcome::Done(true),
            ReplyOutcome::Dead { error } => Outcome::Dead(error),
            ReplyOutcome::Cancelled => Outcome::Cancelled(true),
            ReplyOutcome::Expired => Outcome::Expired(true),
            ReplyOutcome::TimedOut => Outcome::Pending(true),
            _ => Outcome::NotFound(true),
        };
        // The token may have been revoked meanwhile.
        call.caller.is_still(&call.app.tokens)?;
        Ok(pb::WaitForReplyResponse {
            outcome: Some(outcome),
        })
    }
}

fn kept(reply: KeptReply) -> pb::KeptReply {
    pb::KeptReply {
        fence: reply.fence,
        content_type: reply.content_type,
        body: reply.body,
        at: Some(time(reply.at)),
    }
}
