//! Batches: send, look up, cancel.

use std::collections::BTreeSet;

use delayq_core::job::{MAX_MESSAGE_BYTES, check_content};
use delayq_core::operate::Cursor;
use delayq_core::store::{CancelOutcome, SubmitOutcome};
use delayq_core::{
    DelayQueueJob, Error, Limits, NewTask, Result, TaskId, TaskInfo, TaskState, TaskType, seconds,
};
use tracing::debug;

use super::TaskSubmitService;
use crate::batch::{
    BATCH_TYPE, Batch, BatchPage, BatchProgress, BatchReceipt, BatchState, BatchSummary,
    NewMembers, Watch,
};
use crate::bulk::BulkReport;
use crate::receipt::Receipt;

/// Number of members sent in one call to the store.
const SLICE: usize = 1_000;
/// Maximum number of members that one look-up of a batch reads beyond the watcher's position.
const MOST_ASKED: usize = 1_000;

/// Methods for batches, implemented by the functions below.
macro_rules! of_a_batch {
    ($($(#[$doc:meta])* $name:ident[$arg:ident: $ty:ty] -> $out:ty: $operation:ident;)*) => {
        impl TaskSubmitService {$(
            $(#[$doc])*
            pub async fn $name(&self, $arg: $ty) -> Result<$out> {
                $operation(self, $arg).await
            }
        )*}
    };
}

of_a_batch! {
    /// Sends the members of a batch and then its watcher. Once this returns `Ok`, the job of
    /// [`then`](Batch::then) will be sent when all members have ended, and not before, by any
    /// running plugin of the namespace. It is sent within a tenth of the batch's age after the end
    /// of the last member; this delay is limited to between 1 s and 10 s. If a member that was due
    /// later is cancelled or runs early, the delay can be a tenth of the time that was left,
    /// between a minute and an hour.
    ///
    /// Repeat the whole call after an error or a crash, with a clone or an equal batch, within the
    /// retention and while its ended tasks are remembered (`remembered` of the builder, 50,000 of a
    /// type by default): nothing runs twice.
    ///
    /// # Errors
    /// As [`send`](Self::send), for the first member that is refused: the others are sent and run,
    /// but unless the call is repeated, no completion is sent. `Conflict` with a task of type
    /// `delayq.batch`: another batch of this name waits; nothing was sent, unless both were sent at
    /// the same moment. `InvalidInput`, `InvalidName` and `LimitExceeded` for an invalid batch. A
    /// batch has up to 100,000 members, none with a [`throttle`](DelayQueueJob::throttle); the
    /// members' own ids have to fit into one message, and the completion needs room for one more
    /// header.
    send_batch[batch: Batch] -> BatchReceipt: send;

    /// A batch that is waiting or ended within the retention; `None` for any other. The call looks
    /// at up to 1,000 members, with one call to the store for each.
    ///
    /// # Errors
    /// As for every call.
    batch[name: &str] -> Option<BatchProgress>: progress;

    /// The types of a batch that waits: of its members that may not have ended, and of what
    /// follows. Empty for any other.
    ///
    /// # Errors
    /// As for every call.
    #[doc(hidden)]
    types_of_batch[name: &str] -> BTreeSet<TaskType>: types;

    /// Cancels the members of a batch that have not ended; its completion is not sent. Running ones
    /// are asked to stop, and counted apart. `None` if no batch of this name waits. If this process
    /// dies meanwhile, the rest is cancelled about 10 s later. If the batch ends at the same
    /// moment, its completion may still be sent.
    ///
    /// # Errors
    /// As for every call; some members may have been cancelled by then. The call can be repeated.
    cancel_batch[name: &str] -> Option<BulkReport>: cancel;
}

pub(super) async fn list(
    tasks: &TaskSubmitService,
    state: TaskState,
    cursor: Option<&Cursor>,
    limit: usize,
) -> Result<BatchPage> {
    let page = tasks.list(BATCH_TYPE, state, cursor, limit).await?;
    let batches = page.tasks.iter().map(BatchSummary::of);
    Ok(BatchPage {
        batches: batches.collect::<Result<_>>()?,
        next: page.next,
    })
}

async fn send(tasks: &TaskSubmitService, mut batch: Batch) -> Result<BatchReceipt> {
    let (name, completion) = batch.check()?;
    let now = tasks.clock.now();
    let (mut members, mut jobs) = (NewMembers::of(&name), Vec::new());
    for job in std::mem::take(&mut batch.jobs) {
        let job = tasks.pass_middleware(members.named(job)).await?;
        let task = job.clone().into_task(&tasks.limits, now)?;
        check_content(&task.headers, &task.message)?;
        check_member(&job, &task)?;
        members.push(task);
        jobs.push(job);
    }
    let completion = tasks.pass_middleware(completion).await?;
    let completion = completion.into_task(&tasks.limits, now)?;
    // Nobody would hear of a refusal once the members have ended.
    check_content(&completion.headers, &completion.message)?;
    let watch = Watch::new(members, completion, batch.waits_for_dead)?;
    let watcher = watch.job()?.after(seconds(u64::from(!jobs.is_empty())));
    check_watcher(tasks, &watcher)?;
    check_completion(tasks, &watch)?;
    refuse_other(tasks, &name, &watch).await?;
    let members = send_members(tasks, jobs).await?;
    let answer = tasks.send(watcher).await?;
    match answer.outcome {
        SubmitOutcome::AlreadyExists { state } if state == TaskState::Dead => {
            return Err(conflict(&name, state));
        }
        // Somebody else was faster.
        SubmitOutcome::AlreadyExists { .. } => refuse_other(tasks, &name, &watch).await?,
        _ => {}
    }
    let (completion_type, completion_id) = watch.completion();
    Ok(BatchReceipt {
        members,
        completion_type: completion_type.clone(),
        completion_id: completion_id.clone(),
        name,
    })
}

async fn progress(tasks: &TaskSubmitService, name: &str) -> Result<Option<BatchProgress>> {
    let Some(watcher) = tasks.find(BATCH_TYPE, name).await? else {
        return Ok(None);
    };
    let Some(mut watch) = watch_of(&watcher)? else {
        return Ok(Some(BatchProgress {
            state: BatchState::new(watcher.state, None),
            counts: None,
            is_exact: false,
        }));
    };
    let state = BatchState::new(watcher.state, Some(&watch));
    for _ in 0..MOST_ASKED {
        let Some((task_type, id)) = watch.first()? else {
            break;
        };
        if !watch.pass(tasks.store.find(&task_type, &id).await?.as_ref()) {
            watch.skip();
        }
    }
    Ok(Some(BatchProgress {
        state,
        is_exact: watch.first()?.is_none(),
        counts: Some(watch.counts),
    }))
}

async fn types(tasks: &TaskSubmitService, name: &str) -> Result<BTreeSet<TaskType>> {
    let watcher = tasks.find(BATCH_TYPE, name).await?;
    let watch = watcher.as_ref().map(watch_of).transpose()?.flatten();
    Ok(watch.map(|watch| watch.types()).unwrap_or_default())
}

async fn cancel(tasks: &TaskSubmitService, name: &str) -> Result<Option<BulkReport>> {
    let Some(watcher) = tasks.find(BATCH_TYPE, name).await? else {
        return Ok(None);
    };
    let Some(watch) = watch_of(&watcher)? else {
        return Ok(None);
    };
    // Stored before the first cancel, so that no look mistakes the cancelled members for the end of
    // the batch.
    let watch = watch.cancelled();
    let mark = watch.job()?.after(seconds(10)).replace();
    with_largest_messages(tasks)
        .send(mark.again_if_running())
        .await?;
    cancel_members(tasks, watch).await.map(Some)
}

/// A service for watchers with the largest message limit, as their senders may allow larger
/// messages than this process.
pub(crate) fn with_largest_messages(tasks: &TaskSubmitService) -> TaskSubmitService {
    let limits = Limits {
        max_message_bytes: MAX_MESSAGE_BYTES,
        ..Limits::default()
    };
    tasks.clone().with_limits(limits)
}

/// Cancels the members from the watcher's position on.
pub(crate) async fn cancel_members(
    tasks: &TaskSubmitService,
    mut watch: Watch,
) -> Result<BulkReport> {
    let mut report = BulkReport {
        is_complete: true,
        ..BulkReport::default()
    };
    while let Some((task_type, id)) = watch.first()? {
        match tasks.desk().cancel(&task_type, &id).await? {
            CancelOutcome::Cancelled => report.changed += 1,
            CancelOutcome::Running => report.running += 1,
            _ => report.gone += 1,
        }
        report.matched += 1;
        if !report.types.contains(&task_type) {
            report.types.push(task_type);
        }
        watch.skip();
    }
    Ok(report)
}

/// Refuses a member whose id depends on the time of its send: the watcher would look for a
/// different id, and take the member for one that has ended.
fn check_member(job: &DelayQueueJob, task: &NewTask) -> Result<()> {
    let reason = "a member has .throttle(..), so its id depends on when it is sent: leave that out, \
                  or send it apart from the batch";
    let is_throttled = task.id.as_str() != job.task_id();
    (!is_throttled)
        .then_some(())
        .ok_or_else(|| Error::invalid("batch", reason))
}

/// Refuses a completion without room for the header with the counts.
fn check_completion(tasks: &TaskSubmitService, watch: &Watch) -> Result<()> {
    let completion = watch.widest_completion_job()?;
    match completion.into_task(&tasks.limits, tasks.clock.now()) {
        Err(Error::LimitExceeded { actual, limit, .. }) => Err(Error::LimitExceeded {
            what: "number or bytes of the headers of what follows a batch, with the header \
                   delayq-batch that has the counts",
            actual,
            limit,
        }),
        checked => checked.map(|_| ()),
    }
}

/// Refuses a batch that is too large for one message, before any of it is sent.
fn check_watcher(tasks: &TaskSubmitService, watcher: &DelayQueueJob) -> Result<()> {
    let checked = watcher.clone().into_task(&tasks.limits, tasks.clock.now());
    match checked {
        Err(Error::LimitExceeded { actual, limit, .. }) => Err(Error::LimitExceeded {
            what: "size in bytes of a batch, which are the ids of its members unless they are \
                   left out, and the message of what follows",
            actual,
            limit,
        }),
        checked => checked.map(|_| ()),
    }
}

/// Refuses a batch while another one with its name waits, or while it is being cancelled itself.
async fn refuse_other(tasks: &TaskSubmitService, name: &TaskId, watch: &Watch) -> Result<()> {
    let Some(found) = tasks.find(BATCH_TYPE, name.as_str()).await? else {
        return Ok(());
    };
    match watch_of(&found)? {
        Some(other)
            if found.state != TaskState::Dead && !other.is_cancelled && other.is_same(watch) =>
        {
            Ok(())
        }
        Some(_) => Err(conflict(name, found.state)),
        None => Ok(()),
    }
}

/// Sends all members, and fails with the first refusal.
async fn send_members(
    tasks: &TaskSubmitService,
    mut jobs: Vec<DelayQueueJob>,
) -> Result<Vec<Receipt>> {
    let mut receipts = Vec::with_capacity(jobs.len());
    while !jobs.is_empty() {
        let rest = jobs.split_off(jobs.len().min(SLICE));
        for result in tasks.send_all(std::mem::replace(&mut jobs, rest)).await {
            receipts.push(result?);
        }
    }
    debug!(members = receipts.len(), "the members of a batch are sent");
    Ok(receipts)
}

/// The message of a watcher; `None` once it has ended.
fn watch_of(watcher: &TaskInfo) -> Result<Option<Watch>> {
    let Some(message) = &watcher.message else {
        return Ok(None);
    };
    let newer = "a newer release has sent it: ask there";
    let watch = Watch::read(message)?.ok_or_else(|| Error::invalid("batch", newer))?;
    Ok(Some(watch))
}

fn conflict(name: &TaskId, state: TaskState) -> Error {
    Error::Conflict {
        task_type: BATCH_TYPE.to_owned(),
        id: name.to_string(),
        state,
    }
}
