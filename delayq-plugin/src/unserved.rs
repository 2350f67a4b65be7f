//! Types with tasks that no running instance serves: a mistyped name, or workers that are not
//! started. The log tells each once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use delayq_core::presence::InstanceInfo;
use delayq_core::{Clock, Result, Store, TaskType, seconds};
use tokio::runtime::Handle;
use tracing::{debug, warn};

/// How long after the first task of a type the instances are asked for: a worker for a pattern
/// announces a new type a moment after its first task.
const ASK_AFTER: std::time::Duration = seconds(5);

/// Types remembered. An application that makes up types as it goes has more, and is not warned of
/// those.
const MAX_TYPES: usize = 1_000;

/// The log of one process.
#[derive(Clone, Debug)]
pub(crate) struct UnservedLog {
    clock: Arc<dyn Clock>,
    /// The types that were asked about, or told.
    known: Arc<Mutex<BTreeSet<TaskType>>>,
}

impl UnservedLog {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let known = Arc::default();
        Self { clock, known }
    }

    /// Whether the type is new here.
    fn note(&self, task_type: &TaskType) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(task_type) || known.len() >= MAX_TYPES {
            return false;
        }
        known.insert(task_type.clone())
    }

    /// This process serves the type.
    pub(crate) fn is_served(&self, task_type: &TaskType) {
        self.note(task_type);
    }

    /// A task was sent. The first one of a type asks the store, a while later and beside everything
    /// else, which instances serve it.
    pub(crate) fn sent(&self, task_type: &TaskType, store: &Arc<dyn Store>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if !self.note(task_type) {
            return;
        }
        let (store, task_type) = (Arc::downgrade(store), task_type.clone());
        let wait = self
            .clock
            .sleep_until(self.clock.elapsed().saturating_add(ASK_AFTER));
        runtime.spawn(async move {
            wait.await;
            ask(&store, &task_type).await;
        });
    }

    /// Tasks of a type that nobody serves wait in the store.
    pub(crate) fn waiting(&self, task_type: &TaskType, scheduled: u64) {
        if self.note(task_type) {
            warn!(%task_type, scheduled, "tasks wait, and no running instance serves their type");
        }
    }
}

async fn ask(store: &Weak<dyn Store>, task_type: &TaskType) {
    // An application that has ended meanwhile needs no answer.
    let Some(store) = store.upgrade() else { return };
    let instances = store.instances().await;
    match instances.map(|instances| serves(&instances, task_type)) {
        Ok(false) => warn!(%task_type,
            "a task was sent, and no running instance serves its type: is the name right?"),
        Ok(true) => {}
        Err(error) => debug!(%task_type, %error, "not known whether the type is served"),
    }
}

/// Whether one of the instances serves the type. One that serves more types than it can list counts
/// as serving it.
pub(crate) fn serves(instances: &[InstanceInfo], task_type: &TaskType) -> bool {
    instances
        .iter()
        .any(|one| one.types.contains(task_type) || one.type_count > one.types.len())
}

/// The types with scheduled tasks that no running instance serves, and how many; at most `most`.
pub(crate) async fn unserved(store: &dyn Store, most: usize) -> Result<Vec<(TaskType, u64)>> {
    let instances = store.instances().await?;
    let types = store.types().await?;
    let types = types
        .into_iter()
        .filter(|task_type| !serves(&instances, task_type));
    let mut found = Vec::new();
    for task_type in types.take(most) {
        let scheduled = store.stats(&task_type).await?.scheduled;
        if scheduled > 0 {
            found.push((task_type, scheduled));
        }
    }
    Ok(found)
}
