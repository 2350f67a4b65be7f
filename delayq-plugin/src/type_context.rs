//! State shared by the handlers of one type.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use delayq_core::{Clock, Delivery, Store, TaskType, WorkerOptions};
use tokio::runtime::Handle;

use crate::attempt::RunningTasks;
use crate::company::Company;
use crate::report::Report;
use crate::settings::Settings;
use crate::slots::TypeSlots;
use crate::submit::TaskSubmitService;
use crate::workers::TypeWorkers;

/// The workers of a type and their combined options. Lock, weight, delivery and shards stay as they
/// were at the start.
#[derive(Debug)]
struct Current {
    workers: TypeWorkers,
    options: WorkerOptions,
}

/// A type as this process serves it, shared by its handlers, of which each bucket has one.
#[derive(Debug)]
pub(crate) struct TypeContext {
    pub(crate) task_type: TaskType,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tasks: Arc<TaskSubmitService>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The part that a reload may change.
    current: RwLock<Current>,
    pub(crate) max_lock_expiries: u32,
    pub(crate) poll: Duration,
    /// The application's runtime, on which workers run.
    pub(crate) app: Handle,
    pub(crate) company: Company,
    pub(crate) slots: TypeSlots,
    pub(crate) running: RunningTasks,
    pub(crate) report: Report,
    /// The number of handlers of the type.
    pub(crate) handlers: AtomicUsize,
}

impl TypeContext {
    pub(crate) fn new(
        task_type: TaskType,
        workers: TypeWorkers,
        tasks: Arc<TaskSubmitService>,
        settings: &Settings,
        app: Handle,
    ) -> Self {
        let options = workers.combined();
        let report = Report::new(task_type.clone(), settings.telemetry.clone());
        let slots = settings.slots.serve(&task_type, &options);
        Self {
            task_type,
            store: Arc::clone(tasks.store()),
            tasks,
            clock: Arc::clone(&settings.clock),
            current: RwLock::new(Current { workers, options }),
            max_lock_expiries: settings.max_lock_expiries,
            poll: settings.poll,
            app,
            company: settings.company.clone(),
            slots,
            running: RunningTasks::default(),
            report,
            handlers: AtomicUsize::new(0),
        }
    }

    /// The workers, with their present options.
    pub(crate) fn workers(&self) -> TypeWorkers {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.workers.clone()
    }

    /// The present options.
    pub(crate) fn options(&self) -> WorkerOptions {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.options
    }

    /// Replaces the options of the workers, for everything that reads them from now on.
    pub(crate) fn reload(&self, workers: TypeWorkers) {
        let options = workers.combined();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Current { workers, options };
    }

    pub(crate) fn is_at_most_once(&self) -> bool {
        self.options().delivery == Delivery::AtMostOnce
    }

    /// The most slots that one handler may reserve: its share of the concurrency.
    pub(crate) fn share(&self) -> usize {
        let handlers = self.handlers.load(Ordering::Relaxed).max(1);
        self.slots.size().div_ceil(handlers)
    }
}
