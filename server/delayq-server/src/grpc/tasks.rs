//! Tasks: submit, find, change, claim and settle.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, Claimed, ExtendOutcome, SettleOutcome, Settlement};
use delayq_core::{Bucket, Lock};
use delayq_plugin::{Clock, Error, Result, Store, SystemClock, When};
use delayq_proto::{pb, read_span, required};
use delayq_service::operation::{
    Batch, FinishedAttempt, Submitted, reschedule, settle, submit, update,
};
use delayq_service::problem::Problem;
use delayq_service::pull::{Ending, lock_span};
use tokio::sync::oneshot;

use super::call::{Call, Run, check_batch};
use super::refusal::CallError;
use super::sent::{SentEnd, submission};

impl Run for pb::SubmitRequest {
    async fn run(self, call: &Call) -> Result<pb::SubmitResponse, CallError> {
        check_batch("number of tasks", self.tasks.len())?;
        let (mut read, mut tasks) = (Vec::with_capacity(self.tasks.len()), Vec::new());
        for sent in self.tasks {
            let id = sent.id.clone();
            read.push(match submission(sent) {
                Ok(submission) => {
                    let id = submission.task.id.to_string();
                    tasks.push(submission);
                    (id, None)
                }
                Err(error) => (id, Some(error)),
            });
        }
        let mut submitted = submit(call, Batch::new(tasks)).await?.into_iter();
        let results = read.into_iter().map(|(id, error)| {
            let result = match error {
                Some(error) => Err(error),
                None => submitted
                    .next()
                    .unwrap_or_else(unanswered)
                    .map_err(|problem| problem.to_error()),
            };
            pb::SubmitResult::new(id, result.map(|receipt| receipt.outcome))
        });
        Ok(pb::SubmitResponse {
            results: results.collect(),
        })
    }
}

fn unanswered() -> Submitted {
    Err(Error::Closed("the store").into())
}

impl Run for pb::FindRequest {
    async fn run(self, call: &Call) -> Result<pb::FindResponse, CallError> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let found = call.store().find(&task_type, &id).await?;
        Ok(pb::FindResponse {
            task: found.map(Into::into),
        })
    }
}

impl Run for pb::CancelRequest {
    async fn run(self, call: &Call) -> Result<pb::CancelResponse, CallError> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let cancelled = call.tasks().cancel(task_type.as_str(), id.as_str());
        Ok(cancelled.await?.into())
    }
}

impl Run for pb::RescheduleRequest {
    async fn run(self, call: &Call) -> Result<pb::ChangeResponse, CallError> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let when: When = required("when", self.when)?.try_into()?;
        Ok(reschedule(call, task_type.as_str(), id.as_str(), when)
            .await?
            .into())
    }
}

impl Run for pb::UpdateRequest {
    async fn run(self, call: &Call) -> Result<pb::ChangeResponse, CallError> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let message = match required("message", self.body)? {
            pb::update_request::Body::Message(message) => message,
            pb::update_request::Body::Text(text) => text.into_bytes(),
        };
        Ok(update(call, task_type.as_str(), id.as_str(), message, None)
            .await?
            .into())
    }
}

impl Run for pb::BucketsRequest {
    async fn run(self, call: &Call) -> Result<pb::BucketsResponse, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let buckets = call.store().buckets(&task_type).await?;
        Ok(pb::BucketsResponse {
            buckets: buckets.iter().map(Into::into).collect(),
        })
    }
}

impl Run for pb::ClaimRequest {
    async fn run(self, call: &Call) -> Result<pb::ClaimResponse, CallError> {
        call.bucket(self.bucket.clone())?;
        let asked = self.max_lock_expiries;
        let (bucket, mut request) = self.read(SystemClock.now())?;
        let is_counted = !call.is_store_of_caller;
        let set = call.space.policies.set_lock_expiries(bucket.task_type());
        if let (None, Some(most)) = (asked, set) {
            request = request.max_lock_expiries(most);
        }
        if is_counted && request.limit > 0 {
            lock_span(Some(request.lock_for))?;
        }
        let (store, pull) = (call.store().clone(), call.space.pull.clone());
        let (answer, claimed) = oneshot::channel();
        // Runs as a separate task, so that a disconnecting client costs no attempt.
        tokio::spawn(async move {
            let result = if is_counted {
                pull.claim_of(&bucket, request).await
            } else {
                store.claim(&bucket, &request).await
            };
            if let Err(Ok(claimed)) = answer.send(result) {
                if is_counted {
                    pull.give_back(&bucket, claimed);
                } else {
                    release(&*store, &bucket, claimed).await;
                }
            }
        });
        let claimed = claimed.await;
        let claimed = claimed.unwrap_or(Err(Error::Closed("the server")))?;
        Ok(claimed.into())
    }
}

/// Releases tasks whose client is gone.
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
        tracing::debug!(%bucket, %error, "cannot release the tasks of a lost client");
    }
}

impl Run for pb::SettleRequest {
    async fn run(self, call: &Call) -> Result<pb::SettleResponse, CallError> {
        check_batch("number of settlements", self.settlements.len())?;
        let bucket = call.bucket(self.bucket)?;
        let settled = if call.is_store_of_caller {
            let settlements = self.settlements.into_iter().map(TryInto::try_into);
            let settlements = settlements.collect::<Result<Vec<Settlement>>>()?;
            let outcomes = call.store().settle(&bucket, settlements).await?;
            outcomes.into_iter().map(Ok).collect()
        } else {
            // Settlements of clients are counted here. Applications count their own.
            let mut attempts = Vec::with_capacity(self.settlements.len());
            for sent in self.settlements {
                let lock = required("lock", sent.lock)?.try_into()?;
                let SentEnd { end, then } = SentEnd::read(call, sent.end)?;
                let mut ending = Ending::new(bucket.clone(), lock, end);
                ending.note = sent.note;
                attempts.push(FinishedAttempt { ending, then });
            }
            settle(call, attempts).await
        };
        answer(settled)
    }
}

/// The answer for several settlements. Fails if nothing was settled.
fn answer(
    settled: Vec<std::result::Result<SettleOutcome, Problem>>,
) -> std::result::Result<pb::SettleResponse, CallError> {
    let nothing = settled.iter().all(std::result::Result::is_err);
    let mut response = pb::SettleResponse::default();
    for (place, settled) in (0..).zip(settled) {
        response.outcomes.push(match settled {
            Ok(outcome) => pb::SettleOutcome::from(outcome).into(),
            Err(problem) if nothing => return Err(problem.into()),
            Err(problem) => {
                response.errors.insert(place, problem.to_error().into());
                pb::SettleOutcome::Unspecified.into()
            }
        });
    }
    Ok(response)
}

impl Run for pb::ExtendRequest {
    async fn run(self, call: &Call) -> Result<pb::ExtendResponse, CallError> {
        check_batch("number of locks", self.locks.len())?;
        let bucket = call.bucket(self.bucket)?;
        let locks = self.locks.into_iter().map(Lock::try_from);
        let lock_for = read_span("lock_for", required("lock_for", self.lock_for)?)?;
        let locks = locks.collect::<Result<_>>()?;
        let outcomes = if self.alone {
            let lock = the_only_lock(locks)?;
            vec![extend_alone(call, &bucket, lock, lock_for).await?]
        } else if call.is_store_of_caller {
            call.store().extend(&bucket, locks, lock_for).await?
        } else {
            let lock_for = lock_span(Some(lock_for))?;
            call.space.pull.extend_of(&bucket, locks, lock_for).await?
        };
        Ok(pb::ExtendResponse {
            outcomes: outcomes.into_iter().map(Into::into).collect(),
        })
    }
}

/// Extends the lock of a holder that runs nothing else.
async fn extend_alone(
    call: &Call,
    bucket: &Bucket,
    lock: Lock,
    lock_for: Duration,
) -> Result<ExtendOutcome, CallError> {
    if call.is_store_of_caller {
        return Ok(call.store().extend_alone(bucket, &lock, lock_for).await?);
    }
    let lock_for = lock_span(Some(lock_for))?;
    Ok(call
        .space
        .pull
        .extend_alone(bucket, &lock, lock_for)
        .await?)
}

fn the_only_lock(locks: Vec<Lock>) -> Result<Lock, CallError> {
    match <[Lock; 1]>::try_from(locks) {
        Ok([lock]) => Ok(lock),
        Err(_) => Err(Problem::bad_request("alone: extend one lock").into()),
    }
}

impl Run for pb::NoteFailureRequest {
    async fn run(self, call: &Call) -> Result<pb::NoteFailureResponse, CallError> {
        let bucket = call.bucket(self.bucket)?;
        let lock = required("lock", self.lock)?.try_into()?;
        let store = call.store();
        let noted = store.note_failure(&bucket, &lock, &self.error).await?;
        Ok(pb::NoteFailureResponse { noted })
    }
}
