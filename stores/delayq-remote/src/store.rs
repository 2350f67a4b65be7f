//! Operations on tasks.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use delayq_core::store::{
    CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Concern, Durability, ExtendOutcome,
    SettleOutcome, Settlement, SubmitOutcome, Wakeups,
};
use delayq_core::{
    Bucket, Error, Lock, Namespace, NewTask, Result, Store, TaskId, TaskInfo, TaskType, When,
};
use delayq_proto::{pb, read_settled, span};

use crate::remote::{Client, RemoteStore};

/// Maximum number of tasks, settlements or locks in a call.
const MAX_CALL: usize = 1_024;
/// Maximum size of the messages in a call, in bytes; a single message may be larger.
const MAX_CALL_BYTES: usize = 2 << 20;

async fn submit_call(
    store: &RemoteStore,
    tasks: Vec<pb::NewTask>,
    deadline: Instant,
) -> Vec<Result<SubmitOutcome>> {
    let count = tasks.len();
    let request = pb::SubmitRequest {
        namespace: store.namespace.to_string(),
        tasks,
    };
    let response = store.call_until_sent(deadline, request, async |mut client: Client, request| {
        client.submit(request).await
    });
    let results = match response.await {
        Ok(response) => response.results,
        Err(error) => return vec![Err(error); count],
    };
    if results.len() != count {
        return vec![Err(wrong_count(store)); count];
    }
    results.into_iter().map(SubmitOutcome::try_from).collect()
}

async fn check_call(store: &RemoteStore) -> Result<pb::CheckResponse> {
    let request = pb::CheckRequest {
        namespace: store.namespace.to_string(),
    };
    let response = store.call(async move |mut client: Client| client.check(request).await);
    response.await
}

/// The server's answer has more or fewer items than the call.
fn wrong_count(store: &RemoteStore) -> Error {
    Error::indeterminate(&store.name, "it did not answer for every item of the call")
}

fn checked<T>(store: &RemoteStore, count: usize, outcomes: Vec<T>) -> Result<Vec<T>> {
    if outcomes.len() == count {
        return Ok(outcomes);
    }
    Err(wrong_count(store))
}

/// The first part of `tasks` that fits into a call.
fn next_call(tasks: &mut std::iter::Peekable<std::vec::IntoIter<NewTask>>) -> Vec<pb::NewTask> {
    let (mut call, mut bytes) = (Vec::new(), 0);
    while call.len() < MAX_CALL
        && let Some(task) =
            tasks.next_if(|task| call.is_empty() || bytes + size(task) <= MAX_CALL_BYTES)
    {
        bytes += size(&task);
        call.push(task.into());
    }
    call
}

fn size(task: &NewTask) -> usize {
    let headers = task.headers.iter();
    let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
    task.message.len() + headers
}

#[async_trait]
impl Store for RemoteStore {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.namespace)
    }

    /// Whether the store of the server has them, it says once it is asked for some.
    fn has_shards(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        self.found()
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let deadline = self.deadline();
        let mut outcomes = Vec::with_capacity(tasks.len());
        let mut tasks = tasks.into_iter().peekable();
        while tasks.peek().is_some() {
            let call = next_call(&mut tasks);
            outcomes.append(&mut submit_call(self, call, deadline).await);
        }
        outcomes
    }

    async fn buckets(&self, task_type: &TaskType) -> Result<Vec<Bucket>> {
        let request = pb::BucketsRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
        };
        let response = self.call(async move |mut client: Client| client.buckets(request).await);
        let buckets = response.await?.buckets;
        buckets.into_iter().map(TryInto::try_into).collect()
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        let request = pb::ClaimRequest::new(self.namespace.to_string(), bucket, request);
        let response = self.call(async move |mut client: Client| client.claim(request).await);
        response.await?.try_into()
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        let mut outcomes = Vec::with_capacity(settlements.len());
        let mut settlements = settlements.into_iter();
        loop {
            let call: Vec<_> = settlements
                .by_ref()
                .take(MAX_CALL)
                .map(Into::into)
                .collect();
            let count = call.len();
            if count == 0 {
                return Ok(outcomes);
            }
            let request = pb::SettleRequest {
                namespace: self.namespace.to_string(),
                bucket: Some(bucket.into()),
                settlements: call,
            };
            let response = self.call(async move |mut client: Client| client.settle(request).await);
            for outcome in checked(self, count, response.await?.outcomes)? {
                outcomes.push(read_settled(outcome)?);
            }
        }
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let mut outcomes = Vec::with_capacity(locks.len());
        let mut locks = locks.into_iter();
        loop {
            let call: Vec<_> = locks.by_ref().take(MAX_CALL).map(Into::into).collect();
            let count = call.len();
            if count == 0 {
                return Ok(outcomes);
            }
            let request = pb::ExtendRequest {
                namespace: self.namespace.to_string(),
                bucket: Some(bucket.into()),
                locks: call,
                lock_for: Some(span(lock_for)),
                alone: false,
            };
            let response = self.call(async move |mut client: Client| client.extend(request).await);
            for outcome in checked(self, count, response.await?.outcomes)? {
                outcomes.push(outcome.try_into()?);
            }
        }
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let request = pb::ExtendRequest {
            namespace: self.namespace.to_string(),
            bucket: Some(bucket.into()),
            locks: vec![lock.clone().into()],
            lock_for: Some(span(lock_for)),
            alone: true,
        };
        let response = self.call(async move |mut client: Client| client.extend(request).await);
        let outcomes = checked(self, 1, response.await?.outcomes)?;
        let lost = Ok(ExtendOutcome::LockLost);
        let mut outcomes = outcomes.into_iter();
        outcomes.next().map_or(lost, TryInto::try_into)
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let request = pb::NoteFailureRequest {
            namespace: self.namespace.to_string(),
            bucket: Some(bucket.into()),
            lock: Some(lock.clone().into()),
            error: error.to_owned(),
        };
        let response =
            self.call(async move |mut client: Client| client.note_failure(request).await);
        Ok(response.await?.noted)
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let request = pb::CancelRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            id: id.to_string(),
        };
        let response = self.call_until_sent(
            self.deadline(),
            request,
            async |mut client: Client, request| client.cancel(request).await,
        );
        response.await?.try_into()
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let request = pb::RescheduleRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            id: id.to_string(),
            when: Some(when.into()),
        };
        let response = self.call_until_sent(
            self.deadline(),
            request,
            async |mut client: Client, request| client.reschedule(request).await,
        );
        response.await?.try_into()
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        let request = pb::UpdateRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            id: id.to_string(),
            body: Some(pb::update_request::Body::Message(message)),
        };
        let response = self.call_until_sent(
            self.deadline(),
            request,
            async |mut client: Client, request| client.update(request).await,
        );
        response.await?.try_into()
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        let request = pb::FindRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            id: id.to_string(),
        };
        let response = self.call_until_sent(
            self.deadline(),
            request,
            async |mut client: Client, request| client.find(request).await,
        );
        let task = response.await?.task;
        task.map(TryInto::try_into).transpose()
    }

    fn wakeups(&self) -> Wakeups {
        Wakeups::new(self.wakeups.subscribe())
    }

    async fn check(&self) -> Result<()> {
        self.verify().await?;
        check_call(self).await.map(drop)
    }

    /// Those of the store behind the server, and of the server's history.
    async fn concerns(&self) -> Result<Vec<Concern>> {
        let concerns = check_call(self).await?.concerns.into_iter();
        Ok(concerns
            .map(|one| Concern::new(one.found, one.why, one.fix))
            .collect())
    }

    async fn close(&self) {
        self.mark_closed();
    }
}
