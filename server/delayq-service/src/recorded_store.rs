//! A store that tells its types whether their ends are recorded.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::history::{KeptMessage, Recording};
use delayq_core::job::NewTask;
use delayq_core::operate::TypeSettings;
use delayq_core::store::{Layer, SubmitOutcome};
use delayq_core::{Result, Store, TaskType};

use crate::config::Recordings;

/// A store whose types are told before their first task whether they keep a history.
#[derive(Debug)]
pub(crate) struct RecordedStore {
    inner: Arc<dyn Store>,
    recordings: Recordings,
    told: Mutex<HashSet<TaskType>>,
}

impl RecordedStore {
    /// The store, if types are told; else the inner one.
    pub(crate) fn around(inner: Arc<dyn Store>, recordings: Recordings) -> Arc<dyn Store> {
        if !recordings.tells() {
            return inner;
        }
        Arc::new(Self {
            inner,
            recordings,
            told: Mutex::default(),
        })
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
            if let Some(recording) = self.recordings.of(&task_type) {
                let settings = settings(recording);
                self.inner.configure_type(&task_type, &settings).await?;
            }
            self.told().insert(task_type);
        }
        Ok(())
    }
}

fn settings(recording: Recording) -> TypeSettings {
    TypeSettings::default().history(recording.kept())
}

/// Tells all types of a store that are set otherwise, or all of them if `always`: the bound of what
/// waits is told with it.
pub(crate) async fn tell_all(
    store: &dyn Store,
    recordings: &Recordings,
    always: bool,
) -> Result<()> {
    for task_type in store.types().await? {
        let Some(recording) = recordings.of(&task_type) else {
            continue;
        };
        let wanted = recording.kept().map(KeptMessage::limit);
        if always || store.stats(&task_type).await?.history != wanted {
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
