//! The stream of wake-ups.

use std::pin::Pin;

use delayq_core::store::Wakeup;
use delayq_plugin::Result;
use delayq_plugin::store::Wakeups;
use delayq_proto::pb;
use delayq_service::access::Caller;
use delayq_service::app::App;
use futures_util::stream::{self, Stream};
use tonic::Status;

use super::call::{Call, Run};
use super::refusal::CallError;

/// The stream.
pub(super) type WakeupStream = Pin<Box<dyn Stream<Item = Result<pb::Wakeup, Status>> + Send>>;

/// Completes when a stream has to end, because the token is no longer valid or the server is
/// shutting down.
pub(super) async fn end_of(app: App, caller: Caller) -> Status {
    tokio::select! {
        () = app.stopping.ended() => {
            Status::unavailable("the server is being shut down: open the stream again")
        }
        problem = caller.ended(&app.tokens) => CallError::from(problem).into(),
    }
}

impl Run for pb::WakeupsRequest {
    async fn run(self, call: &Call) -> Result<WakeupStream, CallError> {
        let wakeups = call.store().wakeups();
        let end = Box::pin(end_of(call.app.clone(), call.caller.clone()));
        let first = stream::iter([Ok(pb::Wakeup::from(Wakeup::All))]);
        let following = stream::unfold(
            Some((wakeups, end, call.caller.clone())),
            |state| async move {
                let (mut wakeups, mut end, caller) = state?;
                tokio::select! {
                    wakeup = next_for(&mut wakeups, &caller) => {
                        let wakeup = wakeup?;
                        Some((Ok(wakeup.into()), Some((wakeups, end, caller))))
                    }
                    status = &mut end => Some((Err(status), None)),
                }
            },
        );
        Ok(Box::pin(stream::StreamExt::chain(first, following)))
    }
}

/// The next wake-up for a type that the caller may claim; `None` once the store is gone.
async fn next_for(wakeups: &mut Wakeups, caller: &Caller) -> Option<Wakeup> {
    loop {
        let wakeup = wakeups.next().await?;
        let covered = wakeup.task_type().map(|one| caller.token.covers(one));
        if covered.unwrap_or(true) {
            return Some(wakeup);
        }
    }
}
