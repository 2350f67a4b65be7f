//! The web page of each namespace, made on first use.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use delayq_admin::{Admin, Surroundings};
use delayq_plugin::Namespace;
use delayq_service::problem::Problem;
use tokio::sync::Mutex;
use tower::ServiceExt;

use super::Panel;
use super::notice::Notice;
use super::seat::Seat;

/// The routers of the namespaces.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<HashMap<Namespace, Router>>);

/// Shows the page of a namespace to users whose token covers it.
pub(super) async fn show(
    State(panel): State<Arc<Panel>>,
    seat: Seat,
    path: RawPathParams,
    mut request: Request,
) -> Response {
    let name = path.iter().find(|(key, _)| *key == "namespace");
    let name = name.map_or("", |(_, name)| name);
    let page = match Namespace::new(name) {
        Ok(namespace) if seat.token.is_for(&namespace) => panel.page(&namespace).await,
        Ok(_) => {
            let text = "Your token is not for this namespace.";
            return Notice::reply(StatusCode::FORBIDDEN, "Not for this token", text);
        }
        Err(_) => Err(Problem::not_found("there is no such namespace")),
    };
    match page {
        Ok(page) => {
            request.extensions_mut().insert(seat);
            page.oneshot(request).await.into_response()
        }
        Err(problem) => Notice::unavailable(&problem),
    }
}

impl Pages {
    /// The page of a namespace; `make` makes it on first use.
    pub(super) async fn of(
        &self,
        namespace: &Namespace,
        make: impl AsyncFnOnce() -> Result<Router, Problem>,
    ) -> Result<Router, Problem> {
        if let Some(page) = self.0.lock().await.get(namespace) {
            return Ok(page.clone());
        }
        // The lock is not held here, so a store that does not answer does not delay other
        // namespaces.
        let page = make().await?;
        let mut pages = self.0.lock().await;
        Ok(pages.entry(namespace.clone()).or_insert(page).clone())
    }
}

/// The page of a namespace, below `/n/NAME`.
pub(super) fn mounted(admin: Admin, namespace: &Namespace) -> Router {
    let here = namespace.clone();
    let admin = admin
        .authorize(|parts| parts.extensions.get::<Seat>()?.present_viewer())
        .surroundings(move |parts| {
            let seat = parts.extensions.get::<Seat>();
            seat.map_or_else(Surroundings::new, |seat| seat.surroundings(&here))
        });
    Router::new().merge(admin.at(&format!("/n/{namespace}")))
}
