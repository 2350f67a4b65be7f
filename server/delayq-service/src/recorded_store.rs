//! A store that records the ends of the types whose tasks pass through it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use delayq_core::history::KeptMessage;
use delayq_core::job::NewTask;
use delayq_core::operate::TypeSettings;
use delayq_core::store::{Layer, SubmitOutcome};
use delayq_core::{Result, Store, TaskType};

/// A store whose types keep a history: each is told so before its first task.
#[derive(Debug)]
pub(crate) struct RecordedStore {
    inner: Arc<dyn Store>,
    kept: KeptMessage,
    told: Mutex<HashSet<TaskType>>,
}

impl RecordedStore {
    /// The store, if ends are recorded; else the inner one.
    pub(crate) fn around(inner: Arc<dyn Store>, kept: Option<KeptMessage>) -> Arc<dyn Store> {
        match kept {
            None => inner,
            Some(kept) => Arc::new(Self {
                inner,
                kept,
                told: Mutex::default(),
            }),
        }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, HashSet<TaskType>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the types of these tasks that have not been told since the start.
    async fn tell(&self, tasks: &[NewTask]) -> Result<()> {
        let types: HashSet<_> = tasks.iter().map(|task| &task.task_type).collect();
        let new: Vec<TaskType> = {
            let told = self.told();
            let new = types.into_iter().filter(|one| !told.contains(*one));
            new.cloned().collect()
        };
        for task_type in new {
            let settings = TypeSettings::default().history(Some(self.kept));
            self.inner.configure_type(&task_type, &settings).await?;
            self.told().insert(task_type);
        }
        Ok(())
    }
}

impl Layer for RecordedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        match self.tell(&tasks).await {
            Ok(()) => self.inner.submit(tasks).await,
            Err(error) => vec![Err(error); tasks.len()],
        }
    }
}
