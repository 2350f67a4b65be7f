//! Connecting to a server that is still loading its data.

use std::time::Duration;

use delayq_core::{Error, Result};
use tokio::time::sleep;
use tracing::{info, warn};

/// The wait before another try; a try itself waits as long as a call may take.
const AGAIN: Duration = Duration::from_millis(200);

/// Connects, as often as it takes the server to load its data, and logs that it waits. All other
/// errors end it.
pub(crate) async fn until_loaded<T, F>(connect: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut has_waited = false;
    loop {
        let connected = connect().await;
        match &connected {
            Err(error) if is_loading(error) => {
                if !has_waited {
                    warn!(%error, "waiting until Redis has loaded its data");
                }
                has_waited = true;
                sleep(AGAIN).await;
            }
            _ => {
                if has_waited {
                    info!("no longer waiting for Redis to load its data");
                }
                return connected;
            }
        }
    }
}

/// True if the server runs and has not loaded all of its data yet.
fn is_loading(error: &Error) -> bool {
    matches!(error, Error::Unavailable { detail, .. } if detail.contains("LOADING"))
}
