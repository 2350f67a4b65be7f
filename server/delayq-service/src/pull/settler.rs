//! Settles attempts for all clients of a namespace. Settlements that arrive during a call share the
//! next call.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use delayq_plugin::store::{Bucket, MAX_BATCH, SettleOutcome, Settlement};
use delayq_plugin::{Error, Result, Store};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use super::record::Record;

/// Accepts settlements. Cheap to clone; all clones share the queue.
#[derive(Clone, Debug)]
pub(super) struct Settler {
    requests: mpsc::UnboundedSender<SettleRequest>,
    record: Arc<Record>,
}

#[derive(Debug)]
struct SettleRequest {
    bucket: Bucket,
    settlement: Settlement,
    answer: oneshot::Sender<Result<SettleOutcome>>,
}

/// Waiting settlements by bucket. A bucket has an entry while a call is under way.
type Waiting = HashMap<Bucket, Vec<SettleRequest>>;

/// The calls under way; each returns its bucket.
type Calls = FuturesUnordered<BoxFuture<'static, Bucket>>;

impl Settler {
    /// A settler, and the future that does its work.
    pub(super) fn new(
        store: Arc<dyn Store>,
        record: Arc<Record>,
    ) -> (Self, impl Future<Output = ()>) {
        let (sender, requests) = mpsc::unbounded_channel();
        let settler = Self {
            requests: sender,
            record,
        };
        (settler, run(store, requests))
    }

    /// Settles one attempt, even if the future is dropped.
    pub(super) fn settle(
        &self,
        bucket: Bucket,
        settlement: Settlement,
    ) -> impl Future<Output = Result<SettleOutcome>> + use<> {
        let (answer, outcome) = oneshot::channel();
        let fence = settlement.lock.fence;
        self.record.unlocked(bucket.task_type(), fence);
        let request = SettleRequest {
            bucket,
            settlement,
            answer,
        };
        let is_sent = self.requests.send(request).is_ok();
        async move {
            let closed = Err(Error::Closed("the server"));
            if is_sent {
                outcome.await.unwrap_or(closed)
            } else {
                closed
            }
        }
    }
}

async fn run(store: Arc<dyn Store>, mut requests: mpsc::UnboundedReceiver<SettleRequest>) {
    let (mut waiting, mut calls) = (Waiting::new(), Calls::new());
    let mut arrived = Vec::new();
    loop {
        tokio::select! {
            count = requests.recv_many(&mut arrived, 8 * MAX_BATCH) => {
                if count == 0 {
                    break;
                }
                let mut fresh = Vec::new();
                for request in arrived.drain(..) {
                    if let Some(queue) = waiting.get_mut(&request.bucket) {
                        queue.push(request);
                    } else {
                        fresh.push(request.bucket.clone());
                        waiting.insert(request.bucket.clone(), vec![request]);
                    }
                }
                for bucket in fresh {
                    call(&store, bucket, &mut waiting, &calls);
                }
            }
            Some(bucket) = calls.next() => call(&store, bucket, &mut waiting, &calls),
        }
    }
    // Settles everything that was sent before the end.
    while let Some(bucket) = calls.next().await {
        call(&store, bucket, &mut waiting, &calls);
    }
}

/// Starts the next call of a bucket.
fn call(store: &Arc<dyn Store>, bucket: Bucket, waiting: &mut Waiting, calls: &Calls) {
    let Some(queue) = waiting.get_mut(&bucket) else {
        return;
    };
    if queue.is_empty() {
        waiting.remove(&bucket);
        return;
    }
    let batch: Vec<_> = queue.drain(..queue.len().min(MAX_BATCH)).collect();
    let store = Arc::clone(store);
    calls.push(Box::pin(async move {
        settle(&*store, &bucket, batch).await;
        bucket
    }));
}

/// Settles a batch. If the store refuses the whole batch, for example because of one damaged task,
/// each settlement is tried alone.
async fn settle(store: &dyn Store, bucket: &Bucket, batch: Vec<SettleRequest>) {
    let (settlements, answers): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|request| (request.settlement, request.answer))
        .unzip();
    match store.settle(bucket, settlements.clone()).await {
        Ok(outcomes) => {
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                answer.send(told(outcome)).ok();
            }
        }
        Err(error) if error.is_transient() || answers.len() == 1 => {
            for answer in answers {
                answer.send(Err(error.clone())).ok();
            }
        }
        Err(_) => {
            for (answer, settlement) in answers.into_iter().zip(settlements) {
                let outcome = store.settle(bucket, vec![settlement]).await;
                let lost = SettleOutcome::LockLost;
                let outcome = outcome.map(|one| one.first().copied().unwrap_or(lost));
                answer.send(outcome.and_then(told)).ok();
            }
        }
    }
}

/// The outcome as a client hears it: one that is to settle again gets an error that says so.
fn told(outcome: SettleOutcome) -> Result<SettleOutcome> {
    if outcome == SettleOutcome::Busy {
        let detail = "a transaction in the database keeps the task locked: settle it again";
        return Err(Error::unavailable("the store", detail));
    }
    Ok(outcome)
}
