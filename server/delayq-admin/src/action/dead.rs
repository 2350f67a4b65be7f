//! Actions on many dead tasks, which run as jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::response::Response;
use delayq_ops::{DeadSelection, read_pace};
use delayq_plugin::{Error, Result, TaskType};

use super::many::{begin, note_stop};
use super::{answer, back};
use crate::fields::Link;
use crate::flash::Flash;
use crate::job::{BulkJob, Errand};
use crate::page::dead_change::{DeadChange, Discard, Fate, Requeue};
use crate::said::counted;
use crate::visit::Visit;

/// The selection in a form, and its number of tasks.
async fn errand<F: Fate>(visit: &Visit) -> Result<(DeadSelection, Errand)> {
    let change = DeadChange::<F>::read_fields(&visit.fields);
    TaskType::new(&change.task_type)?;
    let selection = change.selection()?;
    let errand = Errand {
        verb: F::VERB,
        task_type: change.task_type.clone(),
        target: selection.to_string(),
        actor: visit.viewer.name.clone(),
        count: selection.count(visit.tasks()).await?,
    };
    Ok((selection, errand))
}

pub(crate) async fn requeue(Extension(visit): Extension<Visit>) -> Response {
    let begun = async {
        let interval = visit.fields.some("rate").map(read_pace).transpose();
        let interval = interval.map(Option::unwrap_or_default);
        let interval = interval.map_err(|reason| Error::invalid("rate", reason))?;
        let (selection, errand) = errand::<Requeue>(&visit).await?;
        let operator = visit.operator();
        let work = move |job: Arc<BulkJob>| async move {
            let progress = |done, count| job.advance(done, count);
            let done = operator.requeue(&selection, interval, progress).await;
            done.map(|count| format!("{} requeued", counted(count, "dead task")))
                .map_err(|error| error.to_string())
        };
        Ok(begin(&visit, errand, work).await)
    };
    answer(&visit, &Link::to("/dead"), begun.await)
}

pub(crate) async fn discard(Extension(visit): Extension<Visit>) -> Response {
    let begun = async {
        let (selection, errand) = errand::<Discard>(&visit).await?;
        let operator = visit.operator();
        let work = move |job: Arc<BulkJob>| async move {
            let progress = |done, count| job.advance(done, count);
            let done = operator.discard(&selection, progress).await;
            done.map(|count| format!("{} discarded", counted(count, "dead task")))
                .map_err(|error| error.to_string())
        };
        Ok(begin(&visit, errand, work).await)
    };
    answer(&visit, &Link::to("/dead"), begun.await)
}

/// The groups that a form selects, each a type, a blank and an error.
fn picked(visit: &Visit) -> Result<Vec<DeadSelection>> {
    let selection = |text: &str| {
        let (task_type, error) = text.split_once(' ').unwrap_or((text, ""));
        TaskType::new(task_type)?;
        let all = DeadSelection::of(task_type);
        Ok(if error.trim().is_empty() {
            all.without_error()
        } else {
            all.group(error)
        })
    };
    let groups: Result<Vec<_>> = visit.fields.all("group").map(selection).collect();
    match groups? {
        none if none.is_empty() => Err(Error::invalid("selection", "select at least one group")),
        groups => Ok(groups),
    }
}

/// Changes the selected groups one after the other, as one job.
async fn change_picked(visit: &Visit, interval: Option<Duration>) -> Result<Flash> {
    let groups = picked(visit)?;
    let (verb, done) = match interval {
        Some(_) => ("requeue", "requeued"),
        None => ("discard", "discarded"),
    };
    let mut count = 0;
    for group in &groups {
        count += group.count(visit.tasks()).await?;
    }
    let errand = Errand {
        verb,
        task_type: match groups.as_slice() {
            [one] => one.task_type().to_owned(),
            _ => counted(groups.len() as u64, "group"),
        },
        target: groups
            .iter()
            .map(DeadSelection::to_string)
            .collect::<Vec<_>>()
            .join("; "),
        actor: visit.viewer.name.clone(),
        count,
    };
    let operator = visit.operator();
    let work = move |job: Arc<BulkJob>| async move {
        let mut sum = 0;
        for group in &groups {
            let progress = |done, _| job.advance(sum + done, count);
            let changed = match interval {
                Some(interval) => operator.requeue(group, interval, progress).await,
                None => operator.discard(group, progress).await,
            };
            sum += changed.map_err(|error| error.to_string())?;
        }
        Ok(format!("{} {done}", counted(sum, "dead task")))
    };
    Ok(begin(visit, errand, work).await)
}

pub(crate) async fn requeue_picked(Extension(visit): Extension<Visit>) -> Response {
    let begun = async {
        let interval = visit.fields.some("rate").map(read_pace).transpose();
        let interval = interval.map_err(|reason| Error::invalid("rate", reason))?;
        change_picked(&visit, Some(interval.unwrap_or_default())).await
    };
    answer(&visit, &back(&visit, "/dead"), begun.await)
}

pub(crate) async fn discard_picked(Extension(visit): Extension<Visit>) -> Response {
    let begun = change_picked(&visit, None).await;
    answer(&visit, &back(&visit, "/dead"), begun)
}

/// Stops a job. Completed changes stay; the log has their number.
pub(crate) async fn stop(Extension(visit): Extension<Visit>) -> Response {
    let job = visit
        .fields
        .number("job")
        .and_then(|number| visit.app.jobs.find(number));
    let flash = match job {
        None => Flash::failed("there is no such job in this process"),
        Some(job) if !job.stop(&visit.viewer.name) => Flash::failed("it had ended"),
        Some(job) => {
            note_stop(&visit, &job).await;
            Flash::done(format!("stopped after {}", counted(job.done(), "task")))
        }
    };
    visit.go(&Link::to("/dead"), &flash)
}
