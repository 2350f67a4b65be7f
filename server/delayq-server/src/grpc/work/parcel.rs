//! Messages of the stream: tasks to the worker, and its settlements and extensions.

use std::future::Future;
use std::time::Duration;

use delayq_core::store::{ExtendOutcome, SettleOutcome};
use delayq_core::{ClaimedTask, Reply};
use delayq_plugin::store::Bucket;
use delayq_plugin::{Error, Lock, Result, TaskType};
use delayq_proto::{pb, required};
use delayq_service::context::Context;
use delayq_service::operation::{self, FinishedAttempt};
use delayq_service::problem::Problem;
use delayq_service::pull::{Ending, Pulled};
use pb::work_response::Response;

use super::held::Held;
use crate::grpc::call::Call;
use crate::grpc::refusal::CallError;
use crate::grpc::sent::SentEnd;

/// The size of the task messages in one stream message, in bytes; a single task may be larger.
/// Clients refuse more than 4 MiB by default.
const MAX_BYTES: usize = 1 << 20;

/// Splits tasks into messages of limited size.
pub(super) fn tasks(tasks: Vec<Pulled>) -> Vec<Response> {
    let (mut responses, mut parcel, mut bytes) = (Vec::new(), Vec::new(), 0);
    for Pulled { bucket, task } in tasks {
        let size = task.message.len();
        if bytes + size > MAX_BYTES && !parcel.is_empty() {
            let tasks = std::mem::take(&mut parcel);
            responses.push(Response::Tasks(pb::WorkTasks { tasks }));
            bytes = 0;
        }
        bytes += size;
        parcel.push(work_task(&bucket, task));
    }
    if !parcel.is_empty() {
        responses.push(Response::Tasks(pb::WorkTasks { tasks: parcel }));
    }
    responses
}

/// Converts a claimed task to a message.
pub(in crate::grpc) fn work_task(bucket: &Bucket, task: ClaimedTask) -> pb::WorkTask {
    pb::WorkTask {
        task_type: bucket.task_type().to_string(),
        shard: bucket.shard_name().to_owned(),
        task: Some(task.into()),
    }
}

/// Settles attempts. Returns the answer and the tasks that are still held.
pub(super) fn settle(
    call: &Call,
    held: &mut Held,
    sent: pb::WorkSettle,
) -> Result<impl Future<Output = (Response, Held)> + Send + use<>, CallError> {
    let mut read = Vec::with_capacity(sent.settlements.len());
    for one in sent.settlements {
        let task_type = call.task_type(&one.task_type)?;
        let reply = reply(&one)?;
        let lock: Lock = required("lock", one.lock)?.try_into()?;
        let end = SentEnd::read(call, one.end)?;
        read.push((task_type, lock, one.shard, end, reply));
    }
    // Settles nothing unless all settlements are valid.
    let (mut settling, mut attempts) = (Held::default(), Vec::with_capacity(read.len()));
    for (task_type, lock, shard, sent, reply) in read {
        let bucket = held.hand_on(&task_type, &lock, shard, &mut settling);
        let SentEnd { end, then } = sent;
        let mut ending = Ending::new(bucket, lock, end);
        ending.reply = reply;
        attempts.push(FinishedAttempt { ending, then });
    }
    let context = Context::clone(call);
    Ok(async move {
        let ended = attempts.iter().map(|one| &one.ending);
        let ended = ended.map(|one| (one.bucket.task_type().clone(), one.lock.clone()));
        let ended: Vec<_> = ended.collect();
        let outcomes = operation::settle(&context, attempts).await;
        let mut results = Vec::with_capacity(ended.len());
        for ((task_type, lock), outcome) in ended.into_iter().zip(outcomes) {
            if outcome.is_ok() {
                settling.forget(&task_type, &lock);
            }
            results.push(pb::WorkSettledOne {
                task_type: task_type.to_string(),
                lock: Some(lock.into()),
                result: Some(settled_result(outcome)),
            });
        }
        (Response::Settled(pb::WorkSettled { results }), settling)
    })
}

/// The reply in a settlement, if any.
fn reply(sent: &pb::WorkSettlement) -> Result<Option<Reply>> {
    let Some(body) = &sent.reply else {
        return Ok(None);
    };
    let end = sent.end.as_ref().and_then(|end| end.end.as_ref());
    if !matches!(end, Some(pb::attempt_end::End::Done(_))) {
        return Err(Error::invalid(
            "reply",
            "only an attempt that is done has one",
        ));
    }
    let mut reply = Reply::bytes(body.clone());
    if !sent.reply_content_type.is_empty() {
        reply = reply.content_type(&sent.reply_content_type);
    }
    reply.check()?;
    Ok(Some(reply))
}

fn settled_result(outcome: Result<SettleOutcome, Problem>) -> pb::work_settled_one::Result {
    use pb::work_settled_one::Result as Form;
    match outcome {
        Ok(outcome) => Form::Outcome(pb::SettleOutcome::from(outcome).into()),
        Err(problem) => Form::Error(problem.to_error().into()),
    }
}

/// Extends locks.
pub(super) fn extend(
    call: &Call,
    held: &Held,
    sent: Vec<pb::WorkLock>,
    lock_for: Duration,
) -> Result<impl Future<Output = (Response, Held)> + Send + use<>, CallError> {
    let mut buckets: Vec<(Bucket, Vec<Lock>)> = Vec::new();
    for one in sent {
        let task_type = call.task_type(&one.task_type)?;
        let lock: Lock = required("lock", one.lock)?.try_into()?;
        let bucket = held.bucket(&task_type, &lock, one.shard);
        match buckets.iter_mut().find(|(known, _)| *known == bucket) {
            Some((_, locks)) => locks.push(lock),
            None => buckets.push((bucket, vec![lock])),
        }
    }
    let pull = call.space.pull.clone();
    Ok(async move {
        let mut results = Vec::new();
        for (bucket, locks) in buckets {
            let outcomes = pull.extend_of(&bucket, locks.clone(), lock_for).await;
            let task_type = bucket.task_type();
            match outcomes {
                Ok(outcomes) => {
                    let outcomes = locks.into_iter().zip(outcomes);
                    results.extend(outcomes.map(|(lock, one)| extended(task_type, lock, Ok(one))));
                }
                Err(error) => {
                    let error = |lock| extended(task_type, lock, Err(error.clone()));
                    results.extend(locks.into_iter().map(error));
                }
            }
        }
        let response = Response::Extended(pb::WorkExtended { results });
        (response, Held::default())
    })
}

fn extended(
    task_type: &TaskType,
    lock: Lock,
    outcome: Result<ExtendOutcome>,
) -> pb::WorkExtendedOne {
    use pb::work_extended_one::Result as Form;
    let result = match outcome {
        Ok(outcome) => Form::Outcome(outcome.into()),
        Err(error) => Form::Error(error.into()),
    };
    pb::WorkExtendedOne {
        task_type: task_type.to_string(),
        lock: Some(lock.into()),
        result: Some(result),
    }
}
