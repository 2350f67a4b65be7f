//! Dead tasks: groups, and changes of a selection.

use std::pin::Pin;
use std::time::Duration;

use delayq_ops::{DeadGroup, DeadSelection};
use delayq_plugin::{TaskFilter, TaskType};
use delayq_proto::{pb, read_span_or_zero, read_time_if, required, time};
use delayq_service::operation::{DeadChange, WantedDead};
use futures_util::stream::{self, Stream};
use pb::dead_progress::{Going, Progress};
use tokio::sync::mpsc;
use tonic::Status;

use super::call::{Call, Run};
use super::refusal::CallError;

/// The progress of a change.
pub(super) type ProgressStream =
    Pin<Box<dyn Stream<Item = Result<pb::DeadProgress, Status>> + Send>>;

/// The number of progress messages buffered for a client that does not read. Further ones are
/// dropped.
const MOST_WAITING: usize = 256;

impl Run for pb::DeadGroupsRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let types = call.types(&self.task_type)?;
        let every = TaskFilter::new();
        let found = delayq_ops::dead_groups(&call.space.tasks, types, &every).await?;
        let group = |group: DeadGroup| pb::DeadGroup {
            task_type: group.task_type.to_string(),
            error: group.error,
            latest_error: group.latest_error,
            count: group.count,
            first_at: Some(time(group.first_at)),
            last_at: Some(time(group.last_at)),
            ids: group.ids.iter().map(ToString::to_string).collect(),
        };
        Ok(pb::DeadGroupsResponse {
            groups: found.groups.into_iter().map(group).collect(),
            count: found.count,
            is_complete: found.is_complete,
        })
    }
}

impl Run for pb::RequeueSelectedRequest {
    async fn run(self, call: &Call) -> Result<ProgressStream, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let interval: Duration = read_span_or_zero("interval", self.interval)?;
        let selection = selection(&task_type, self.selection)?;
        let change = DeadChange::Requeue { interval };
        answer(call, selection, change, self.dry_run).await
    }
}

impl Run for pb::DiscardSelectedRequest {
    async fn run(self, call: &Call) -> Result<ProgressStream, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let selection = selection(&task_type, self.selection)?;
        answer(call, selection, DeadChange::Discard, self.dry_run).await
    }
}

fn selection(
    task_type: &TaskType,
    sent: Option<pb::DeadSelection>,
) -> Result<DeadSelection, CallError> {
    let sent = required("selection", sent)?;
    let wanted = WantedDead {
        ids: sent.ids,
        all: sent.all,
        id_prefix: sent.id_prefix,
        group: sent.group,
        error_contains: sent.error_contains,
        error_like: sent.error_like,
        without_error: sent.without_error,
        died_before: read_time_if("selection.died_before", sent.died_before)?,
        limit: sent.limit,
    };
    Ok(wanted.selection(task_type.to_string())?)
}

fn message(progress: Progress) -> pb::DeadProgress {
    pb::DeadProgress {
        progress: Some(progress),
    }
}

/// Makes a change, or reports how many tasks it would affect.
async fn answer(
    call: &Call,
    selection: DeadSelection,
    change: DeadChange,
    is_dry: bool,
) -> Result<ProgressStream, CallError> {
    if !is_dry {
        return Ok(changing(call, selection, change));
    }
    let count = selection.count(&call.space.tasks).await?;
    let only = message(Progress::WouldChange(count));
    Ok(Box::pin(stream::iter([Ok(only)])))
}

/// Makes a change while its client listens.
fn changing(call: &Call, selection: DeadSelection, change: DeadChange) -> ProgressStream {
    let (operator, caller) = (call.operator(), call.caller.clone());
    let tokens = call.app.tokens.clone();
    let (sender, mut receiver) = mpsc::channel(MOST_WAITING);
    let client = sender.clone();
    let work = async move {
        let progress = |done, of| {
            let going = message(Progress::Going(Going { done, of }));
            sender.try_send(Ok(going)).ok();
        };
        let has_ended = caller.ended(&tokens);
        let changed = change.make(&operator, &selection, has_ended, progress);
        let last = match changed.await {
            Ok(changed) => Ok(message(Progress::Changed(changed))),
            Err(problem) => Err(CallError::from(problem).into()),
        };
        sender.send(last).await.ok();
    };
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            () = client.closed() => {}
        }
    });
    Box::pin(stream::poll_fn(move |context| receiver.poll_recv(context)))
}
