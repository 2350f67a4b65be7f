//! Types with tasks that no running instance serves: a mistyped name, or workers that were not
//! started. Each is logged once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::presence::{InstanceId, serving};
use delayq_core::{Clock, Result, Store, TaskType, seconds};
use tokio::runtime::Handle;
use tracing::{debug, warn};

use crate::batch::BATCH_TYPE;

/// The delay between the first task of a type and the look at the instances. A worker for a pattern
/// finds a new type within a few polls, and announces it.
const ASK_AFTER: std::time::Duration = seconds(30);

/// Maximum number of types remembered. An application that invents types at run time has more, and
/// gets no warning for the rest.
const MAX_TYPES: usize = 1_000;

/// The log of one process.
#[derive(Clone, Debug)]
pub(crate) struct UnservedLog {
    clock: Arc<dyn Clock>,
    types: Arc<Mutex<UnservedState>>,
}

#[derive(Debug, Default)]
struct UnservedState {
    /// Types that are served here, were looked up, or soon will be.
    asked: BTreeSet<TaskType>,
    /// Types that were logged.
    told: BTreeSet<TaskType>,
}

impl UnservedLog {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let types = Arc::default();
        Self { clock, types }
    }

    fn types(&self) -> MutexGuard<'_, UnservedState> {
        self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process serves the type.
    pub(crate) fn is_served(&self, task_type: &TaskType) {
        self.types().asked.insert(task_type.clone());
    }

    /// A task was sent. For the first task of a type the instances that serve it are looked up in
    /// the store, later and in the background.
    pub(crate) fn sent(&self, task_type: &TaskType, store: &Arc<dyn Store>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut types = self.types();
        if types.asked.len() >= MAX_TYPES || types.asked.contains(task_type) {
            return;
        }
        types.asked.insert(task_type.clone());
        drop(types);
        let ask_at = self.clock.elapsed().saturating_add(ASK_AFTER);
        let (wait, log) = (self.clock.sleep_until(ask_at), self.clone());
        let (store, task_type) = (Arc::downgrade(store), task_type.clone());
        runtime.spawn(async move {
            wait.await;
            // No look-up if the application has ended meanwhile.
            if let Some(store) = store.upgrade() {
                log.ask(&*store, &task_type).await;
            }
        });
    }

    async fn ask(&self, store: &dyn Store, task_type: &TaskType) {
        match store.instances().await {
            Ok(instances) if serving(&instances, task_type) > 0 => {}
            Ok(_) if task_type.as_str() == BATCH_TYPE && self.is_news(task_type) => warn!(
                "a batch was sent, and no running instance watches it: start a plugin, of this \
                 release or a later one, on this store and namespace"
            ),
            Ok(_) if self.is_news(task_type) => warn!(%task_type,
                "a task was sent, and no running instance serves its type: is the name right?"),
            Ok(_) => {}
            Err(error) => {
                debug!(%task_type, %error, "cannot check that an instance serves the type");
                self.types().asked.remove(task_type);
            }
        }
    }

    /// Tasks of a type that nobody serves are waiting in the store.
    pub(crate) fn waiting(&self, task_type: &TaskType, scheduled: u64) {
        if self.is_news(task_type) {
            warn!(%task_type, scheduled, "tasks wait, and no running instance serves their type");
        }
    }

    fn is_news(&self, task_type: &TaskType) -> bool {
        let told = &mut self.types().told;
        told.len() < MAX_TYPES && told.insert(task_type.clone())
    }
}

/// The types with scheduled tasks that no running instance serves, and the number of these tasks,
/// for at most `most` types. `None` if the store does not list the instance `own`, which means that
/// it lists no instances.
pub(crate) async fn unserved(
    store: &dyn Store,
    own: &InstanceId,
    most: usize,
) -> Result<Vec<(TaskType, u64)>> {
    let instances = store.instances().await?;
    if !instances.iter().any(|one| one.id == *own) {
        return Ok(Vec::new());
    }
    let mut types = store.types().await?;
    types.retain(|task_type| serving(&instances, task_type) == 0);
    let mut found = Vec::new();
    for task_type in types.into_iter().take(most) {
        let scheduled = store.stats(&task_type).await?.scheduled;
        if scheduled > 0 {
            found.push((task_type, scheduled));
        }
    }
    Ok(found)
}
