//! Starts jobs, and cancels many tasks.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::response::Response;
use delayq_plugin::store::ActionEnd;
use delayq_plugin::{Result, TaskType};

use super::answer;
use crate::fields::Link;
use crate::flash::Flash;
use crate::job::{BulkJob, Errand, JobState};
use crate::page::tasks_cancel::TasksCancel;
use crate::said::counted;
use crate::visit::Visit;

/// How long an action waits for its job, so that the next page already shows the result of a short
/// one.
const SOON: Duration = Duration::from_millis(700);

/// Starts a job and waits a moment for its end.
pub(super) async fn begin<F>(
    visit: &Visit,
    errand: Errand,
    work: impl FnOnce(Arc<BulkJob>) -> F,
) -> Flash
where
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    let viewing = visit.clone();
    let now = visit.tasks().clock().now();
    let job = visit.app.jobs.begin(errand, now, |job| {
        let work = work(Arc::clone(&job));
        async move {
            let done = tokio::select! {
                done = work => done,
                () = viewing.ended() => {
                    note_stop(&viewing, &job).await;
                    Err(format!("{} is signed out", viewing.viewer.name))
                }
            };
            viewing.app.outdate();
            done
        }
    });
    let Some(job) = job else {
        return Flash::failed("not begun: eight jobs run already. Wait for one, or stop one");
    };
    let _ = tokio::time::timeout(SOON, job.ended()).await;
    match job.state() {
        JobState::Running => Flash::done(format!(
            "{} of {} runs in the background: see its progress below",
            job.verb,
            counted(job.count(), "task")
        )),
        JobState::Done(said) => Flash::done(said),
        JobState::Failed(error) => Flash::failed(match job.done() {
            0 => format!("{} failed: {error}", job.verb),
            done => format!(
                "{} failed after {}: {error}",
                job.verb,
                counted(done, "task")
            ),
        }),
        JobState::Stopped(viewer) => Flash::failed(format!("stopped by {viewer}")),
    }
}

/// Logs that a job was stopped before its end. Completed changes stay.
pub(super) async fn note_stop(visit: &Visit, job: &BulkJob) {
    let verb = format!("stop {}", job.verb);
    let operator = visit.operator();
    let action = operator.action(&verb, &job.task_type).on(&job.target);
    let action = action.counted(job.done());
    let action = action.ended(ActionEnd::Done, format!("of {}", job.count()));
    operator.record(&action).await;
}

/// Cancels every matching scheduled task.
pub(crate) async fn cancel(Extension(visit): Extension<Visit>) -> Response {
    let change = TasksCancel::read_fields(&visit.fields);
    let begun = async {
        TaskType::new(&change.task_type)?;
        let filter = change.filter()?;
        let (operator, task_type) = (visit.operator(), change.task_type.clone());
        let errand = Errand {
            verb: "cancel",
            task_type: task_type.clone(),
            target: filter.to_string(),
            actor: visit.viewer.name.clone(),
            count: visit.tasks().count(&task_type, &filter).await?,
        };
        let work = move |job: Arc<BulkJob>| async move {
            let filter = filter.state(delayq_plugin::TaskState::Scheduled);
            let done = operator.cancel_all(&task_type, &filter).await;
            let report = done.map_err(|failed| failed.error.to_string())?;
            job.advance(report.changed, report.changed);
            Ok(format!("{} cancelled", counted(report.changed, "task")))
        };
        Ok(begin(&visit, errand, work).await)
    };
    let link = Link::to("/tasks").with("type", &change.task_type);
    answer(&visit, &link, begun.await)
}
