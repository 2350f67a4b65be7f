//! Follow-ups: tasks that a worker leaves behind when it is done.

use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{DelayQueueJob, Lock, OnConflict, TaskId, TaskType, Timestamp, follow_up_id};
use futures_util::future::try_join_all;

use super::{Batch, Submission, submit};
use crate::context::Context;
use crate::problem::Problem;

/// A task that follows an attempt.
#[derive(Clone, Debug)]
pub struct FollowUp {
    task: Submission,
    /// True if the client has given it an id. Otherwise its id is made of the task that it follows,
    /// so that it is sent once.
    has_own_id: bool,
}

impl FollowUp {
    /// A follow-up of a client.
    ///
    /// # Errors
    /// `forbidden` without the scope `submit`, or if the token is not for the type.
    pub fn new(context: &Context, task: Submission, has_own_id: bool) -> Result<Self, Problem> {
        context.require_submit("follow-ups")?;
        context.caller.require_type(task.task.task_type.as_str())?;
        refuse_replacing(&task)?;
        Ok(Self { task, has_own_id })
    }

    /// A follow-up made from a job.
    ///
    /// # Errors
    /// As [`new`](Self::new), and those of [`Submission::of_job`].
    pub async fn of_job(context: &Context, job: DelayQueueJob) -> Result<Self, Problem> {
        context.require_submit("follow-ups")?;
        let has_own_id = !job.has_generated_id();
        let task = Submission::of_job(context, job).await?;
        refuse_replacing(&task)?;
        Ok(Self { task, has_own_id })
    }
}

/// Refuses a follow-up that replaces a task: after a crash it would be sent, and run, again.
fn refuse_replacing(task: &Submission) -> Result<(), Problem> {
    if task.task.on_conflict.replaces() {
        let text = "a follow-up keeps a task that is there: leave out replace and debounce";
        return Err(Problem::bad_request(text));
    }
    Ok(())
}

/// Sends the follow-ups of an attempt that is about to end as done. Returns false if its lock holds
/// the task no more; then nothing was sent.
///
/// A task that runs again after a crash between this and its end sends them once: those without an
/// id of their own get one that is made of the task, and a task with a known id is kept.
pub(super) async fn send(
    context: &Context,
    task_type: &TaskType,
    lock: &Lock,
    follow_ups: Vec<FollowUp>,
) -> Result<bool, Problem> {
    if follow_ups.is_empty() {
        return Ok(true);
    }
    if follow_ups.len() > MAX_BATCH {
        let text = format!("{} follow-ups: send up to {MAX_BATCH}", follow_ups.len());
        return Err(Problem::too_large(text));
    }
    let Some(task) = context.store().find(task_type, &lock.id).await? else {
        return Ok(false);
    };
    if task.fence != Some(lock.fence) {
        // A repeated end has sent them the first time.
        let is_repeat = task.settled_fence == Some(lock.fence);
        return Ok(is_repeat);
    }
    let submitted_at = task.submitted_at.unwrap_or(Timestamp::ZERO);
    let named = follow_ups.into_iter().enumerate().map(|(index, one)| {
        let FollowUp {
            mut task,
            has_own_id,
        } = one;
        if !has_own_id {
            let id = follow_up_id(task_type, &lock.id, submitted_at, "", index);
            task.task.id = TaskId::new(id)?;
        }
        if task.task.on_conflict == OnConflict::Reject {
            task.task.on_conflict = OnConflict::Keep;
        }
        Ok((task, has_own_id))
    });
    let named = named.collect::<Result<Vec<_>, Problem>>()?;
    let known = named.iter().map(|(task, has_own_id)| async move {
        if *has_own_id {
            return Ok(false);
        }
        // One that has ended since must not run again.
        let (task_type, id) = (&task.task.task_type, &task.task.id);
        let found = context.store().find(task_type, id).await?;
        Ok::<_, Problem>(found.is_some())
    });
    let known = try_join_all(known).await?;
    let open = named.into_iter().zip(known);
    let open = open.filter_map(|((task, _), is_known)| (!is_known).then_some(task));
    let batch = Batch::new(open.collect()).paid(0).whole();
    let sent = submit(context, batch).await?;
    sent.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(true)
}
