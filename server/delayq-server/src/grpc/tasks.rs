//! Tasks: sent, found, changed, claimed and settled.

use std::time::Duration;

use axum::http::StatusCode;
use delayq_core::job::check_message;
use delayq_core::store::{AttemptEnd, Claimed, Settlement, SubmitOutcome};
use delayq_core::{Bucket, Lock};
use delayq_plugin::{Clock, Error, Result, Store, SystemClock, TaskSubmitService, When};
use delayq_proto::{pb, read_span, required};
use delayq_service::problem::Problem;
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::call::{Call, Run, check_batch};
use super::refusal::Refusal;
use super::sent::{Checked, Sent};

impl Run for pb::SubmitRequest {
    async fn run(self, call: &Call) -> Result<pb::SubmitResponse, Refusal> {
        check_batch("number of tasks", self.tasks.len())?;
        // One task that the token may not send refuses all, before anything is done.
        let sent = self.tasks.into_iter().map(|task| Sent::read(task, call));
        let sent = sent.collect::<Result<Vec<_>, Refusal>>()?;
        let mut ids = Vec::with_capacity(sent.len());
        let (mut results, mut tasks) = (Vec::with_capacity(sent.len()), Vec::new());
        for one in sent {
            ids.push(one.id.clone());
            match one.checked(call).await {
                Ok(task) => {
                    results.push(None);
                    tasks.push(task);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        let submitted = submit(call, tasks).await;
        let mut submitted = submitted.into_iter();
        let results = ids.into_iter().zip(results).map(|(id, result)| {
            let result = result.or_else(|| submitted.next());
            pb::SubmitResult::new(id, result.unwrap_or_else(unanswered))
        });
        Ok(pb::SubmitResponse {
            results: results.collect(),
        })
    }
}

/// Submits tasks, each for which there is room. The call itself paid for one of them; those that
/// failed for the server's reasons cost nothing.
async fn submit(call: &Call, tasks: Vec<Checked>) -> Vec<Result<SubmitOutcome>> {
    let named = tasks
        .iter()
        .map(|one| (one.task.task_type.as_str(), one.task.id.as_str()));
    let named: Vec<_> = named.collect();
    let mut charge = call.pace(tasks.len().saturating_sub(1)).await;
    let refused = call.caller.make_room_for_each(&call.space, &named).await;
    let admitted = tasks.into_iter().zip(&refused);
    let admitted = admitted.filter_map(|(task, refused)| refused.is_none().then_some(task));
    let admitted: Vec<_> = admitted.collect();
    let mut submitted = store(call, admitted).await.into_iter();
    let outcomes: Vec<_> = refused
        .into_iter()
        .map(|refused| match refused {
            Some(problem) => Err(full(&problem)),
            None => submitted.next().unwrap_or_else(unanswered),
        })
        .collect();
    let own = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    let own = own.filter(|error| is_own_fault(error)).count();
    call.refund(&mut charge, own);
    outcomes
}

/// Stores tasks: those with a target of their own in a way that clients do not have.
async fn store(call: &Call, tasks: Vec<Checked>) -> Vec<Result<SubmitOutcome>> {
    let order: Vec<_> = tasks.iter().map(|one| one.has_target).collect();
    let (with, without): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|one| one.has_target);
    let submit = async |service: &TaskSubmitService, tasks: Vec<Checked>| {
        let tasks: Vec<_> = tasks.into_iter().map(|one| one.task).collect();
        let outcomes = if tasks.is_empty() {
            Vec::new()
        } else if call.is_store_of_caller {
            service.store().submit(tasks).await
        } else {
            service.submit(tasks).await
        };
        outcomes.into_iter()
    };
    let mut without = submit(&call.space.tasks, without).await;
    let mut with = submit(&call.space.within, with).await;
    let outcomes = order.into_iter().map(|has_target| {
        let next = if has_target {
            with.next()
        } else {
            without.next()
        };
        next.unwrap_or_else(unanswered)
    });
    outcomes.collect()
}

/// A refusal for want of room, as the error of one task.
fn full(problem: &Problem) -> Error {
    if problem.status() == StatusCode::TOO_MANY_REQUESTS {
        return Error::full("the namespace", problem.to_string());
    }
    Error::unavailable("the store of the server", problem.to_string())
}

/// Whether it is not the caller's fault.
fn is_own_fault(error: &Error) -> bool {
    Problem::from(error.clone()).status().is_server_error()
}

fn unanswered<T>() -> Result<T> {
    Err(Error::corrupt("the store", "it has not answered for all"))
}
impl Run for pb::FindRequest {
    async fn run(self, call: &Call) -> Result<pb::FindResponse, Refusal> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let found = call.store().find(&task_type, &id).await?;
        Ok(pb::FindResponse {
            task: found.map(Into::into),
        })
    }
}

impl Run for pb::CancelRequest {
    async fn run(self, call: &Call) -> Result<pb::CancelResponse, Refusal> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let outcome = if call.is_store_of_caller {
            call.store().cancel(&task_type, &id).await?
        } else {
            let tasks = &call.space.tasks;
            tasks.cancel(task_type.as_str(), id.as_str()).await?
        };
        Ok(outcome.into())
    }
}

impl Run for pb::RescheduleRequest {
    async fn run(self, call: &Call) -> Result<pb::ChangeResponse, Refusal> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let when: When = required("when", self.when)?.try_into()?;
        Ok(call.store().reschedule(&task_type, &id, when).await?.into())
    }
}

impl Run for pb::UpdateRequest {
    async fn run(self, call: &Call) -> Result<pb::ChangeResponse, Refusal> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let message = match required("message", self.body)? {
            pb::update_request::Body::Message(message) => message,
            pb::update_request::Body::Text(text) => text.into_bytes(),
        };
        check_message(&message, &call.limits())?;
        Ok(call.store().update(&task_type, &id, message).await?.into())
    }
}

impl Run for pb::BucketsRequest {
    async fn run(self, call: &Call) -> Result<pb::BucketsResponse, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let buckets = call.store().buckets(&task_type).await?;
        Ok(pb::BucketsResponse {
            buckets: buckets.iter().map(Into::into).collect(),
        })
    }
}

impl Run for pb::ClaimRequest {
    async fn run(self, call: &Call) -> Result<pb::ClaimResponse, Refusal> {
        call.bucket(self.bucket.clone())?;
        let (bucket, request) = self.read(SystemClock.now())?;
        let (store, (answer, claimed)) = (call.store().clone(), oneshot::channel());
        // A task of its own, so that a client that goes away meanwhile costs no attempt.
        tokio::spawn(async move {
            let result = store.claim(&bucket, &request).await;
            if let Err(Ok(claimed)) = answer.send(result) {
                release(&*store, &bucket, claimed).await;
            }
        });
        let claimed = claimed.await;
        let claimed = claimed.unwrap_or(Err(Error::Closed("the server")))?;
        Ok(claimed.into())
    }
}

/// Gives back what nobody waits for any more.
async fn release(store: &dyn Store, bucket: &Bucket, claimed: Claimed) {
    let release = claimed.tasks.into_iter().map(|task| {
        let end = AttemptEnd::Release {
            after: Duration::ZERO,
            succeeded: task.history.succeeded,
        };
        Settlement::new(task.lock, end)
    });
    let release: Vec<_> = release.collect();
    if release.is_empty() {
        return;
    }
    if let Err(error) = store.settle(bucket, release).await {
        tracing::debug!(%bucket, %error, "what a lost client had claimed waits for its locks");
    }
}

impl Run for pb::SettleRequest {
    async fn run(self, call: &Call) -> Result<pb::SettleResponse, Refusal> {
        check_batch("number of settlements", self.settlements.len())?;
        let bucket = call.bucket(self.bucket)?;
        let settlements = self.settlements.into_iter().map(TryInto::try_into);
        let settlements = settlements.collect::<Result<Vec<Settlement>>>()?;
        let outcomes = if call.is_store_of_caller {
            call.store().settle(&bucket, settlements).await?
        } else {
            // What clients do is counted here, and what applications do by themselves.
            let pull = &call.space.pull;
            let ends = settlements.into_iter();
            let ends = ends.map(|one| pull.end(bucket.clone(), one.lock, one.end));
            let ended = join_all(ends).await.into_iter();
            ended.collect::<Result<Vec<_>>>()?
        };
        let outcomes = outcomes.into_iter().map(pb::SettleOutcome::from);
        Ok(pb::SettleResponse {
            outcomes: outcomes.map(Into::into).collect(),
        })
    }
}

impl Run for pb::ExtendRequest {
    async fn run(self, call: &Call) -> Result<pb::ExtendResponse, Refusal> {
        check_batch("number of locks", self.locks.len())?;
        let bucket = call.bucket(self.bucket)?;
        let locks = self.locks.into_iter().map(Lock::try_from);
        let lock_for = read_span("lock_for", required("lock_for", self.lock_for)?)?;
        let locks = locks.collect::<Result<_>>()?;
        let outcomes = call.store().extend(&bucket, locks, lock_for).await?;
        Ok(pb::ExtendResponse {
            outcomes: outcomes.into_iter().map(Into::into).collect(),
        })
    }
}

impl Run for pb::NoteFailureRequest {
    async fn run(self, call: &Call) -> Result<pb::NoteFailureResponse, Refusal> {
        let bucket = call.bucket(self.bucket)?;
        let lock = required("lock", self.lock)?.try_into()?;
        let store = call.store();
        let noted = store.note_failure(&bucket, &lock, &self.error).await?;
        Ok(pb::NoteFailureResponse { noted })
    }
}
