//! Actions on the tasks that a viewer has selected in a list.

use std::time::Duration;

use axum::Extension;
use axum::response::Response;
use delayq_ops::DeadSelection;
use delayq_plugin::store::{CancelOutcome, ChangeOutcome};
use delayq_plugin::{Error, Result, When};

use super::{back, read_when};
use crate::fields::Link;
use crate::flash::Flash;
use crate::page::picked::Picked;
use crate::said::counted;
use crate::visit::Visit;

/// What became of the selected tasks.
#[derive(Default)]
struct Tally {
    done: u64,
    /// Running tasks that were asked to stop.
    asked: u64,
    /// Tasks in a state that does not allow the action, or that are gone.
    passed: u64,
}

impl Tally {
    /// The result of an action, such as `cancelled`.
    fn flash(&self, done: &str, ended: Result<()>) -> Flash {
        let mut said = format!("{} {done}", counted(self.done, "task"));
        if self.asked > 0 {
            said = format!(
                "{said}, {} asked to stop",
                counted(self.asked, "running task")
            );
        }
        if self.passed > 0 {
            let passed = counted(self.passed, "task");
            said = format!("{said}; {passed} unchanged: not in a state that allows it");
        }
        match ended {
            Err(error) => Flash::failed(format!("{said}; stopped by an error: {error}")),
            Ok(()) if self.done + self.asked == 0 => Flash::failed(said),
            Ok(()) => Flash::done(said),
        }
    }

    fn changed(&mut self, outcome: &ChangeOutcome) {
        match outcome {
            ChangeOutcome::Changed { .. } => self.done += 1,
            _ => self.passed += 1,
        }
    }
}

fn home(visit: &Visit) -> Link {
    back(visit, "/")
}

/// Answers with the result, or with the reason why nothing was tried.
fn answer(visit: &Visit, done: Result<Flash>) -> Response {
    super::answer(visit, &home(visit), done)
}

pub(crate) async fn cancel(Extension(visit): Extension<Visit>) -> Response {
    let done = async {
        let picked = Picked::read(&visit.fields)?;
        let (operator, mut tally) = (visit.operator(), Tally::default());
        let ended = async {
            for (task_type, ids) in &picked.by_type {
                for id in ids {
                    match operator.cancel(task_type, id.as_str()).await? {
                        CancelOutcome::Cancelled => tally.done += 1,
                        CancelOutcome::Running => tally.asked += 1,
                        _ => tally.passed += 1,
                    }
                }
            }
            Ok(())
        };
        let ended = ended.await;
        Ok(tally.flash("cancelled", ended))
    };
    answer(&visit, done.await)
}

/// Moves the selected tasks to a time, or to now.
async fn moved(visit: &Visit, when: Option<When>) -> Result<Flash> {
    let picked = Picked::read(&visit.fields)?;
    let (operator, mut tally) = (visit.operator(), Tally::default());
    let ended = async {
        for (task_type, ids) in &picked.by_type {
            for id in ids.iter().map(delayq_plugin::TaskId::as_str) {
                let outcome = match when {
                    Some(when) => operator.reschedule(task_type, id, when).await?,
                    None => operator.run_now(task_type, id).await?,
                };
                tally.changed(&outcome);
            }
        }
        Ok(())
    };
    let ended = ended.await;
    let done = if when.is_some() { "moved" } else { "due now" };
    Ok(tally.flash(done, ended))
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
    let ended = async {
        for (task_type, ids) in &picked.by_type {
            let selection = DeadSelection::of(task_type).ids(ids.clone());
            let changed = if is_requeue {
                operator
                    .requeue(&selection, Duration::ZERO, |_, _| ())
                    .await?
            } else {
                operator.discard(&selection, |_, _| ()).await?
            };
            tally.done += changed;
            tally.passed += (ids.len() as u64).saturating_sub(changed);
        }
        Ok(())
    };
    let ended = ended.await;
    let done = if is_requeue { "requeued" } else { "discarded" };
    Ok(tally.flash(done, ended))
}

pub(crate) async fn requeue(Extension(visit): Extension<Visit>) -> Response {
    let done = dead(&visit, true).await;
    answer(&visit, done)
}

pub(crate) async fn discard(Extension(visit): Extension<Visit>) -> Response {
    let done = dead(&visit, false).await;
    answer(&visit, done)
}
