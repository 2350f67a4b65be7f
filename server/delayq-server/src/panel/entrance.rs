//! Login, logout and the list of namespaces.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use delayq_service::access::Read;
use delayq_service::body::read;
use delayq_service::brake::{Guesser, count_failed_login};
use delayq_service::context::Everywhere;
use delayq_service::same_site::is_same_site;

use super::Panel;
use super::notice::{Notice, page};
use super::seat::{Seat, role_of};
use crate::http::shown_metrics;

/// The largest login form, in bytes.
const MAX_LOGIN_BYTES: usize = 4 * 1_024;

const STYLE: &str = include_str!("../../assets/panel.css");

/// The login form.
#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    text: &'a str,
}

/// The list of namespaces.
#[derive(Template)]
#[template(path = "namespaces.html")]
struct NamespacesPage {
    viewer: String,
    role: &'static str,
    /// The number of namespaces that the token covers.
    count: usize,
    /// Only those whose name contains this text.
    q: String,
    namespaces: Vec<String>,
}

pub(super) async fn form() -> Response {
    page(StatusCode::OK, &LoginPage { text: "" })
}

pub(super) async fn style() -> Response {
    let sheet = format!("{}{STYLE}", delayq_admin::SHEET);
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], sheet).into_response()
}

pub(super) async fn theme() -> Response {
    let kind = "text/javascript; charset=utf-8";
    ([(CONTENT_TYPE, kind)], delayq_admin::THEME_SCRIPT).into_response()
}

pub(super) async fn lost() -> Response {
    Notice::reply(
        StatusCode::NOT_FOUND,
        "There is no such page",
        "Go back to the namespaces.",
    )
}

/// The namespaces that the token covers.
pub(super) async fn namespaces(seat: Seat, uri: axum::http::Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let mut fields = url::form_urlencoded::parse(query.as_bytes());
    let q = fields.find(|(name, _)| name == "q");
    let q = q.map_or_else(String::new, |(_, text)| text.trim().to_owned());
    let names = seat.namespaces();
    let shown = names.iter().filter(|name| name.as_str().contains(&q));
    let viewer = seat.viewer();
    let list = NamespacesPage {
        role: viewer.role.as_str(),
        viewer: viewer.name,
        count: names.len(),
        namespaces: shown.map(ToString::to_string).collect(),
        q,
    };
    page(StatusCode::OK, &list)
}

/// Metrics, for a session or for a token in a header that covers every namespace.
pub(super) async fn metrics(State(panel): State<Arc<Panel>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let seat = Seat::from_request_parts(&mut parts, &panel).await;
    if seat.is_ok_and(|seat| seat.token.namespace == "*") {
        return shown_metrics(&panel.app);
    }
    match Everywhere::<Read>::from_request_parts(&mut parts, &panel.app).await {
        Ok(_) => shown_metrics(&panel.app),
        Err(problem) => problem.into_response(),
    }
}

pub(super) async fn login(
    State(panel): State<Arc<Panel>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    parts: Parts,
    body: Body,
) -> Response {
    if !is_same_site(&parts.headers, parts.uri.authority()) {
        return foreign();
    }
    let patience = panel.app.config.connections.body_timeout();
    let form = match read(body, MAX_LOGIN_BYTES, patience).await {
        Ok(form) => form,
        Err(problem) => return Notice::reply(problem.status(), "Not read", &problem.to_string()),
    };
    let mut fields = url::form_urlencoded::parse(&form);
    let token = fields.find(|(name, _)| name == "token");
    let token = token.map(|(_, token)| token).unwrap_or_default();
    let text = token.trim();
    let guesser = Guesser::new(panel.app.tokens.id_of(text), Some(peer.ip()));
    if let Err(wait) = panel.brake.attempt(&guesser) {
        count_failed_login("admin");
        tracing::warn!(address = %peer.ip(), "too many failed logins; this login is refused");
        return braked(wait);
    }
    let Some(admitted) = panel.app.tokens.admit(text) else {
        count_failed_login("admin");
        tracing::warn!(address = %peer.ip(), "a login failed");
        let text = "This token is not known, has expired or was revoked.";
        return page(StatusCode::UNAUTHORIZED, &LoginPage { text });
    };
    panel.brake.forgive(&guesser);
    if let Err(text) = role_of(&admitted.token) {
        return page(StatusCode::FORBIDDEN, &LoginPage { text });
    }
    match panel.sessions.begin(&admitted).await {
        Ok(secret) => {
            let token = &admitted.token.id;
            tracing::info!(token, address = %peer.ip(), "a user signed in");
            away("/", &panel.set_cookie(&secret, panel.sessions.lasts()))
        }
        Err(problem) => Notice::unavailable(&problem),
    }
}

pub(super) async fn logout(State(panel): State<Arc<Panel>>, parts: Parts) -> Response {
    if !is_same_site(&parts.headers, parts.uri.authority()) {
        return foreign();
    }
    if let Some(secret) = panel.cookie(&parts.headers)
        && let Err(error) = panel.sessions.end(secret).await
    {
        return Notice::unavailable(&error.into());
    }
    away("/login", &panel.set_cookie("", Duration::ZERO))
}

fn foreign() -> Response {
    let text = "The form was sent from another site. Nothing was changed.";
    Notice::reply(StatusCode::FORBIDDEN, "Not from this page", text)
}

fn braked(wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let text = format!("Too many logins failed. Try again in {seconds} s.");
    let mut reply = page(StatusCode::TOO_MANY_REQUESTS, &LoginPage { text: &text });
    let after = HeaderValue::from(seconds);
    reply.headers_mut().insert(RETRY_AFTER, after);
    reply
}

/// A redirect that sets a cookie.
fn away(to: &'static str, cookie: &str) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(LOCATION, HeaderValue::from_static(to));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        headers.insert(SET_COOKIE, cookie);
    }
    (StatusCode::SEE_OTHER, headers).into_response()
}
