//! A store whose operations are recorded.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{
    Bucket, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, ExtendOutcome, Layer,
    SettleOutcome, Settlement, SubmitOutcome,
};
use delayq_core::task::Headers;
use delayq_core::{
    Error, Lock, NewTask, Result, Store, TaskId, TaskState, TaskType, Timestamp, When,
};

use super::{Recorder, digest};
use crate::event::{Change, TypeChange, What};

mod translate;

/// Records every submit, claim, settle, extend, cancel, reschedule, update, requeue, discard,
/// pause, resume and purge of the store inside: before the call, and its answer after it. No
/// operation of a run drops a type, so that is not recorded.
#[derive(Clone, Debug)]
pub struct RecordedStore {
    inner: Arc<dyn Store>,
    recorder: Recorder,
}

impl RecordedStore {
    /// `inner`, recorded.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, recorder: Recorder) -> Self {
        Self { inner, recorder }
    }

    /// Records `invoked` with a number of its own, makes the call, records the answer.
    async fn call<T: Send + Sync>(
        &self,
        invoked: impl FnOnce(u64) -> What + Send,
        call: impl Future<Output = Result<T>> + Send,
        answered: impl FnOnce(u64, &T) -> What + Send,
    ) -> Result<T> {
        let number = self.recorder.next_call();
        self.recorder.record(invoked(number));
        let result = call.await;
        self.recorder.record(match &result {
            Ok(answer) => answered(number, answer),
            Err(error) => failed(number, error),
        });
        result
    }

    async fn change(
        &self,
        task: String,
        change: Change,
        call: impl Future<Output = Result<ChangeOutcome>> + Send,
    ) -> Result<ChangeOutcome> {
        let invoked = |call| What::ChangeInvoked { call, task, change };
        self.call(invoked, call, |call, outcome| What::ChangeAnswered {
            call,
            answer: translate::change_answer(*outcome),
        })
        .await
    }

    async fn change_type<T: Send + Sync>(
        &self,
        task_type: &TaskType,
        change: TypeChange,
        call: impl Future<Output = Result<T>> + Send,
        removed: impl FnOnce(&T) -> u64 + Send,
    ) -> Result<T> {
        let task_type = task_type.to_string();
        let invoked = |call| What::TypeInvoked {
            call,
            task_type,
            change,
        };
        self.call(invoked, call, |call, answer| What::TypeAnswered {
            call,
            removed: removed(answer),
        })
        .await
    }

    async fn operate(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        requeue: bool,
        call: impl Future<Output = Result<Vec<TaskId>>> + Send,
    ) -> Result<Vec<TaskId>> {
        let ids = match filter {
            DeadFilter::Ids(ids) => translate::ids(ids),
            DeadFilter::Matching { .. } => Vec::new(),
        };
        let task_type = task_type.to_string();
        let invoked = |call| What::DeadInvoked {
            call,
            task_type,
            requeue,
            ids,
        };
        self.call(invoked, call, |call, ids| What::DeadAnswered {
            call,
            ids: translate::ids(ids),
        })
        .await
    }
}

fn failed(call: u64, error: &Error) -> What {
    What::Failed {
        call,
        certain: !error.is_indeterminate(),
        error: error.to_string(),
    }
}

fn task_name(task_type: &TaskType, id: &TaskId) -> String {
    format!("{task_type}/{id}")
}

impl Layer for RecordedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let call = self.recorder.next_call();
        self.recorder.record(What::SubmitInvoked {
            call,
            tasks: tasks.iter().map(translate::submitted).collect(),
        });
        let results = self.inner.submit(tasks).await;
        self.recorder.record(What::SubmitAnswered {
            call,
            answers: results.iter().map(translate::submit_answer).collect(),
        });
        results
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        let name = bucket.task_type().to_string();
        let invoked = |call| What::ClaimInvoked {
            call,
            task_type: name.clone(),
        };
        let claim = self.inner.claim(bucket, request);
        self.call(invoked, claim, |call, claimed| {
            translate::claimed(call, &name, claimed)
        })
        .await
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        let locks = settlements.iter().map(translate::settled_lock).collect();
        let name = bucket.task_type().to_string();
        let invoked = |call| What::SettleInvoked {
            call,
            task_type: name,
            locks,
        };
        let settle = self.inner.settle(bucket, settlements);
        self.call(invoked, settle, |call, outcomes| What::SettleAnswered {
            call,
            answers: outcomes
                .iter()
                .copied()
                .map(translate::settle_answer)
                .collect(),
        })
        .await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let held = locks.iter().map(translate::held_lock).collect();
        let name = bucket.task_type().to_string();
        let invoked = |call| What::ExtendInvoked {
            call,
            task_type: name,
            locks: held,
        };
        let extend = self.inner.extend(bucket, locks, lock_for);
        self.call(invoked, extend, |call, outcomes| What::ExtendAnswered {
            call,
            answers: outcomes.iter().map(translate::extend_answer).collect(),
        })
        .await
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let held = vec![translate::held_lock(lock)];
        let name = bucket.task_type().to_string();
        let invoked = |call| What::ExtendInvoked {
            call,
            task_type: name,
            locks: held,
        };
        let extend = self.inner.extend_alone(bucket, lock, lock_for);
        self.call(invoked, extend, |call, outcome| What::ExtendAnswered {
            call,
            answers: vec![translate::extend_answer(outcome)],
        })
        .await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let task = task_name(task_type, id);
        let invoked = |call| What::ChangeInvoked {
            call,
            task,
            change: Change::Cancel,
        };
        let cancel = self.inner.cancel(task_type, id);
        self.call(invoked, cancel, |call, outcome| What::CancelAnswered {
            call,
            answer: translate::cancel_answer(*outcome),
        })
        .await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let change = Change::Reschedule {
            when: translate::asked(when),
        };
        let call = self.inner.reschedule(task_type, id, when);
        self.change(task_name(task_type, id), change, call).await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        let change = Change::Update {
            digest: digest(&message),
        };
        let call = self.inner.update(task_type, id, message);
        self.change(task_name(task_type, id), change, call).await
    }

    /// Refused: an event has no word for new values of headers.
    async fn update_with(
        &self,
        _: &TaskType,
        _: &TaskId,
        _: Vec<u8>,
        _: &Headers,
    ) -> Result<ChangeOutcome> {
        Err(Error::Unsupported("update_with"))
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let call = self.inner.requeue_dead(task_type, filter, interval);
        self.operate(task_type, filter, true, call).await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        let call = self.inner.discard_dead(task_type, filter);
        self.operate(task_type, filter, false, call).await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        let pause = self.inner.pause(task_type, until);
        let change = TypeChange::Pause { until };
        self.change_type(task_type, change, pause, |()| 0).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        let resume = self.inner.resume(task_type);
        let change = TypeChange::Resume;
        self.change_type(task_type, change, resume, |()| 0).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        let purge = self.inner.purge(task_type, state);
        let change = TypeChange::Purge { state };
        let removed = |removed: &u64| *removed;
        self.change_type(task_type, change, purge, removed).await
    }
}
