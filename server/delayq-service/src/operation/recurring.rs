//! Recurring tasks that are declared to the server.

use std::sync::Arc;

use delayq_core::job::with_kept_names;
use delayq_plugin::Timestamp;
use delayq_plugin::recurrence::{self, cancel_untried, restart};

use crate::context::Context;
use crate::problem::Problem;
use crate::push::refuse_reserved;
use crate::recurring::{MAX_MESSAGE, RecurringTask};

/// A recurring task with its id.
#[derive(Clone, Debug)]
pub struct NamedRecurring {
    pub id: String,
    pub task: Arc<RecurringTask>,
    /// The time of its next occurrence; `None` while it is paused.
    pub next_at: Option<Timestamp>,
}

impl NamedRecurring {
    fn new(context: &Context, id: &str, task: Arc<RecurringTask>) -> Self {
        let now = context.space.tasks.clock().now();
        Self {
            id: id.to_owned(),
            next_at: task.next_at(now),
            task,
        }
    }
}

/// A page of recurring tasks.
#[derive(Clone, Debug)]
pub struct RecurringPage {
    pub recurring: Vec<NamedRecurring>,
    /// The cursor of the next page; `None` after the last one.
    pub next: Option<String>,
}

/// Up to `limit` recurring tasks after the id `cursor`, by id, of types that the caller covers.
pub async fn list(
    context: &Context,
    cursor: Option<&str>,
    limit: usize,
) -> Result<RecurringPage, Problem> {
    let all = context.space.recurring.all().await?;
    let covered = all.iter().filter(|(id, task)| {
        let is_after = cursor.is_none_or(|cursor| id.as_str() > cursor);
        is_after && context.caller.token.covers(&task.task_type)
    });
    let mut covered = covered.peekable();
    let page = covered.by_ref().take(limit);
    let recurring = page.map(|(id, task)| NamedRecurring::new(context, id, Arc::clone(task)));
    let recurring: Vec<_> = recurring.collect();
    let last = recurring.last().map(|one| one.id.clone());
    let next = last.filter(|_| covered.peek().is_some());
    Ok(RecurringPage { recurring, next })
}

/// A recurring task.
///
/// # Errors
/// `not-found`, and `forbidden` if the caller has no right to its type.
pub async fn get(context: &Context, id: &str) -> Result<NamedRecurring, Problem> {
    let task = find(context, id).await?.ok_or_else(|| nothing(id))?;
    Ok(NamedRecurring::new(context, id, task))
}

/// Declares a recurring task, or changes it. The next occurrence waits when this returns. A call
/// that failed half-way is completed by repeating it.
///
/// # Errors
/// `forbidden` without the scope `submit` or a right to the type, a refusal of an occurrence, and
/// `conflict` if the task was changed at the same time.
pub async fn set(
    context: &Context,
    id: &str,
    mut task: RecurringTask,
) -> Result<NamedRecurring, Problem> {
    context.require_submit("recurring tasks")?;
    task.headers = with_kept_names(task.headers)?;
    context.caller.require_type(task.task_type.as_str())?;
    check(context, id, &task)?;
    let known = find(context, id).await?;
    if let Some(known) = known.as_ref().filter(|known| known.is_same(&task)) {
        align(context, id, known).await?;
        return Ok(NamedRecurring::new(context, id, Arc::clone(known)));
    }
    let every = task.every.clone();
    let stored = change(context, id, known, task).await?;
    note(context, "set-recurring", &stored, &every).await;
    Ok(stored)
}

/// Pauses a recurring task, or ends its pause. A call that failed half-way is completed by
/// repeating it.
///
/// # Errors
/// `not-found`, `forbidden`, and `conflict` if the task was changed at the same time.
pub async fn pause(
    context: &Context,
    id: &str,
    is_paused: bool,
) -> Result<NamedRecurring, Problem> {
    let known = find(context, id).await?.ok_or_else(|| nothing(id))?;
    if known.is_paused == is_paused {
        align(context, id, &known).await?;
        return Ok(NamedRecurring::new(context, id, known));
    }
    let mut task = RecurringTask::clone(&known);
    task.is_paused = is_paused;
    let stored = change(context, id, Some(known), task).await?;
    let verb = if is_paused {
        "pause-recurring"
    } else {
        "resume-recurring"
    };
    note(context, verb, &stored, "").await;
    Ok(stored)
}

/// Removes a recurring task and cancels its waiting occurrence. The declaration goes last, so that
/// a call that failed half-way is completed by repeating it.
///
/// # Errors
/// `not-found`, `forbidden`, and `conflict` if the task was changed at the same time.
pub async fn remove(context: &Context, id: &str) -> Result<(), Problem> {
    let known = find(context, id).await?.ok_or_else(|| nothing(id))?;
    let mut task = RecurringTask::clone(&known);
    task.is_paused = true;
    let removed = change(context, id, Some(known), task).await?;
    context.space.recurring.remove(id).await?;
    note(context, "remove-recurring", &removed, "").await;
    Ok(())
}

/// Refuses a recurring task that no call would take.
///
/// # Errors
/// The limits of the server and of the namespace, and a schedule, zone or id that is none.
pub(crate) fn check(context: &Context, id: &str, task: &RecurringTask) -> Result<(), Problem> {
    // The id is also the name of a document.
    delayq_core::documents::check_document_name("id of a recurring task", id)?;
    let message = task.message();
    context.check_message(&message)?;
    if message.len() > MAX_MESSAGE {
        let text = format!(
            "a message of {} bytes: a recurring task may have {MAX_MESSAGE}",
            message.len()
        );
        return Err(Problem::too_large(text));
    }
    refuse_reserved(task.headers.keys())?;
    recurrence::check(&context.space.tasks, &task.recurring(id)?)?;
    Ok(())
}

async fn find(context: &Context, id: &str) -> Result<Option<Arc<RecurringTask>>, Problem> {
    let found = context.space.recurring.all().await?.get(id).cloned();
    if let Some(task) = &found {
        context.caller.require_type(task.task_type.as_str())?;
    }
    Ok(found)
}

/// Stores a changed declaration, and brings the occurrences in line with it.
async fn change(
    context: &Context,
    id: &str,
    known: Option<Arc<RecurringTask>>,
    task: RecurringTask,
) -> Result<NamedRecurring, Problem> {
    let space = &context.space;
    let known_type = known.as_ref().map(|known| &known.task_type);
    let is_of_other_type = known_type.is_some_and(|known| *known != task.task_type);
    if let Some(known) = known.as_ref().filter(|_| is_of_other_type) {
        // A repeat would no longer know the other type.
        withdraw(context, id, known).await?;
    }
    let task = task.changing(known.as_deref(), space.tasks.clock().now());
    if !space.recurring.write(id, &task).await? {
        let text = "it was changed at the same time: look at it, then repeat the request";
        return Err(Problem::conflict("conflict", text));
    }
    // As it is stored, with its revision.
    let task = find(context, id).await?.unwrap_or_else(|| Arc::new(task));
    align(context, id, &task).await?;
    Ok(NamedRecurring::new(context, id, task))
}

/// Brings the waiting occurrences in line with a stored declaration.
async fn align(context: &Context, id: &str, task: &RecurringTask) -> Result<(), Problem> {
    if task.is_paused {
        return withdraw(context, id, task).await;
    }
    let (recurring, tasks) = (task.recurring(id)?, &context.space.tasks);
    Ok(restart(tasks, &recurring, task.since()).await?)
}

async fn withdraw(context: &Context, id: &str, task: &RecurringTask) -> Result<(), Problem> {
    let (recurring, tasks) = (task.recurring(id)?, &context.space.tasks);
    cancel_untried(tasks, &recurring, task.since(), None).await?;
    Ok(())
}

async fn note(context: &Context, verb: &str, one: &NamedRecurring, more: &str) {
    let detail = format!("{} {more}", one.id);
    let task_type = one.task.task_type.as_str();
    let operator = context.operator();
    operator.note(verb, task_type, detail.trim_end()).await;
}

fn nothing(id: &str) -> Problem {
    Problem::not_found(format!("there is no recurring task {id}"))
}
