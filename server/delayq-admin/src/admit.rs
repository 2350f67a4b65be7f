//! Admission: checks the viewer's role, and that a form comes from this page.

use std::error::Error;
use std::panic::resume_unwind;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::Response;
use delayq_ops::is_same_site;
use http_body_util::LengthLimitError;
use tracing::Instrument;

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
    let answer = next.run(Request::from_parts(parts, body));
    if is_change {
        to_its_end(answer).await
    } else {
        answer.await
    }
}

/// Runs an action to its end, and so to its entry in the log, also if the browser leaves meanwhile.
async fn to_its_end(action: impl Future<Output = Response> + Send + 'static) -> Response {
    match tokio::spawn(action.in_current_span()).await {
        Ok(reply) => reply,
        Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
        // The runtime stops.
        Err(_) => Notice::stopped().alone(),
    }
}

/// Reads a form; refuses one that this page did not make for this viewer.
async fn read_form(visit: &Visit, parts: &Parts, body: Body) -> Result<Fields, Notice> {
    if !is_own_form(parts, visit.app.trusts_forwarded) {
        return Err(Notice::foreign());
    }
    let bytes = to_bytes(body, MAX_FORM_BYTES).await;
    let bytes = bytes.map_err(|error| {
        let source = error.source();
        let is_too_large = source.is_some_and(<dyn Error>::is::<LengthLimitError>);
        if is_too_large {
            Notice::too_large()
        } else {
            Notice::unread()
        }
    })?;
    let form = Fields::read(&bytes);
    if !visit.app.key.has_signed(&visit.viewer, form.get("token")) {
        return Err(Notice::stale());
    }
    Ok(form)
}

/// Returns true unless the browser says that a form comes from another site. With
/// `trusts_forwarded`, `X-Forwarded-Host` counts; this is only safe behind a proxy that sets it.
fn is_own_form(parts: &Parts, trusts_forwarded: bool) -> bool {
    let text = |name: &str| parts.headers.get(name)?.to_str().ok();
    let header = |name: &str| {
        let is_host = trusts_forwarded && name == header::HOST.as_str();
        let forwarded = is_host.then(|| text("x-forwarded-host")).flatten();
        forwarded.or_else(|| text(name))
    };
    is_same_site(header, parts.uri.authority().map(Authority::as_str))
}
