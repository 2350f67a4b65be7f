//! Targets of pushed tasks.

use delayq_ops::Operator;
use delayq_plugin::TypePattern;

use crate::json::read_object;
use crate::problem::Problem;
use crate::push::Target;
use crate::space::Space;

/// The target of a type or pattern, without its secrets.
pub async fn get(space: &Space, pattern: &TypePattern) -> Result<Target, Problem> {
    let target = space.push.target(pattern).await?;
    target.ok_or_else(|| nothing(pattern))
}

/// Sets the target of a type or pattern, given as JSON. Returns the target without its secrets, and
/// a new secret if one was made.
pub async fn set(
    space: &Space,
    operator: &Operator,
    pattern: &TypePattern,
    json: &[u8],
) -> Result<(Target, Option<String>), Problem> {
    let target = read_object(json);
    let target = target.map_err(|error| Problem::bad_request(format!("target: {error}")))?;
    let prepared = space.push.prepared(pattern, target).await?;
    let shown = prepared.target.shown();
    put(space, operator, pattern, prepared.target).await?;
    Ok((shown, prepared.made))
}

/// Sets the target of a type or pattern, which was [prepared](crate::push::Push::prepared).
pub async fn put(
    space: &Space,
    operator: &Operator,
    pattern: &TypePattern,
    target: Target,
) -> Result<(), Problem> {
    let place = target.place();
    space.push.put(pattern, target).await?;
    let task_type = pattern.to_string();
    operator.note("set-target", &task_type, &place).await;
    Ok(())
}

/// Removes the target of a type or pattern.
pub async fn remove(
    space: &Space,
    operator: &Operator,
    pattern: &TypePattern,
) -> Result<(), Problem> {
    if !space.push.remove(pattern).await? {
        return Err(nothing(pattern));
    }
    let task_type = pattern.to_string();
    operator.note("remove-target", &task_type, "").await;
    Ok(())
}

fn nothing(pattern: &TypePattern) -> Problem {
    Problem::not_found(format!("{pattern} has no target"))
}
