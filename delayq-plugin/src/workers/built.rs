//! A worker as the builder collects it.

use std::fmt;
use std::sync::Arc;

use delayq_core::registry::{WorkerSchedule, registered_workers};
use delayq_core::{Components, Result, TaskWorker, WorkerOptions, WorkerRegistration};

use crate::error::StartError;
use crate::schedule::Schedule;

/// A worker that was built, before the plugin runs it: see
/// [`map_workers`](crate::DelayQueuePluginBuilder::map_workers).
#[derive(Clone)]
#[non_exhaustive]
pub struct BuiltWorker {
    /// The type or pattern that it serves.
    pub task_type: String,
    /// Its stable name, which distinguishes the workers of one type.
    pub name: String,
    /// Its options.
    pub options: WorkerOptions,
    /// The schedule of its type, whose occurrences have the message `null`; `None` if it does not
    /// recur.
    pub schedule: Option<Schedule>,
    /// The version of the schedule's messages.
    pub(crate) version: u32,
    /// The worker itself.
    pub worker: Arc<dyn TaskWorker>,
}

impl BuiltWorker {
    pub(crate) fn new(
        task_type: impl Into<String>,
        name: &str,
        options: WorkerOptions,
        worker: Arc<dyn TaskWorker>,
    ) -> Self {
        Self {
            task_type: task_type.into(),
            name: name.to_owned(),
            options,
            schedule: None,
            version: 1,
            worker,
        }
    }

    /// Builds the workers collected by the linker.
    pub(crate) fn registered(components: &Components) -> Result<Vec<Self>, StartError> {
        let mut built = Vec::new();
        for entry in registered_workers() {
            let WorkerRegistration { name, options, .. } = *entry;
            let worker =
                (entry.build)(components).map_err(|missing| StartError::MissingComponent {
                    task_type: entry.task_type.to_owned(),
                    name: name.to_owned(),
                    missing,
                })?;
            let schedule = entry.schedule.map(schedule).transpose();
            let schedule = schedule.map_err(|error| StartError::InvalidRecurring {
                task_type: entry.task_type.to_owned(),
                reason: error.to_string(),
            })?;
            let of_type =
                |task_type: &str| Self::new(task_type, name, options, Arc::clone(&worker));
            built.push(Self {
                schedule,
                version: entry.version,
                ..of_type(entry.task_type)
            });
            built.extend(entry.aliases.iter().map(|alias| of_type(alias)));
        }
        Ok(built)
    }
}

fn schedule(text: WorkerSchedule) -> Result<Schedule> {
    let schedule = Schedule::new(text.every)?;
    match text.zone {
        Some(zone) => schedule.zone(zone),
        None => Ok(schedule),
    }
}

impl fmt::Debug for BuiltWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name, self.task_type)
    }
}
