//! Log entries for tasks that are imported from a file or from another store.

use super::{Action, ActionEnd, Operator, TransferError, TransferReport, many};

/// Writes the entry before. If that fails, no task is sent.
pub(super) async fn begin(operator: &Operator, action: &Action) -> Result<(), TransferError> {
    let unlogged = |error: delayq_plugin::Error| {
        TransferError::new(TransferReport::default(), None, error.into())
    };
    many::begin(operator, action, None).await.map_err(unlogged)
}

/// Writes the entry after, with the numbers of the report.
pub(super) async fn end(
    operator: &Operator,
    action: Action,
    done: Result<TransferReport, TransferError>,
) -> Result<TransferReport, TransferError> {
    let report = match &done {
        Ok(report) => report,
        Err(failed) => &*failed.report,
    };
    let TransferReport {
        existing, refused, ..
    } = *report;
    let action = action.counted(report.written);
    let action = match &done {
        Ok(_) => {
            let detail = format!("{existing} were there, {refused} refused");
            action.ended(ActionEnd::Done, detail)
        }
        Err(failed) => action.ended(ActionEnd::Failed, failed.to_string()),
    };
    operator.record(&action).await;
    done
}
