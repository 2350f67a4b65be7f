//! Wake-ups of the server, received for as long as the store is used.

use std::sync::Weak;
use std::time::Duration;

use delayq_core::store::Wakeup;
use delayq_proto::pb;
use tokio::sync::oneshot;
use tonic::{Code, Status, Streaming};
use tracing::{debug, error};

use super::{Client, RemoteStore};

/// Shortest and longest wait before the stream is opened again.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The wait after a refusal: a token that may only send has no right to wake-ups.
const AFTER_REFUSAL: Duration = Duration::from_mins(1);

/// Receives wake-ups until the store is closed or dropped; signals `opened` after the first try.
pub(crate) async fn follow(
    store: Weak<RemoteStore>,
    mut client: Client,
    opened: oneshot::Sender<()>,
) {
    let (mut opened, mut wait) = (Some(opened), WAITS.0);
    loop {
        let Some(request) = request(&store) else {
            return;
        };
        let ended = match client.wakeups(request).await {
            Ok(stream) => {
                wait = WAITS.0;
                receive(&store, stream.into_inner(), &mut opened).await
            }
            Err(status) => status,
        };
        opened.take().map(|opened| opened.send(()));
        debug!(
            reason = ended.message(),
            "cannot receive wake-ups of the server; trying again"
        );
        let is_refused = matches!(ended.code(), Code::PermissionDenied | Code::Unauthenticated);
        let pause = if is_refused { AFTER_REFUSAL } else { wait };
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        wait = (wait * 2).min(WAITS.1);
        // It may be another server, or one with another store.
        if let Some(store) = store.upgrade().filter(|store| !store.is_closed())
            && let Err(delayq_core::Error::Misconfigured { setting, fix, .. }) =
                store.verify().await
        {
            error!(
                store = store.name,
                setting, fix, "the server no longer meets the requirements"
            );
        }
    }
}

/// The request, as long as there is a store that wants wake-ups.
fn request(store: &Weak<RemoteStore>) -> Option<pb::WakeupsRequest> {
    let store = store.upgrade().filter(|store| !store.is_closed())?;
    Some(pb::WakeupsRequest {
        namespace: store.namespace.to_string(),
    })
}

/// Passes wake-ups on; the first one of a stream is `All`, as some may have been missed before it.
async fn receive(
    store: &Weak<RemoteStore>,
    mut stream: Streaming<pb::Wakeup>,
    opened: &mut Option<oneshot::Sender<()>>,
) -> Status {
    loop {
        let wakeup = match stream.message().await {
            Ok(Some(wakeup)) => Wakeup::try_from(wakeup).unwrap_or(Wakeup::All),
            Ok(None) => return Status::unavailable("the stream has ended"),
            Err(status) => return status,
        };
        opened.take().map(|opened| opened.send(()));
        let Some(store) = store.upgrade().filter(|store| !store.is_closed()) else {
            return Status::cancelled("the store is closed");
        };
        store.wakeups.send(wakeup).ok();
    }
}
