//! What became of tasks, from the history of the server.

use delayq_ops::{concerns as concerns_of, forget_history as forget_logged};
use delayq_plugin::history::{Fate, Forget, Forgotten, HistoryPage, HistoryQuery, TaskHistory};
use delayq_plugin::store::Concern;
use delayq_plugin::{TaskInfo, TaskType};

use crate::context::Context;
use crate::problem::Problem;

/// The history of the namespace.
///
/// # Errors
/// `no-history` if the server keeps none.
fn history(context: &Context) -> Result<TaskHistory, Problem> {
    context.space.tasks.history().ok_or_else(|| {
        let text = "this server keeps no history: set history = \"URL\" in its configuration";
        Problem::no_history(text)
    })
}

/// Refuses a caller that may not see all types, unless one type is named that it may see.
fn require_type(context: &Context, task_type: Option<&str>) -> Result<(), Problem> {
    match task_type {
        Some(task_type) => context.caller.require_type(task_type).map(drop),
        None => context.caller.require_all_types(),
    }
}

/// A page of the lives that a search finds, latest end first.
///
/// # Errors
/// `no-history` without one, `forbidden` for types that the token does not cover, and those of
/// the history database.
pub async fn search_history(
    context: &Context,
    query: &HistoryQuery,
) -> Result<HistoryPage, Problem> {
    let task_type = query.task_type.as_ref();
    require_type(context, task_type.map(TaskType::as_str))?;
    Ok(history(context)?.search(query).await?)
}

/// What becomes a problem of the store or the history later; nothing for a token that does not
/// cover all types.
pub async fn concerns(context: &Context) -> Vec<Concern> {
    match context.caller.require_all_types() {
        Ok(()) => concerns_of(&context.space.tasks).await,
        Err(_) => Vec::new(),
    }
}

/// A task, as the store knows it.
///
/// # Errors
/// `not-found` as [`no_task`] for a task that the store does not know, or not any more, and the
/// errors of the store.
pub async fn find(context: &Context, task_type: &str, id: &str) -> Result<TaskInfo, Problem> {
    let task = context.space.tasks.find(task_type, id).await?;
    task.ok_or_else(|| no_task(context, task_type, id))
}

/// The answer for a task that the store does not know. It names what knows more, if there is a
/// history: that is not asked, as it may be away.
pub fn no_task(context: &Context, task_type: &str, id: &str) -> Problem {
    let problem = Problem::no_task(task_type, id);
    match context.space.tasks.history() {
        Some(_) => problem.with_detail(
            "; if it ended longer ago than the store remembers, its history tells what became of \
             it (GET the path of the task and /history, or WhatBecameOf)",
        ),
        None => problem,
    }
}

/// What became of one task: the task as the store knows it, and its ended lives. If only the store
/// knows it because the history is away, its answer says so.
///
/// # Errors
/// `no-history` without one, `not-found` for a task that neither the store nor the history knows;
/// `unavailable` if the task is unknown and the history is away, or not all of what waits for it
/// was looked at.
pub async fn what_became_of(context: &Context, task_type: &str, id: &str) -> Result<Fate, Problem> {
    let fate = history(context)?.what_became_of(task_type, id).await?;
    if fate.is_unknown() {
        if fate.unread > 0 {
            let text = format!(
                "the store does not know task {id} of type {task_type}, and {} records are not \
                 shipped to the history yet: ask again later",
                fate.unread
            );
            return Err(Problem::unavailable(text));
        }
        return Err(Problem::no_task(task_type, id));
    }
    Ok(fate)
}

/// Removes lives from the history for good, and logs that.
///
/// # Errors
/// As [`search_history`].
pub async fn forget_history(context: &Context, whom: &Forget) -> Result<Forgotten, Problem> {
    let task_type = whom.task_type();
    require_type(context, task_type.map(TaskType::as_str))?;
    let history = history(context)?;
    Ok(forget_logged(&context.operator(), &history, whom).await?)
}
