//! Batches: many tasks, and one that is sent once all of them have ended.

use delayq_plugin::{
    Batch, BatchProgress, BatchReceipt, BatchState, BulkReport, DelayQueueJob, MAX_MEMBERS,
};

use super::submit::reserve_room;
use crate::context::Context;
use crate::problem::Problem;

/// A batch that a caller sends.
#[derive(Clone, Debug)]
pub struct NewBatch {
    /// Its name, unique in the namespace while it waits.
    pub name: String,
    /// Its members.
    pub members: Vec<DelayQueueJob>,
    /// The task that follows.
    pub then: DelayQueueJob,
    /// Waits also while a member is dead.
    pub waits_for_dead: bool,
}

/// Sends the members of a batch, and then what waits for their end. The whole call can be repeated.
///
/// # Errors
/// Before anything is stored: `forbidden` if the token is not for one of the types, a refusal of a
/// task, and `conflict` with another batch of the name that waits. For a member that conflicts with
/// another task, and for a full queue, members before it are stored: the completion is not sent
/// until the call is repeated.
pub async fn send(context: &Context, new: NewBatch) -> Result<BatchReceipt, Problem> {
    let NewBatch {
        name,
        members,
        then,
        waits_for_dead,
    } = new;
    if members.len() > MAX_MEMBERS {
        let text = format!("{} members: a batch has up to {MAX_MEMBERS}", members.len());
        return Err(Problem::too_large(text));
    }
    for job in members.iter().chain([&then]) {
        context.caller.require_type(job.task_type())?;
    }
    if !then.has_generated_id() {
        let text = "then: leave out its id, as it gets one that is made of the batch";
        return Err(Problem::bad_request(text));
    }
    let mut charge = context.throttle(members.len()).await;
    // The request may have waited for its body or for its rate.
    context.recheck()?;
    for job in members.iter().chain([&then]) {
        context.check_message(job.message())?;
    }
    let tasks = &context.space.tasks;
    if let Err(full) = reserve_room(context, members.len() as u64).await {
        // A batch that is repeated needs no room.
        let known = tasks.batch(&name).await?;
        known
            .filter(|known| known.state == BatchState::Waiting)
            .ok_or(full)?;
    }
    context.space.push.watch_batches();
    let count = members.len();
    let batch = Batch::new(name).jobs(members).then(then);
    let batch = if waits_for_dead {
        batch.wait_for_dead()
    } else {
        batch
    };
    let sent = tasks.send_batch(batch).await.map_err(Problem::from);
    if sent
        .as_ref()
        .is_err_and(|problem| problem.status().is_server_error())
    {
        context.refund(&mut charge, count);
    }
    sent
}

/// How far a batch is.
///
/// # Errors
/// `not-found` for one that is not known, and `forbidden` if the token is not for its types.
pub async fn progress(context: &Context, name: &str) -> Result<BatchProgress, Problem> {
    require_types(context, name).await?;
    let progress = context.space.tasks.batch(name).await?;
    progress.ok_or_else(|| nothing(name))
}

/// Cancels the members of a batch that have not ended; what follows is not sent.
///
/// # Errors
/// `not-found` if no such batch waits, and `forbidden` if the token is not for its types.
pub async fn cancel(context: &Context, name: &str) -> Result<BulkReport, Problem> {
    require_types(context, name).await?;
    let report = context.space.tasks.cancel_batch(name).await?;
    report.ok_or_else(|| nothing(name))
}

async fn require_types(context: &Context, name: &str) -> Result<(), Problem> {
    for task_type in context.space.tasks.types_of_batch(name).await? {
        context.caller.require_type(task_type.as_str())?;
    }
    Ok(())
}

fn nothing(name: &str) -> Problem {
    Problem::not_found(format!("no batch {name} waits, and none ended lately"))
}
