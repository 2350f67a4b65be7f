//! Reads the raw body of a request to a front.

use std::error::Error;

use axum::body::{Body, HttpBody, to_bytes};
use delayq_service::app::App;
use delayq_service::problem::Problem;
use http_body_util::LengthLimitError;

/// Reads a body, within the limits of the configuration.
pub(super) async fn read_body(app: &App, body: Body) -> Result<Vec<u8>, Problem> {
    let most = app.config.max_message_bytes;
    let too_large = || Problem::too_large(format!("the body has more than {most} bytes"));
    if body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    let limit = app.config.connections.body_timeout();
    let read = tokio::time::timeout(limit, to_bytes(body, most)).await;
    let read = read.map_err(|_| {
        Problem::too_slow(format!(
            "the body was not here after {limit:?}: send it faster"
        ))
    })?;
    read.map(|bytes| bytes.to_vec()).map_err(|error| {
        let is_too_large = error
            .source()
            .is_some_and(<dyn Error>::is::<LengthLimitError>);
        if is_too_large {
            too_large()
        } else {
            Problem::bad_request(error.to_string())
        }
    })
}
