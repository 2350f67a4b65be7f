//! Policies of types.

use delayq_ops::Operator;
use delayq_plugin::TypePattern;

use crate::policy::TypePolicy;
use crate::problem::Problem;
use crate::space::Space;

/// The policy that is set for a type or pattern.
pub async fn get(space: &Space, pattern: &TypePattern) -> Result<TypePolicy, Problem> {
    let policy = space.policies.get(pattern).await?;
    policy.ok_or_else(|| nothing(pattern))
}

/// Sets the policy of a type or pattern.
pub async fn set(
    space: &Space,
    operator: &Operator,
    pattern: &TypePattern,
    policy: TypePolicy,
) -> Result<(), Problem> {
    space.policies.set(pattern, policy).await?;
    let detail = serde_json::to_string(&policy).unwrap_or_default();
    let task_type = pattern.to_string();
    operator.note("set-policy", &task_type, &detail).await;
    Ok(())
}

/// Removes the policy of a type or pattern.
pub async fn remove(
    space: &Space,
    operator: &Operator,
    pattern: &TypePattern,
) -> Result<(), Problem> {
    if !space.policies.remove(pattern).await? {
        return Err(nothing(pattern));
    }
    let task_type = pattern.to_string();
    operator.note("remove-policy", &task_type, "").await;
    Ok(())
}

fn nothing(pattern: &TypePattern) -> Problem {
    Problem::not_found(format!("{pattern} has no policy"))
}
