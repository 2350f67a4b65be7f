//! Reads the raw body of a request to a front.

use axum::body::Body;
use delayq_service::app::App;
use delayq_service::body::read;
use delayq_service::problem::Problem;

/// Reads a body, within the limits of the configuration.
pub(super) async fn read_body(app: &App, body: Body) -> Result<Vec<u8>, Problem> {
    let patience = app.config.connections.body_timeout();
    read(body, app.config.max_message_bytes, patience).await
}
