//! A page with a short message.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use delayq_service::problem::Problem;

/// A page with a short message.
#[derive(Template)]
#[template(path = "notice.html")]
pub(super) struct Notice<'a> {
    title: &'a str,
    text: &'a str,
}

impl Notice<'_> {
    /// A page with a title and a text.
    pub(super) fn reply(status: StatusCode, title: &str, text: &str) -> Response {
        page(status, &Notice { title, text })
    }

    /// The page for content that cannot be shown.
    pub(super) fn unavailable(problem: &Problem) -> Response {
        let text = problem.to_string();
        Self::reply(problem.status(), "It cannot be shown", &text)
    }
}

/// Renders a template as a page.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot render a page");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
