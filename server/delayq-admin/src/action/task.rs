//! Actions on one task.

use std::time::Duration;

use axum::Extension;
use axum::response::Response;
use delayq_ops::DeadSelection;
use delayq_plugin::store::{CancelOutcome, ChangeOutcome};
use delayq_plugin::{Error, Result, TaskId};

use super::{answer, read_when};
use crate::fields::Link;
use crate::flash::Flash;
use crate::message::{Form, entered};
use crate::visit::Visit;

/// The task that a form names.
struct NamedTask<'a> {
    task_type: &'a str,
    id: &'a str,
}

fn named(visit: &Visit) -> NamedTask<'_> {
    NamedTask {
        task_type: visit.fields.get("type"),
        id: visit.fields.get("id"),
    }
}

impl NamedTask<'_> {
    fn link(&self) -> Link {
        Link::to("/task")
            .with("type", self.task_type)
            .with("id", self.id)
    }
}

fn changed(outcome: ChangeOutcome, done: &str) -> Flash {
    match outcome {
        ChangeOutcome::Changed { due_at } => Flash::done(format!("{done}: due {due_at}")),
        ChangeOutcome::Running => Flash::failed("not changed: it is running"),
        ChangeOutcome::Finished(state) => Flash::failed(format!("not changed: it is {state}")),
        _ => Flash::failed("not changed: the store has no such task"),
    }
}

pub(crate) async fn cancel(Extension(visit): Extension<Visit>) -> Response {
    let task = named(&visit);
    let outcome = visit.operator().cancel(task.task_type, task.id).await;
    let said = outcome.map(|outcome| match outcome {
        CancelOutcome::Cancelled => Flash::done("cancelled: it will not start"),
        CancelOutcome::Running => {
            Flash::done("it is running: asked to stop, and it is not tried again")
        }
        CancelOutcome::Finished(state) => Flash::failed(format!("not cancelled: it is {state}")),
        _ => Flash::failed("not cancelled: the store has no such task"),
    });
    answer(&visit, &task.link(), said)
}

pub(crate) async fn run_now(Extension(visit): Extension<Visit>) -> Response {
    let task = named(&visit);
    let outcome = visit.operator().run_now(task.task_type, task.id).await;
    answer(
        &visit,
        &task.link(),
        outcome.map(|outcome| changed(outcome, "it may start now")),
    )
}

pub(crate) async fn reschedule(Extension(visit): Extension<Visit>) -> Response {
    let task = named(&visit);
    let moved = async {
        let when = read_when(visit.fields.get("when"));
        let when = when.map_err(|reason| Error::invalid("time", reason))?;
        let moved = visit
            .operator()
            .reschedule(task.task_type, task.id, when)
            .await?;
        Ok(changed(moved, "moved"))
    };
    answer(&visit, &task.link(), moved.await)
}

pub(crate) async fn edit(Extension(visit): Extension<Visit>) -> Response {
    let task = named(&visit);
    let edited = async {
        let form = Form::read(visit.fields.get("form")).unwrap_or(Form::Text);
        let message = entered(visit.fields.raw("message"), form);
        let message = message.map_err(|reason| Error::invalid("message", reason))?;
        let updated = visit
            .operator()
            .update(task.task_type, task.id, message)
            .await?;
        Ok(changed(updated, "message saved"))
    };
    answer(&visit, &task.link(), edited.await)
}

/// The dead task that a form names.
fn dead(task: &NamedTask<'_>) -> Result<DeadSelection> {
    Ok(DeadSelection::of(task.task_type).ids(vec![TaskId::new(task.id)?]))
}

pub(crate) async fn requeue(Extension(visit): Extension<Visit>) -> Response {
    let task = named(&visit);
    let requeued = async {
        let (operator, selection) = (visit.operator(), dead(&task)?);
        let count = operator.requeue(&selection, Duration::ZERO, |_, _| ());
        Ok(match count.await? {
            0 => Flash::failed("not requeued: it is not dead"),
            _ => Flash::done("requeued: its attempts are reset"),
        })
    };
    answer(&visit, &task.link(), requeued.await)
}

pub(crate) async fn discard(Extension(visit): Extension<Visit>) -> Response {
    let task = named(&visit);
    let discarded = async {
        Ok(
            match visit.operator().discard(&dead(&task)?, |_, _| ()).await? {
                0 => Flash::failed("not discarded: it is not dead"),
                _ => Flash::done("discarded"),
            },
        )
    };
    answer(&visit, &task.link(), discarded.await)
}
