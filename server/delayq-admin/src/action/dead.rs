//! Actions on many dead tasks, which run as jobs.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use delayq_ops::{DeadSelection, read_pace};
use delayq_plugin::{Error, Result, TaskType};

use super::answer;
use super::many::{begin, note_stop};
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
