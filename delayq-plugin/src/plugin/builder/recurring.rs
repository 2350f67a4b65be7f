//! Recurring tasks that are declared by the builder.

use super::DelayQueuePluginBuilder;
use crate::recurring::Recurring;

impl DelayQueuePluginBuilder {
    /// Declares a task that recurs: each occurrence runs once over all instances that declare it.
    /// `#[task_worker(type = "..", every = "..")]` does the same for a worker whose message is
    /// nothing. `start` fails when no worker here serves the type, and for two of one type and
    /// name.
    ///
    /// ```
    /// use delayq_plugin::{DelayQueuePlugin, Recurring};
    ///
    /// # fn main() -> delayq_plugin::Result<()> {
    /// let report = Recurring::new("report.daily", "0 9 * * *")?.zone("Europe/Berlin")?;
    /// let builder = DelayQueuePlugin::builder().recurring(report);
    /// # let _ = builder;
    /// # Ok(()) }
    /// ```
    pub fn recurring(mut self, recurring: Recurring) -> Self {
        self.recurring.push(recurring);
        self
    }
}
