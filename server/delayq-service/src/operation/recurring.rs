//! Recurring tasks that are declared to the server.

use std::sync::Arc;

use delayq_core::job::{check_content, check_headers};
use delayq_plugin::Timestamp;
use delayq_plugin::recurrence::{cancel_untried, ensure_one, restart};

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

/// Declares a recurring task, or changes it. The next occurrence waits when this returns.
pub async fn set(
    context: &Context,
    id: &str,
    task: RecurringTask,
) -> Result<NamedRecurring, Problem> {
    context.caller.require_type(task.task_type.as_str())?;
    check(context, id, &task)?;
    let known = find(context, id).await?;
    if let Some(known) = known.as_ref().filter(|known| known.is_same(&task)) {
        if !known.is_paused {
            let (recurring, since) = (known.recurring(id)?, known.since());
            let tasks = &context.space.tasks;
            ensure_one(tasks, &recurring, since).await?;
        }
        return Ok(NamedRecurring::new(context, id, Arc::clone(known)));
    }
    let every = task.every.clone();
    let stored = change(context, id, known, task).await?;
    note(context, "set-recurring", &stored, &every).await;
    Ok(stored)
}

/// Pauses a recurring task, or ends its pause.
pub async fn pause(
    context: &Context,
    id: &str,
    is_paused: bool,
) -> Result<NamedRecurring, Problem> {
    let known = find(context, id).await?.ok_or_else(|| nothing(id))?;
    if known.is_paused == is_paused {
        return Ok(NamedRecurring::new(context, id, known));
    }
    let mut task = RecurringTask::clone(&known);
    task.is_paused = is_paused;
    let stored = change(context, id, Some(known), task).await?;
    let verb = match is_paused {
        true => "pause-recurring",
        false => "resume-recurring",
    };
    note(context, verb, &stored, "").await;
    Ok(stored)
}

/// Removes a recurring task and cancels its waiting occurrence.
pub async fn remove(context: &Context, id: &str) -> Result<(), Problem> {
    let task = find(context, id).await?.ok_or_else(|| nothing(id))?;
    context.space.recurring.remove(id).await?;
    withdraw(context, id, &task).await?;
    let removed = NamedRecurring::new(context, id, task);
    note(context, "remove-recurring", &removed, "").await;
    Ok(())
}

fn check(context: &Context, id: &str, task: &RecurringTask) -> Result<(), Problem> {
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
    check_content(&task.headers, &message)?;
    refuse_reserved(task.headers.keys())?;
    check_headers(&task.headers)?;
    task.recurring(id).map(drop)?;
    Ok(())
}

async fn find(context: &Context, id: &str) -> Result<Option<Arc<RecurringTask>>, Problem> {
    let found = context.space.recurring.all().await?.get(id).cloned();
    if let Some(task) = &found {
        context.caller.require_type(task.task_type.as_str())?;
    }
    Ok(found)
}

/// Stores a changed declaration, and sends its next occurrence instead of that of `known`.
async fn change(
    context: &Context,
    id: &str,
    known: Option<Arc<RecurringTask>>,
    task: RecurringTask,
) -> Result<NamedRecurring, Problem> {
    let space = &context.space;
    let now = space.tasks.clock().now();
    // Of two changes the later one is right, also where clocks differ.
    let after = known.as_ref().map(|known| known.since().as_millis() + 1);
    let since = Timestamp::from_millis(now.as_millis().max(after.unwrap_or(0)));
    let task = Arc::new(task.changed(since));
    space.recurring.write(id, &task).await?;
    if let Some(known) = &known
        && (task.is_paused || known.task_type != task.task_type)
    {
        withdraw(context, id, known).await?;
    }
    if !task.is_paused {
        let recurring = task.recurring(id)?;
        restart(&space.tasks, &recurring, since).await?;
    }
    Ok(NamedRecurring::new(context, id, task))
}

async fn withdraw(context: &Context, id: &str, task: &RecurringTask) -> Result<(), Problem> {
    let recurring = task.recurring(id)?;
    cancel_untried(&context.space.tasks, &recurring, None).await?;
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
