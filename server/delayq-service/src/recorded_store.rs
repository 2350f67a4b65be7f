//! A store that tells its types whether their ends are recorded.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::history::{KeptMessage, Recording};
use delayq_core::job::NewTask;
use delayq_core::operate::TypeSettings;
use delayq_core::store::{Layer, SubmitOutcome};
use delayq_core::{Result, Store, TaskType};

/// A store whose types are told before their first task whether they keep a history.
#[derive(Debug)]
pub(crate) struct RecordedStore {
    inner: Arc<dyn Store>,
    recording: Recording,
    told: Mutex<HashSet<TaskType>>,
}

impl RecordedStore {
    /// The store, if types are told; else the inner one.
    pub(crate) fn around(inner: Arc<dyn Store>, recording: Option<Recording>) -> Arc<dyn Store> {
        match recording {
            None => inner,
            Some(recording) => Arc::new(Self {
                inner,
                recording,
                told: Mutex::default(),
            }),
        }
    }

    fn told(&self) -> MutexGuard<'_, HashSet<TaskType>> {
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
            self.inner
                .configure_type(&task_type, &settings(self.recording))
                .await?;
            self.told().insert(task_type);
        }
        Ok(())
    }
}

fn settings(recording: Recording) -> TypeSettings {
    TypeSettings::default().history(recording.kept())
}

/// Tells all types of a store that are set otherwise.
pub(crate) async fn tell_all(store: &dyn Store, recording: Recording) -> Result<()> {
    let wanted = recording.kept().map(KeptMessage::limit);
    for task_type in store.types().await? {
        if store.stats(&task_type).await?.history != wanted {
            store
                .configure_type(&task_type, &settings(recording))
                .await?;
        }
    }
    Ok(())
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
