//! Finds a registered worker, builds it and runs it, as the plugin does.

use std::sync::{Mutex, PoisonError};

use delayq_core::StopSignal;
use delayq_core::registry::registered_workers;
use delayq_core::task::Headers;
use delayq_core::worker::Attempt;
use delayq_plugin::{
    Components, TaskContext, TaskId, TaskResult, TaskType, Timestamp, WorkerRegistration,
};

/// A component in which workers write down what they were given.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<String>>);

impl Seen {
    pub(crate) fn push(&self, what: impl std::fmt::Display) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(format!("{what}"));
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) fn worker(task_type: &str) -> &'static WorkerRegistration {
    let mut found = registered_workers().filter(|worker| worker.task_type == task_type);
    match (found.next(), found.next()) {
        (Some(worker), None) => worker,
        (None, _) => panic!("no worker of type {task_type:?} is registered"),
        (Some(_), Some(_)) => panic!("two workers of type {task_type:?} are registered"),
    }
}

/// The context that [`run`] gives.
pub(crate) fn context() -> TaskContext {
    let attempt = Attempt {
        task_type: TaskType::new("a").expect("a valid type"),
        id: TaskId::new("task-1").expect("a valid id"),
        attempt: 3,
        tried: 3,
        due_at: Timestamp::ZERO,
        claimed_at: Timestamp::ZERO,
        submitted_at: Timestamp::ZERO,
        fence: 7,
        headers: Headers::new(),
    };
    TaskContext::new(attempt, StopSignal::new())
}

/// Gives `message` to the worker of `task_type`, built with a [`Seen`] and the number 42: its
/// result, and what it wrote down.
pub(crate) async fn run(task_type: &str, message: &[u8]) -> (TaskResult, Vec<String>) {
    let mut components = Components::default();
    components.insert(Seen::default());
    components.insert(42_u64);
    let worker = (worker(task_type).build)(&components).expect("its components are there");
    let result = worker.invoke_bytes(message, &context()).await;
    (
        result,
        components.get::<Seen>().expect("inserted above").take(),
    )
}
