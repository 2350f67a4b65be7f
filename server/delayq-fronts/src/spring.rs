//! The API of the Spring delay queue.
//!
//! Applications of the original send their tasks to this API and are called at their own path. The
//! type of a task is `APPLICATION-TYPE`, as in the original.

use axum::Router;
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

/// The bytes of a body other than its message, and the longest JSON escape of one byte.
const FRAME_BYTES: usize = 4_096;
const ESCAPED: usize = 6;

/// The largest body, in bytes.
fn max_body_bytes(app: &App) -> usize {
    app.config.max_message_bytes * ESCAPED + FRAME_BYTES
}

/// The routes, also below `/token/TOKEN` for callers that cannot send a header.
pub fn router(app: App) -> Router {
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
        .with_state(app);
    counted(&counts, routes)
}
