//! Scheduler threads of a plugin, shared among its types.

use std::sync::Arc;

use delayq_core::TaskType;
use tokio::runtime::Handle;

use super::thread::SchedulerThread;
use crate::error::StartError;
use crate::settings::Settings;

/// Maximum number of threads unless the builder sets one. A thread costs an idle type more than its
/// polls do, and 32 of them keep every processor busy.
const MAX_THREADS: usize = 32;

/// The threads. Each of the first types gets one of its own; further types share them in rotation.
#[derive(Debug)]
pub(super) struct Threads {
    app: Option<Handle>,
    /// With `.threads(n)` they are numbered, as each may have several types from the start.
    are_numbered: bool,
    most: usize,
    started: Vec<Arc<SchedulerThread>>,
    assigned: usize,
}

impl Threads {
    pub(super) fn new(settings: &Settings, app: &Handle) -> Self {
        Self {
            app: settings.on_app_runtime.then(|| app.clone()),
            are_numbered: settings.threads.is_some(),
            most: settings.threads.unwrap_or(MAX_THREADS),
            started: Vec::new(),
            assigned: 0,
        }
    }

    /// The thread of the next type.
    pub(super) fn assign(
        &mut self,
        task_type: &TaskType,
    ) -> Result<Arc<SchedulerThread>, StartError> {
        let index = self.assigned % self.most;
        if self.started.get(index).is_none() {
            let name = if self.are_numbered {
                index.to_string()
            } else {
                task_type.to_string()
            };
            let thread = self.start(&format!("delayq-{name}"))?;
            self.started.push(Arc::new(thread));
        }
        let thread = self.started.get(index).expect("started above");
        self.assigned += 1;
        Ok(Arc::clone(thread))
    }

    /// A thread separate from those of the types.
    pub(super) fn start(&self, name: &str) -> Result<SchedulerThread, StartError> {
        match &self.app {
            Some(app) => Ok(SchedulerThread::on(app.clone())),
            None => SchedulerThread::start(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn beyond_32_types_share_the_threads_in_turn() {
        let mut threads = Threads::new(&Settings::default(), &Handle::current());
        let assign = |n| {
            let task_type = TaskType::new(format!("type.{n}")).unwrap();
            threads.assign(&task_type).unwrap()
        };
        let assigned: Vec<_> = (0..70).map(assign).collect();
        assert_eq!(threads.started.len(), 32);
        for (n, thread) in assigned.iter().enumerate() {
            assert!(Arc::ptr_eq(thread, &threads.started[n % 32]));
        }
    }
}
