//! What the handlers of one type share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delayq_core::{Clock, Delivery, Store, TaskType, WorkerOptions};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::attempt::RunningTasks;
use crate::report::Report;
use crate::settings::Settings;
use crate::submit::TaskSubmitService;
use crate::workers::TypeWorkers;

/// A type as this process serves it. Its handlers, one a bucket, share it.
#[derive(Debug)]
pub(crate) struct TypeContext {
    pub(crate) task_type: TaskType,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tasks: Arc<TaskSubmitService>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) workers: TypeWorkers,
    pub(crate) options: WorkerOptions,
    pub(crate) max_lock_expiries: u32,
    pub(crate) poll: Duration,
    /// The application's runtime, on which workers run.
    pub(crate) app: Handle,
    /// One permit for each attempt that may run at the same time.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) running: RunningTasks,
    pub(crate) report: Report,
    /// How many handlers the type has.
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
        let report = Report::new(task_type.clone(), settings.telemetry.hub.clone());
        let slots = options.concurrency.min(Semaphore::MAX_PERMITS);
        Self {
            task_type,
            store: Arc::clone(tasks.store()),
            tasks,
            clock: Arc::clone(&settings.clock),
            workers,
            options,
            max_lock_expiries: settings.max_lock_expiries,
            poll: settings.poll,
            app,
            slots: Arc::new(Semaphore::new(slots)),
            running: RunningTasks::default(),
            report,
            handlers: AtomicUsize::new(0),
        }
    }

    pub(crate) fn is_at_most_once(&self) -> bool {
        self.options.delivery == Delivery::AtMostOnce
    }

    /// The most slots that one handler may reserve for a claim: its share of the concurrency.
    pub(crate) fn share(&self) -> usize {
        let handlers = self.handlers.load(Ordering::Relaxed).max(1);
        self.options.concurrency.div_ceil(handlers)
    }
}
