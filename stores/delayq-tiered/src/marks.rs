//! The types that have far tasks: hot knows their names, so that the others do without cold while
//! it is away. And settings that cold has not been told of.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use delayq_core::documents::Expected;
use delayq_core::operate::TypeSettings;
use delayq_core::{Result, Store, TaskType};

/// The folder of hot with a document for each type that has, or had, a task in cold.
const FOLDER: &str = "tiered.types";

/// What this process has told the stores.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marked: Mutex<HashSet<TaskType>>,
    untold: Mutex<BTreeMap<TaskType, TypeSettings>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Marks {
    /// Marks a type in hot, before its first far task is accepted.
    ///
    /// # Errors
    /// Those of hot, if a later call may succeed. A hot store that takes no documents has no marks.
    pub(crate) async fn mark(&self, hot: &dyn Store, task_type: &TaskType) -> Result<()> {
        if lock(&self.marked).contains(task_type) {
            return Ok(());
        }
        let name = task_type.as_str();
        let written = hot.write_document(FOLDER, name, "far", Expected::Any).await;
        match written {
            Err(error) if error.is_transient() => return Err(error),
            _ => lock(&self.marked).insert(task_type.clone()),
        };
        Ok(())
    }

    /// Marks the types of cold in hot that have no mark there, as it was lost.
    ///
    /// # Errors
    /// Those of both stores.
    pub(crate) async fn restore(&self, hot: &dyn Store, cold: &dyn Store) -> Result<()> {
        let known = self.types(hot).await?;
        // Another process may have dropped a type: its next far task marks it again.
        lock(&self.marked).retain(|one| known.contains(one));
        // After the marks: a type that is dropped loses its tasks before its mark.
        for task_type in cold
            .types()
            .await?
            .iter()
            .filter(|one| !known.contains(one))
        {
            self.mark(hot, task_type).await?;
        }
        Ok(())
    }

    /// True if a type may have far tasks, by what hot knows.
    pub(crate) async fn has(&self, hot: &dyn Store, task_type: &TaskType) -> bool {
        let types = self.types(hot).await;
        types.map_or(true, |types| types.contains(task_type))
    }

    /// The types that have, or had, far tasks.
    ///
    /// # Errors
    /// Those of hot.
    pub(crate) async fn types(&self, hot: &dyn Store) -> Result<Vec<TaskType>> {
        let folder = hot.folder(FOLDER).await?;
        let names = folder.documents.iter().map(|one| TaskType::new(&one.name));
        Ok(names.filter_map(Result::ok).collect())
    }

    /// Removes the mark of a type that is dropped.
    pub(crate) async fn remove(&self, hot: &dyn Store, task_type: &TaskType) -> Result<()> {
        lock(&self.marked).remove(task_type);
        lock(&self.untold).remove(task_type);
        match hot.remove_document(FOLDER, task_type.as_str()).await {
            Err(error) if error.is_transient() => Err(error),
            _ => Ok(()),
        }
    }

    /// Keeps settings of a type for cold, which could not be told.
    pub(crate) fn keep(&self, task_type: &TaskType, settings: TypeSettings) {
        lock(&self.untold).insert(task_type.clone(), settings);
    }

    /// Tells cold what it has not been told of a type.
    ///
    /// # Errors
    /// Those of cold.
    pub(crate) async fn tell(&self, cold: &dyn Store, task_type: &TaskType) -> Result<()> {
        let settings = lock(&self.untold).get(task_type).cloned();
        let Some(settings) = settings else {
            return Ok(());
        };
        cold.configure_type(task_type, &settings).await?;
        let mut untold = lock(&self.untold);
        if untold.get(task_type) == Some(&settings) {
            untold.remove(task_type);
        }
        Ok(())
    }
}
