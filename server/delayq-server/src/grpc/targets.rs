//! Targets of pushed tasks.

use delayq_plugin::TypePattern;
use delayq_proto::{pb, required};
use delayq_service::operation::target;
use delayq_service::problem::Problem;
use delayq_service::push::Target;

use super::call::{Call, Run};
use super::insight::written;
use super::refusal::CallError;

impl Run for pb::TargetsRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let all = call.space.push.targets().await?.into_iter();
        let covered = all.filter(|(pattern, _)| call.caller.token.covers_all(pattern));
        let targets = covered.map(|(pattern, target)| shown(&pattern, &target, None));
        Ok(pb::TargetsResponse {
            targets: targets.collect::<Result<_, Problem>>()?,
        })
    }
}

impl Run for pb::GetTargetRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let pattern = call.pattern(&self.task_type)?;
        let target = target::get(&call.space, &pattern).await?;
        answer(&pattern, &target, None)
    }
}

impl Run for pb::SetTargetRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let pattern = call.pattern(&self.task_type)?;
        let json = (!self.target.is_empty()).then_some(self.target);
        let json = required("target", json)?;
        let (space, operator) = (&call.space, call.operator());
        let set = target::set(space, &operator, &pattern, json.as_bytes());
        let (target, secret) = set.await?;
        answer(&pattern, &target, secret)
    }
}

impl Run for pb::RemoveTargetRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let pattern = call.pattern(&self.task_type)?;
        target::remove(&call.space, &call.operator(), &pattern).await?;
        Ok(pb::RemoveTargetResponse {})
    }
}

fn shown(
    pattern: &TypePattern,
    target: &Target,
    secret: Option<String>,
) -> Result<pb::PushTarget, Problem> {
    Ok(pb::PushTarget {
        task_type: pattern.to_string(),
        target: written(target)?,
        secret,
    })
}

fn answer(
    pattern: &TypePattern,
    target: &Target,
    secret: Option<String>,
) -> Result<pb::TargetResponse, CallError> {
    Ok(pb::TargetResponse {
        target: Some(shown(pattern, target, secret)?),
    })
}
