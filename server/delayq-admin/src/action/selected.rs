//! Actions on the tasks that a viewer has selected in a list.

use std::time::Duration;

use axum::Extension;
use axum::response::Response;
use delayq_ops::DeadSelection;
use delayq_plugin::store::CancelOutcome;
use delayq_plugin::{Error, Result, When};

use super::tally::Tally;
use super::{back, read_when};
use crate::fields::Link;
use crate::flash::Flash;
use crate::page::picked::Picked;
use crate::visit::Visit;

fn home(visit: &Visit) -> Link {
    back(visit, "/")
}

/// Answers with the result, or with the reason why nothing was tried.
fn answer(visit: &Visit, done: Result<Flash>) -> Response {
    super::answer(visit, &home(visit), done)
}

/// Cancels the selected tasks.
async fn cancelled(visit: &Visit) -> Result<Flash> {
    let picked = Picked::read(&visit.fields)?;
    let (operator, mut tally) = (visit.operator(), Tally::default());
    for (task_type, ids) in &picked.by_type {
        for id in ids {
            if !tally.goes_on() {
                tally.left += 1;
                continue;
            }
            match operator.cancel(task_type, id.as_str()).await {
                Ok(CancelOutcome::Cancelled) => tally.done += 1,
                Ok(CancelOutcome::Running) => tally.asked += 1,
                Ok(_) => tally.passed += 1,
                Err(error) => tally.failed(1, error),
            }
        }
    }
    Ok(tally.flash("task", "cancelled"))
}

pub(crate) async fn cancel(Extension(visit): Extension<Visit>) -> Response {
    let done = cancelled(&visit).await;
    answer(&visit, done)
}

/// Moves the selected tasks to a time, or to now.
async fn moved(visit: &Visit, when: Option<When>) -> Result<Flash> {
    let picked = Picked::read(&visit.fields)?;
    let (operator, mut tally) = (visit.operator(), Tally::default());
    for (task_type, ids) in &picked.by_type {
        for id in ids.iter().map(delayq_plugin::TaskId::as_str) {
            if !tally.goes_on() {
                tally.left += 1;
                continue;
            }
            let outcome = match when {
                Some(when) => operator.reschedule(task_type, id, when).await,
                None => operator.run_now(task_type, id).await,
            };
            match outcome {
                Ok(outcome) => tally.changed(&outcome),
                Err(error) => tally.failed(1, error),
            }
        }
    }
    let done = if when.is_some() { "moved" } else { "due now" };
    Ok(tally.flash("task", done))
}

pub(crate) async fn run_now(Extension(visit): Extension<Visit>) -> Response {
    let done = moved(&visit, None).await;
    answer(&visit, done)
}

pub(crate) async fn reschedule(Extension(visit): Extension<Visit>) -> Response {
    let done = async {
        let when = read_when(visit.fields.get("when"));
        let when = when.map_err(|reason| Error::invalid("time", reason))?;
        moved(&visit, Some(when)).await
    };
    answer(&visit, done.await)
}

/// Changes the selected dead tasks of each type.
async fn dead(visit: &Visit, is_requeue: bool) -> Result<Flash> {
    let picked = Picked::read(&visit.fields)?;
    let (operator, mut tally) = (visit.operator(), Tally::default());
    for (task_type, ids) in &picked.by_type {
        let count = ids.len() as u64;
        if !tally.goes_on() {
            tally.left += count;
            continue;
        }
        let selection = DeadSelection::of(task_type).ids(ids.clone());
        let mut here = 0;
        let progress = |done, _| here = done;
        let changed = if is_requeue {
            let interval = Duration::ZERO;
            operator.requeue(&selection, interval, progress).await
        } else {
            operator.discard(&selection, progress).await
        };
        tally.done += here;
        let rest = count.saturating_sub(here);
        match changed {
            Ok(_) => tally.passed += rest,
            Err(error) => tally.failed(rest, error),
        }
    }
    let done = if is_requeue { "requeued" } else { "discarded" };
    Ok(tally.flash("task", done))
}

pub(crate) async fn requeue(Extension(visit): Extension<Visit>) -> Response {
    let done = dead(&visit, true).await;
    answer(&visit, done)
}

pub(crate) async fn discard(Extension(visit): Extension<Visit>) -> Response {
    let done = dead(&visit, false).await;
    answer(&visit, done)
}
