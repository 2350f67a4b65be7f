//! The planned workers, until the plugin starts.

use std::sync::Arc;

use delayq_core::Components;
use delayq_core::registry::registered_workers;

use crate::attempt::Innermost;
use crate::config::Config;
use crate::error::StartError;
use crate::middleware::MiddlewareStack;
use crate::recurring::Recurring;
use crate::slots::Slots;
use crate::submit::TaskSubmitService;
use crate::watcher::Watcher;
use crate::workers::{BuiltWorker, WorkerRegistry};

/// The planned workers and the changes to them.
#[derive(Default)]
pub(super) struct WorkerPlan {
    /// The workers added by hand.
    pub(super) workers: Vec<BuiltWorker>,
    pub(super) recurring: Vec<Recurring>,
    /// Changes to each worker before it runs.
    pub(super) maps: Vec<Box<dyn Fn(BuiltWorker) -> BuiltWorker + Send + Sync>>,
    pub(super) without_registered: bool,
    /// Workers will be added while the plugin runs.
    pub(super) is_open: bool,
    pub(super) expected: Vec<String>,
    pub(super) only: Vec<String>,
}

/// Everything needed to build workers.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) components: &'a Components,
    pub(super) middleware: &'a MiddlewareStack,
    pub(super) slots: &'a Slots,
    pub(super) tasks: &'a TaskSubmitService,
    pub(super) config: &'a Config,
}

impl WorkerPlan {
    /// True if no worker was added and none is linked in.
    pub(super) fn is_empty(&self) -> bool {
        let is_linked = !self.without_registered && registered_workers().next().is_some();
        self.workers.is_empty() && !is_linked && !self.is_open
    }

    /// Builds the workers.
    pub(super) fn registry(&self, around: &Surroundings<'_>) -> Result<WorkerRegistry, StartError> {
        let mut registry = WorkerRegistry::default();
        let mut workers = Vec::new();
        if !self.without_registered {
            workers = BuiltWorker::registered(around.components)?;
        }
        workers.extend(self.workers.iter().cloned());
        for worker in workers {
            let built = self.maps.iter().fold(worker, |built, map| map(built));
            registry.add(within(around.middleware, built, around.tasks))?;
        }
        registry.check_config(around.config)?;
        registry.configure(Arc::new(around.config.clone()));
        for recurring in &self.recurring {
            registry.declare(recurring.clone())?;
        }
        registry.check_recurring()?;
        registry.check_pools(around.slots)?;
        registry.keep_only(&self.only)?;
        registry.expect(&self.expected)?;
        registry.watch_batches(Watcher::new(around.tasks))?;
        Ok(registry)
    }
}

/// Wraps a worker in the middleware.
pub(in crate::plugin) fn within(
    middleware: &MiddlewareStack,
    mut built: BuiltWorker,
    tasks: &TaskSubmitService,
) -> BuiltWorker {
    if !middleware.is_empty() {
        let inner = Innermost {
            worker: built.worker,
            name: built.name.clone(),
            tasks: tasks.clone(),
        };
        built.worker = middleware.around(Arc::new(inner));
    }
    built
}

impl std::fmt::Debug for WorkerPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkerPlan({:?})", self.workers)
    }
}
