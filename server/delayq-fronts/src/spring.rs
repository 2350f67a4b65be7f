//! The paths of the Spring delay queue.
//!
//! Applications of the original send their tasks here and are called at their own path. The type of
//! a task is `APPLICATION-TYPE`, as there.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use delayq_service::app::App;
use delayq_service::requests::counted;

mod add;
mod answer;
mod caller;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod look;
#[cfg(test)]
mod tests;

/// Bytes of a body beyond those of its message, and how often a byte may be written in JSON.
const FRAME_BYTES: usize = 4_096;
const ESCAPED: usize = 6;

/// Its routes, also below `/token/TOKEN`, for callers that can send no header.
pub fn router(app: App) -> Router {
    let limit = app.config.max_message_bytes * ESCAPED + FRAME_BYTES;
    let routes = || {
        Router::new()
            .route("/job/add", post(add::add))
            .route("/task/type/list", get(look::types))
            .route("/discovery/service_info", get(look::services))
    };
    let counts = app.clone();
    let routes = routes()
        .nest("/token/{token}", routes())
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::method_not_allowed)
        .layer(DefaultBodyLimit::max(limit))
        .with_state(app);
    counted(&counts, routes)
}
