//! What the stores have now.

use std::sync::Arc;

use delayq_plugin::{Namespace, TaskType, Timestamp, TypePattern, TypeStats};
use serde_json::Value;

use super::content::Content;
use super::token_state::rights_of;
use super::{Key, Kind, Refusal};
use crate::access::Caller;
use crate::app::App;
use crate::context::Context;
use crate::push::Target;
use crate::recurring::RecurringTask;

/// The name under which an apply acts, and the place it acts from.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) name: String,
    pub(super) origin: String,
}

/// The context in which a namespace is changed.
pub(super) async fn context(app: &App, actor: &Actor, namespace: &str) -> Result<Context, Refusal> {
    let space = app.spaces.of(&Namespace::new(namespace)?).await?;
    let caller = Caller::of_front("apply", &actor.name, namespace, actor.origin.clone());
    Ok(Context::within(app, caller, space))
}

/// The value of a thing; `None` if it is not there. `id` is that of a token.
pub(super) async fn value(
    context: &Context,
    key: &Key,
    id: Option<&str>,
) -> Result<Option<Content>, Refusal> {
    let space = &context.space;
    match key.kind {
        Kind::Policy => match space.policies.get(&TypePattern::new(&key.name)?).await? {
            Some(policy) => Ok(Some(Content::plain(json(&policy)?))),
            None => Ok(None),
        },
        Kind::Target => match space.push.stored(&TypePattern::new(&key.name)?).await? {
            Some(target) => Ok(Some(content_of(&target)?)),
            None => Ok(None),
        },
        Kind::Recurring => {
            let known = known_recurring(context, &key.name).await?;
            known.map(|task| recurring(&task)).transpose()
        }
        Kind::Token => {
            let all = context.app.tokens.all();
            let known = all.iter().find(|token| Some(token.id.as_str()) == id);
            Ok(known.map(|token| Content::plain(rights_of(token))))
        }
        Kind::Shards => {
            let buckets = context.store().buckets(&TaskType::new(&key.name)?).await?;
            // Every type has one at first.
            let number = (buckets.len() > 1).then(|| buckets.len().into());
            Ok(number.map(Content::plain))
        }
        kind => {
            let stats = space.tasks.stats(&key.name).await?;
            Ok(setting(&stats, kind).map(Content::plain))
        }
    }
}

fn json(value: &impl serde::Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::new(error.to_string()))
}

/// A target.
pub(super) fn content_of(target: &Target) -> Result<Content, Refusal> {
    Ok(Content::of(json(&target.shown())?, &json(target)?))
}

fn setting(stats: &TypeStats, kind: Kind) -> Option<Value> {
    match kind {
        Kind::MaxPending => stats.max_pending.map(Value::from),
        Kind::FleetConcurrency => stats.fleet_concurrency.map(Value::from),
        Kind::FleetRate => stats.fleet_rate.map(|rate| serde_json::json!(rate)),
        Kind::Paused => match stats.paused_until {
            None => None,
            Some(Timestamp::MAX) => Some(true.into()),
            Some(until) => Some(format!("until {until}").into()),
        },
        _ => None,
    }
}

/// A recurring task. Its message may be no text, so it is not all shown.
pub(super) fn recurring(task: &RecurringTask) -> Result<Content, Refusal> {
    let mut shown = serde_json::json!({
        "type": task.task_type.as_str(), "every": task.every, "paused": task.is_paused,
    });
    let message = task.message();
    let more = [
        ("zone", task.zone.clone().map(Value::from)),
        (
            "message",
            Some(String::from_utf8_lossy(&message).into_owned().into()),
        ),
        (
            "headers",
            (!task.headers.is_empty()).then(|| serde_json::json!(task.headers)),
        ),
    ];
    for (name, value) in more {
        if let (Some(fields), Some(value)) = (shown.as_object_mut(), value) {
            fields.insert(name.to_owned(), value);
        }
    }
    Ok(Content::of(shown, &json(&task.undated())?))
}

/// The known recurring task, to compare all of it.
pub(super) async fn known_recurring(
    context: &Context,
    id: &str,
) -> Result<Option<Arc<RecurringTask>>, Refusal> {
    Ok(context.space.recurring.all().await?.get(id).cloned())
}
