//! Inline runs: a submit that returns once its tasks have run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::store::{AttemptEnd, Layer, SettleOutcome, SubmitOutcome};
use delayq_core::worker::OCCURRENCE_HEADER;
use delayq_core::{Error, NewTask, Result, Store, TaskId, TaskType, TypePattern, When};
use tokio::sync::oneshot;

use super::{FaultyStore, Observed};

/// Time limit of a run, in real time, before the submit fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// The channel for the end of an attempt.
type Ended = oneshot::Sender<Result<(), String>>;

/// A task, and the receiver of the end of its next attempt.
type Run = (TaskType, TaskId, oneshot::Receiver<Result<(), String>>);

/// The tasks whose senders wait for their first attempt. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inline {
    waiting: Arc<Mutex<HashMap<(TaskType, TaskId), Ended>>>,
    served: Arc<Mutex<Vec<TypePattern>>>,
    pools: Arc<Mutex<Vec<&'static str>>>,
}

impl Inline {
    /// Notes that tasks of this type or pattern have a worker.
    pub(crate) fn serve(&self, pattern: TypePattern) {
        lock(&self.served).push(pattern);
    }

    /// Notes that a worker uses slots of this pool.
    pub(crate) fn note_pool(&self, pool: Option<&'static str>) {
        lock(&self.pools).extend(pool);
    }

    /// The pools of all workers.
    pub(crate) fn pools(&self) -> Vec<&'static str> {
        lock(&self.pools).clone()
    }

    /// The tasks with the ones that have a worker made due now (except occurrences of recurring
    /// tasks), and the runs to wait for.
    fn before(&self, mut tasks: Vec<NewTask>) -> (Vec<NewTask>, Vec<Option<Run>>) {
        let served = lock(&self.served);
        let mut waiting = lock(&self.waiting);
        let runs = tasks.iter_mut().map(|task| {
            let is_served = |pattern: &TypePattern| pattern.matches(&task.task_type);
            // An occurrence waits for its time, because its start sends the next one.
            let is_occurrence = task.headers.contains_key(OCCURRENCE_HEADER);
            if is_occurrence || !served.iter().any(is_served) {
                return None;
            }
            task.when = When::After(Duration::ZERO);
            let (ended, end) = oneshot::channel();
            let key = (task.task_type.clone(), task.id.clone());
            waiting.insert(key.clone(), ended);
            Some((key.0, key.1, end))
        });
        let runs = runs.collect();
        (tasks, runs)
    }

    /// The results of a submit, once each accepted task has run; the failure of a task is an error.
    async fn after(
        &self,
        mut results: Vec<Result<SubmitOutcome>>,
        runs: Vec<Option<Run>>,
    ) -> Vec<Result<SubmitOutcome>> {
        for (result, run) in results.iter_mut().zip(runs) {
            let Some((task_type, id, end)) = run else {
                continue;
            };
            let mut ended = Ok(());
            if let Ok(SubmitOutcome::Accepted { .. }) = result {
                ended = match tokio::time::timeout(PATIENCE, end).await {
                    Ok(end) => end.unwrap_or(Ok(())),
                    Err(_) => Err(format!("it has not ended within {PATIENCE:?}")),
                };
            }
            let key = (task_type, id);
            lock(&self.waiting).remove(&key);
            if let Err(error) = ended {
                let (task_type, id) = (key.0.to_string(), key.1.to_string());
                *result = Err(Error::TaskFailed {
                    task_type,
                    id,
                    error,
                });
            }
        }
        results
    }

    /// Records an effect on the store.
    pub(crate) fn observe(&self, observed: Observed<'_>) {
        match observed {
            Observed::Settle {
                bucket,
                settlements,
                outcomes,
            } => {
                for (settlement, outcome) in settlements.iter().zip(outcomes) {
                    if *outcome == SettleOutcome::Settled {
                        let id = &settlement.lock.id;
                        self.ended(bucket.task_type(), id, result(&settlement.end));
                    }
                }
            }
            Observed::Claim { bucket, claimed } => {
                for end in &claimed.ended {
                    let why = format!("it ended unstarted: {:?}", end.cause);
                    self.ended(bucket.task_type(), &end.id, Err(why));
                }
            }
            Observed::Cancel(_) => {}
        }
    }

    fn ended(&self, task_type: &TaskType, id: &TaskId, end: Result<(), String>) {
        let waiting = lock(&self.waiting).remove(&(task_type.clone(), id.clone()));
        if let Some(waiting) = waiting {
            // The sender may have given up.
            let _ = waiting.send(end);
        }
    }
}

/// A store whose submits return once the tasks have run. The inner store's witness has to pass its
/// observations to [`Inline`].
#[derive(Debug)]
pub(crate) struct InlineStore {
    inner: FaultyStore,
    inline: Inline,
}

impl InlineStore {
    pub(crate) fn new(inner: FaultyStore, inline: Inline) -> Self {
        Self { inner, inline }
    }
}

impl Layer for InlineStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let (tasks, runs) = self.inline.before(tasks);
        let results = self.inner().submit(tasks).await;
        self.inline.after(results, runs).await
    }
}

/// The result of an attempt.
fn result(end: &AttemptEnd) -> Result<(), String> {
    match end {
        AttemptEnd::Done => Ok(()),
        AttemptEnd::Retry { error, .. } | AttemptEnd::Dead { error, .. } => Err(error.clone()),
        AttemptEnd::Release { after, .. } => Err(format!("its worker gave it back for {after:?}")),
        _ => Err("it expired".to_owned()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
