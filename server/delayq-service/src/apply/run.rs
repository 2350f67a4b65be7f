//! Carrying out a plan: one thing after the other, each by the operation that every entry calls.

use delayq_ops::Operator;
use delayq_plugin::{Namespace, TypePattern};

use super::item::{Deed, Item, TokenDeed};
use super::note::{Note, Notes};
use super::present::{Actor, context};
use super::{Change, Key, Plan, Refusal, secret_folder};
use crate::app::App;
use crate::context::Context;
use crate::operation::{policy, recurring, target};
use crate::problem::Problem;

/// Does what a plan has to do. What is done when it fails is marked, and a new plan does the rest.
///
/// # Errors
/// The first thing that failed.
pub async fn carry_out(plan: &mut Plan) -> Result<(), Refusal> {
    let has_secrets = plan.items.iter().any(|item| item.secret.is_some());
    if let Some(folder) = plan.options.secrets.as_ref().filter(|_| has_secrets) {
        folder.make()?;
    }
    for key in std::mem::take(&mut plan.stale) {
        plan.notes.remove(&key).await?;
    }
    let Plan {
        items,
        notes,
        app,
        actor,
        ..
    } = plan;
    for item in items.iter_mut() {
        if item.change == Change::Unchanged {
            // An apply that ended before it could write this down.
            notes.end_if(&item.key, item.after.as_deref()).await?;
        }
        if !item.change.is_deed() {
            continue;
        }
        let done = carry_out_one(app, actor, notes, item).await;
        done.map_err(|error| Refusal::at(&item.key, error))?;
        item.is_done = true;
    }
    Ok(())
}

async fn carry_out_one(
    app: &App,
    actor: &Actor,
    notes: &mut Notes,
    item: &Item,
) -> Result<(), Refusal> {
    // The note before the file and the thing: what has none is never removed or written over.
    let earlier = notes.get(&item.key).and_then(Note::secret);
    let earlier = earlier.map(str::to_owned);
    let is_own = notes.is_own(item);
    if is_own {
        notes.begin(item).await?;
    }
    // The secret before the token: one that nobody has the secret of is of no use.
    if let Some(secret) = &item.secret {
        secret_folder::write(secret, earlier.as_deref())?;
    }
    deed(app, actor, &item.key, item.deed.clone()).await?;
    if item.to.is_none() {
        notes.remove(&item.key).await
    } else if is_own {
        notes.end(&item.key).await
    } else {
        Ok(())
    }
}

async fn deed(app: &App, actor: &Actor, key: &Key, deed: Deed) -> Result<(), Refusal> {
    if let Deed::Token(deed) = deed {
        return token(app, actor, &key.name, deed).await;
    }
    let context = context(app, actor, &key.namespace).await?;
    let operator = context.operator().creating(true);
    match deed {
        Deed::Nothing | Deed::Token(_) => {}
        Deed::Configure(settings) => operator.configure_type(&key.name, &settings).await?,
        Deed::Pause(true) => drop(operator.pause(&key.name, None).await?),
        Deed::Pause(false) => drop(operator.resume(&key.name).await?),
        Deed::Policy(policy) => {
            let pattern = TypePattern::new(&key.name)?;
            match policy {
                Some(policy) => {
                    policy::set(&context.space, &operator, &pattern, policy).await?;
                }
                None => if_there(policy::remove(&context.space, &operator, &pattern).await)?,
            }
        }
        Deed::Target(target) => target_of(&context, &operator, key, target.map(|one| *one)).await?,
        Deed::Recurring(Some(task)) => drop(recurring::set(&context, &key.name, task).await?),
        Deed::Recurring(None) => if_there(recurring::remove(&context, &key.name).await)?,
    }
    Ok(())
}

async fn target_of(
    context: &Context,
    operator: &Operator,
    key: &Key,
    target: Option<crate::push::Target>,
) -> Result<(), Refusal> {
    let pattern = TypePattern::new(&key.name)?;
    match target {
        Some(target) => target::put(&context.space, operator, &pattern, target).await?,
        None => if_there(target::remove(&context.space, operator, &pattern).await)?,
    }
    Ok(())
}

/// Somebody else may have removed it at the same time.
fn if_there(removed: Result<(), Problem>) -> Result<(), Refusal> {
    match removed {
        Err(problem) if !problem.is_not_found() => Err(problem.into()),
        _ => Ok(()),
    }
}

async fn token(app: &App, actor: &Actor, name: &str, deed: TokenDeed) -> Result<(), Refusal> {
    let tokens = &app.tokens;
    let (verb, id, namespace) = match deed {
        TokenDeed::Create { token, id, hash } => {
            let namespace = token.namespace.clone();
            tokens.create_hashed(token, &id, hash).await?;
            ("create-token", id, namespace)
        }
        TokenDeed::Change { token, id, hash } => {
            let namespace = token.namespace.clone();
            if !tokens.change(&id, token, hash).await? {
                return Err(Refusal::new("it was revoked meanwhile: repeat the command"));
            }
            ("change-token", id, namespace)
        }
        TokenDeed::Revoke { id, namespace } => {
            tokens.revoke(&id).await?;
            ("revoke-token", id, namespace)
        }
    };
    // The log of a token is that of its namespace, or of the default one.
    let is_declared = |name: &str| app.spaces.names().iter().any(|one| one.as_str() == name);
    let logged = if is_declared(&namespace) {
        namespace
    } else {
        Namespace::default().to_string()
    };
    let context = context(app, actor, &logged).await?;
    let detail = format!("{name} ({id})");
    context.operator().note(verb, "", &detail).await;
    Ok(())
}
