//! Actions on many dead tasks, which run as jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::response::Response;
use delayq_ops::{DeadSelection, Operator, read_pace};
use delayq_plugin::{Error, Result, TaskType};

use super::many::{begin, note_stop};
use super::{answer, back};
use crate::fields::Link;
use crate::flash::Flash;
use crate::job::{BulkJob, Errand};
use crate::page::dead_change::{DeadChange, Discard, Fate, Requeue};
use crate::page::groups_change::{PickedGroup, ask, count_groups, is_sure};
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
        let interval = pace(&visit)?;
        let (selection, errand) = errand::<Requeue>(&visit).await?;
        let operator = visit.operator();
        let work = move |job: Arc<BulkJob>| async move {
            let progress = |done, count| job.advance(done, count);
            let done = operator.requeue(&selection, interval, progress).await;
            said(done.map_err(|error| error.to_string())?, "requeued")
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
            said(done.map_err(|error| error.to_string())?, "discarded")
        };
        Ok(begin(&visit, errand, work).await)
    };
    answer(&visit, &Link::to("/dead"), begun.await)
}

/// Shows how many tasks the selected groups have. After that is confirmed, changes the groups one
/// after the other, as one job.
async fn change_picked<F: Fate>(visit: Visit) -> Response {
    let home = back(&visit, "/dead");
    let changed = async {
        let groups = PickedGroup::read_all(&visit.fields)?;
        let counts = count_groups(visit.tasks(), &groups).await?;
        if !is_sure(&visit.fields) {
            return Ok(ask::<F>(&visit, counts, &home));
        }
        let interval = F::HAS_RATE.then(|| pace(&visit)).transpose()?;
        let selections: Vec<_> = groups.iter().map(PickedGroup::selection).collect();
        let words: Vec<_> = selections.iter().map(DeadSelection::to_string).collect();
        let mut types: Vec<_> = groups.iter().map(|one| one.task_type.as_str()).collect();
        types.dedup();
        let errand = Errand {
            verb: F::VERB,
            task_type: match types.as_slice() {
                [one] => (*one).to_owned(),
                _ => counted(groups.len() as u64, "group"),
            },
            target: words.join("; "),
            actor: visit.viewer.name.clone(),
            count: counts.iter().map(|one| one.count).sum(),
        };
        let operator = visit.operator();
        let work = move |job| change_all(operator, selections, interval, job);
        let flash = begin(&visit, errand, work).await;
        Ok(visit.go(&home, &flash))
    };
    changed
        .await
        .unwrap_or_else(|error| answer(&visit, &home, Err(error)))
}

/// Requeues each selection, or discards it if there is no interval. Goes on after an error, and
/// returns the first one.
async fn change_all(
    operator: Operator,
    selections: Vec<DeadSelection>,
    interval: Option<Duration>,
    job: Arc<BulkJob>,
) -> Result<String, String> {
    let (count, mut sum, mut failed) = (job.count(), 0, None);
    for selection in &selections {
        let mut here = 0;
        let progress = |done, _| {
            here = done;
            job.advance(sum + done, count);
        };
        let changed = match interval {
            Some(interval) => operator.requeue(selection, interval, progress).await,
            None => operator.discard(selection, progress).await,
        };
        failed = failed.or(changed.err());
        sum += here;
    }
    match failed {
        Some(error) => Err(error.to_string()),
        None => said(sum, interval.map_or("discarded", |_| "requeued")),
    }
}

/// The result of a change of dead tasks. That none was changed is no success.
fn said(count: u64, done: &str) -> Result<String, String> {
    match count {
        0 => Err("no dead task matches the selection any more".to_owned()),
        count => Ok(format!("{} {done}", counted(count, "dead task"))),
    }
}

/// The interval of the rate in a form; zero if there is none.
fn pace(visit: &Visit) -> Result<Duration> {
    let interval = visit.fields.some("rate").map(read_pace).transpose();
    let interval = interval.map_err(|reason| Error::invalid("rate", reason))?;
    Ok(interval.unwrap_or_default())
}

pub(crate) async fn requeue_picked(Extension(visit): Extension<Visit>) -> Response {
    change_picked::<Requeue>(visit).await
}

pub(crate) async fn discard_picked(Extension(visit): Extension<Visit>) -> Response {
    change_picked::<Discard>(visit).await
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
