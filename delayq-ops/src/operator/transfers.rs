//! Tasks that come in from a file or from another store: logged before and after.

use std::io::BufRead;

use delayq_plugin::TaskSubmitService;

use super::{Action, ActionEnd, Operator};
use crate::transfer::{DeadTasks, Progress, TransferError, TransferReport, copy, import};

impl Operator {
    /// Sends the tasks of a file, as [`import`]. `file` is its name, for the log.
    ///
    /// # Errors
    /// As `import`, and those of the log, of which no task is sent.
    pub async fn import(
        &self,
        file: &str,
        dead: DeadTasks,
        reader: &mut (dyn BufRead + Send),
        progress: Progress<'_>,
    ) -> Result<TransferReport, TransferError> {
        let action = self.action("import", "").on(file);
        self.begin_transfer(&action).await?;
        let done = import(&self.tasks, dead, reader, progress).await;
        self.end_transfer(action, done).await
    }

    /// Sends the tasks of another store to this one, as [`copy`].
    ///
    /// # Errors
    /// As `copy`, and those of the log, of which no task is sent.
    pub async fn copy_from(
        &self,
        from: &TaskSubmitService,
        types: &str,
        dead: DeadTasks,
        progress: Progress<'_>,
    ) -> Result<TransferReport, TransferError> {
        let place = format!("from {}", from.store().name());
        let action = self.action("copy", types).on(place);
        self.begin_transfer(&action).await?;
        let done = copy(from, &self.tasks, types, dead, progress).await;
        self.end_transfer(action, done).await
    }

    async fn begin_transfer(&self, action: &Action) -> Result<(), TransferError> {
        let unlogged = |error: delayq_plugin::Error| {
            TransferError::new(TransferReport::default(), None, error.into())
        };
        self.begin(action, None).await.map_err(unlogged)
    }

    async fn end_transfer(
        &self,
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
        self.log_done(&action).await;
        done
    }
}
