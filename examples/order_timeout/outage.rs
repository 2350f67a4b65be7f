//! Outages of the store: the day waits until they are over.

use delayq_plugin::{Error, millis};

use crate::shop::say;

/// Calls the store until it answers. Says once that it waits, and once that it goes on. Repeating a
/// call is safe, also when only its answer was lost.
pub(crate) async fn wait_out<T>(call: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let mut is_waiting = false;
    loop {
        match call().await {
            Err(error) if error.is_transient() => {
                if !is_waiting {
                    say("", "waiting", format!("for the store: {error}"));
                }
                is_waiting = true;
                tokio::time::sleep(millis(250)).await;
            }
            answer => {
                if is_waiting {
                    say("", "goes on", "the store answers again");
                }
                return answer;
            }
        }
    }
}
