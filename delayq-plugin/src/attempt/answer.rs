//! Stores the reply of a worker before its attempt ends.

use delayq_core::{Error, Lock, Reply, TaskContext, TaskError, TaskResult, seconds};
use tracing::{debug, warn};

use crate::submit::TaskSubmitService;

/// Stores a reply; `Ok` once the store has it. While the store is out of reach or full it tries
/// again, until the attempt is told to stop: the work is done already.
pub(super) async fn keep(cx: &TaskContext, tasks: &TaskSubmitService, reply: Reply) -> TaskResult {
    let lock = Lock {
        id: cx.id().clone(),
        fence: cx.fence(),
    };
    loop {
        let error = match tasks
            .store()
            .keep_reply(cx.task_type(), &lock, &reply)
            .await
        {
            Ok(is_kept) => {
                debug!(is_kept, bytes = reply.body.len(), "reply");
                return Ok(());
            }
            Err(error @ Error::Unsupported(_)) => {
                warn!(%error, "a reply is dropped: this store keeps none");
                return Ok(());
            }
            Err(error) => error,
        };
        let is_outage = matches!(
            error,
            Error::Unavailable { .. } | Error::Indeterminate { .. } | Error::Full { .. }
        );
        let again_at = tasks.clock.elapsed().saturating_add(seconds(1));
        let may_try_again = is_outage
            && tokio::select! {
                () = cx.cancelled() => false,
                () = tasks.clock.sleep_until(again_at) => true,
            };
        if !may_try_again {
            return Err(TaskError::retry(format!(
                "the worker succeeded, but its reply was not kept: {error}"
            )));
        }
    }
}
