//! Admission: checks the viewer's role, and that a form comes from this page.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::fields::Fields;
use crate::notice::Notice;
use crate::viewer::Role;
use crate::visit::Visit;

/// The largest form, in bytes: the largest message (1 MiB) with each byte as `%00`, and some room.
const MAX_FORM_BYTES: usize = 4 * 1024 * 1024;

/// The requirements of a route.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    /// The lowest role that may pass.
    pub(crate) role: Role,
}

/// Admits a request and adds its [`Visit`].
pub(crate) async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some(viewer) = gate.app.viewer(&parts) else {
        return Notice::unknown().alone();
    };
    let mut visit = Visit::new(&gate.app, viewer, &parts);
    if !visit.may(gate.role) {
        return Notice::forbidden(&visit, gate.role).reply(&visit);
    }
    let is_change = !matches!(parts.method, Method::GET | Method::HEAD);
    let body = if is_change {
        let form = match read_form(&visit, &parts, body).await {
            Ok(form) => form,
            Err(notice) => return notice.reply(&visit),
        };
        visit.fields = Arc::new(form);
        Body::empty()
    } else {
        body
    };
    parts.extensions.insert(visit);
    next.run(Request::from_parts(parts, body)).await
}

/// Reads a form; refuses one that this page did not make for this viewer.
async fn read_form(visit: &Visit, parts: &Parts, body: Body) -> Result<Fields, Notice> {
    if !is_same_site(parts, visit.app.trusts_forwarded) {
        return Err(Notice::foreign());
    }
    let bytes = to_bytes(body, MAX_FORM_BYTES).await;
    let bytes = bytes.map_err(|_| Notice::too_large())?;
    let form = Fields::read(&bytes);
    if !visit.app.key.has_signed(&visit.viewer, form.get("token")) {
        return Err(Notice::stale());
    }
    Ok(form)
}

/// Returns true unless the browser says that a request comes from another site.
///
/// A request without this information is accepted, because a form also carries a token and the
/// session cookie is `SameSite`. `Origin: null` counts as no information, because browsers send it
/// from a page without a referrer. With `trusts_forwarded`, `X-Forwarded-Host` counts; this is only
/// safe behind a proxy that sets it.
pub fn is_same_site(parts: &Parts, trusts_forwarded: bool) -> bool {
    let text = |name: &str| {
        let value = parts.headers.get(name);
        value.and_then(|value| value.to_str().ok())
    };
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = text(header::ORIGIN.as_str()).filter(|origin| *origin != "null") else {
        return true;
    };
    let forwarded = text("x-forwarded-host").filter(|_| trusts_forwarded);
    let authority = parts.uri.authority().map(Authority::as_str);
    let own = forwarded.or(text(header::HOST.as_str())).or(authority);
    let host = origin.split_once("://").map(|(_, host)| host);
    own.is_some() && host == own
}
