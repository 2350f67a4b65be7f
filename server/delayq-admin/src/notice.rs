//! A page with a short message, such as a refusal.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

use crate::said::one_line;
use crate::shell::{Nav, Shell};
use crate::viewer::Role;
use crate::visit::Visit;

/// A page with a short message.
#[derive(Clone, Debug, Template)]
#[template(path = "notice.html")]
pub(crate) struct Notice {
    status: StatusCode,
    title: &'static str,
    text: String,
}

/// A [`Notice`] without navigation, for viewers who may not see the page.
#[derive(Template)]
#[template(path = "alone.html")]
struct Alone<'a> {
    title: &'a str,
    text: &'a str,
}

impl Notice {
    fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            title,
            text: text.into(),
        }
    }

    pub(crate) fn unknown() -> Self {
        let text = "This page does not know who you are. Sign in to the application that it is a \
                    part of, then load it again.";
        Self::new(StatusCode::UNAUTHORIZED, "Who is there?", text)
    }

    pub(crate) fn forbidden(visit: &Visit, role: Role) -> Self {
        let mut text = format!(
            "This takes the role {role}; you ({}) have the role {}. Nothing was changed.",
            one_line(&visit.viewer.name, 60),
            visit.viewer.role
        );
        if visit.app.is_read_only {
            text.push_str(" The page is mounted read-only.");
        }
        Self::new(StatusCode::FORBIDDEN, "Not in your role", text)
    }

    pub(crate) fn foreign() -> Self {
        let text = "The form was sent from another site. Nothing was changed.";
        Self::new(StatusCode::FORBIDDEN, "Not from this page", text)
    }

    pub(crate) fn stale() -> Self {
        let text = "The form has no token, or not yours, or the page was restarted since it was \
                    loaded. Nothing was changed. Load the page again, then repeat it.";
        Self::new(StatusCode::FORBIDDEN, "Load the page again", text)
    }

    pub(crate) fn too_large() -> Self {
        let text = "The form is larger than 4 MiB. Nothing was changed.";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "Too large", text)
    }

    pub(crate) fn unread() -> Self {
        let text = "The form could not be read. Nothing was changed. Send it again.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Not read", text)
    }

    pub(crate) fn stopped() -> Self {
        let text = "The process stops. See in the log of actions what was changed.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Stopped", text)
    }

    pub(crate) fn not_found() -> Self {
        let text = "There is no such page.";
        Self::new(StatusCode::NOT_FOUND, "Not found", text)
    }

    pub(crate) fn busy() -> Self {
        let text = "Too many pages are open: this one is not kept up to date by itself.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", text)
    }

    /// The notice within the page.
    pub(crate) fn reply(&self, visit: &Visit) -> Response {
        let body = self.render().unwrap_or_else(|_| self.title.to_owned());
        let shell = Shell::new(visit, Nav::Elsewhere, self.title, &body);
        (self.status, shell.html()).into_response()
    }

    /// The notice without the page.
    pub(crate) fn alone(&self) -> Response {
        let (title, text) = (self.title, self.text.as_str());
        let html = Alone { title, text }.render();
        (self.status, Html(html.unwrap_or_default())).into_response()
    }
}
