//! Policies of types.

use delayq_plugin::{Error, TypePattern};
use delayq_proto::{pb, read_span, required, span};
use delayq_service::operation::policy;
use delayq_service::policy::{Retry, TypePolicy};
use delayq_service::span::Span;

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::PoliciesRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let all = call.space.policies.all().await?.into_iter();
        let covered = all.filter(|(pattern, _)| call.caller.token.covers_all(pattern));
        let policies = covered.map(|(pattern, policy)| shown(&pattern, policy));
        Ok(pb::PoliciesResponse {
            policies: policies.collect(),
        })
    }
}

impl Run for pb::GetPolicyRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let pattern = call.pattern(&self.task_type)?;
        let policy = policy::get(&call.space, &pattern).await?;
        Ok(pb::PolicyResponse {
            policy: Some(shown(&pattern, policy)),
        })
    }
}

impl Run for pb::SetPolicyRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let pattern = call.pattern(&self.task_type)?;
        let policy = read(required("policy", self.policy)?)?;
        policy::set(&call.space, &call.operator(), &pattern, policy).await?;
        Ok(pb::PolicyResponse {
            policy: Some(shown(&pattern, policy)),
        })
    }
}

impl Run for pb::RemovePolicyRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let pattern = call.pattern(&self.task_type)?;
        policy::remove(&call.space, &call.operator(), &pattern).await?;
        Ok(pb::RemovePolicyResponse {})
    }
}

fn read(sent: pb::TypePolicy) -> Result<TypePolicy, Error> {
    let retry = sent.retry.map(|retry| {
        let read = |name, sent: Option<_>| sent.map(|sent| read_span(name, sent).map(Span));
        Ok::<_, Error>(Retry {
            attempts: retry.attempts,
            wait: read("retry.wait", retry.wait).transpose()?,
            max_wait: read("retry.max_wait", retry.max_wait).transpose()?,
            is_fixed: retry.is_fixed.then_some(true),
        })
    });
    Ok(TypePolicy {
        retry: retry.transpose()?,
        max_lock_expiries: sent.max_lock_expiries,
    })
}

fn shown(pattern: &TypePattern, policy: TypePolicy) -> pb::PolicyOfType {
    let retry = policy.retry.map(|retry| pb::Retry {
        attempts: retry.attempts,
        wait: retry.wait.map(|wait| span(wait.0)),
        max_wait: retry.max_wait.map(|wait| span(wait.0)),
        is_fixed: retry.is_fixed == Some(true),
    });
    pb::PolicyOfType {
        task_type: pattern.to_string(),
        policy: Some(pb::TypePolicy {
            retry,
            max_lock_expiries: policy.max_lock_expiries,
        }),
    }
}
