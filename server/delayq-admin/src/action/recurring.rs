//! Actions on recurring tasks and batches.

use axum::Extension;
use axum::response::Response;

use super::{answer, back};
use crate::fields::Link;
use crate::flash::Flash;
use crate::said::counted;
use crate::visit::Visit;

/// Cancels the waiting occurrences of the recurring task that the field `whole` names: its type, a
/// blank and its name.
pub(crate) async fn remove(Extension(visit): Extension<Visit>) -> Response {
    let whole = visit.fields.raw("whole");
    let (task_type, name) = whole.split_once(' ').unwrap_or((whole, ""));
    let removed = visit.operator().remove_recurring(task_type, name).await;
    let said = removed.map(|count| match count {
        0 => Flash::failed("not removed: no run of it waits"),
        count => Flash::done(format!(
            "removed: {} cancelled",
            counted(count as u64, "waiting run")
        )),
    });
    answer(&visit, &back(&visit, "/recurring"), said)
}

/// Cancels the batch that the field `name` names.
pub(crate) async fn cancel_batch(Extension(visit): Extension<Visit>) -> Response {
    let name = visit.fields.get("name");
    let cancelled = visit.operator().cancel_batch(name).await;
    let said = cancelled.map(|report| match report {
        None => Flash::failed("not cancelled: no batch of this name waits"),
        Some(report) => Flash::done(format!(
            "batch cancelled: {} cancelled, {} asked to stop",
            counted(report.changed, "task"),
            counted(report.running, "running task")
        )),
    });
    let link = Link::to("/batch").with("name", name);
    answer(&visit, &link, said)
}
