//! A page that only says something.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use delayq_service::problem::Problem;

/// A page that only says something.
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

    /// What there is cannot be shown.
    pub(super) fn unavailable(problem: &Problem) -> Response {
        let text = problem.to_string();
        Self::reply(problem.status(), "It cannot be shown", &text)
    }
}

/// A template as a page.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
