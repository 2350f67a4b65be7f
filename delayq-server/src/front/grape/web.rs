//! The web page of Grape: a login, the list of tubes, and a chart of each.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::Value;
use subtle::ConstantTimeEq;

use self::sessions::Sessions;
use super::Grape;
use super::refusal::Refusal;
use super::tube_routes;
use crate::app::App;
use crate::front::body::read_body;
use crate::front::client::Client;
use crate::http::counted;

mod sessions;

const INDEX: &str = include_str!("../../../assets/grape/index.html");
const LOGIN: &str = include_str!("../../../assets/grape/login.html");
const CHART: &str = include_str!("../../../assets/grape/chart.html");
const POLICY: &str = "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

/// How long a wrong login takes, so that guessing takes long.
const WRONG: Duration = Duration::from_secs(1);

/// Its routes.
pub(crate) fn router(app: App) -> Router {
    let grape = Grape::new(app);
    let routes = Router::new()
        .nest("/api/tube", tube_routes::routes())
        .route("/", get(|| async { page(INDEX) }))
        .route("/index.html", get(|| async { page(INDEX) }))
        .route("/chart.html", get(|| async { page(CHART) }))
        .route("/login.html", get(|| async { page(LOGIN) }))
        .route("/api/authen/login", post(login))
        .route("/api/authen/logout", get(logout))
        .fallback(|| async {
            let html = [(CONTENT_TYPE, "text/html; charset=utf-8")];
            let body = "<html><body><h1>Resource not found</h1></body></html>";
            (StatusCode::NOT_FOUND, html, body)
        })
        .layer(from_fn_with_state(grape.clone(), guard))
        .with_state(grape.clone());
    counted(&grape.app, routes)
}

fn page(html: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html;charset=UTF-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, html).into_response()
}

/// Lets nobody in who has not logged in.
async fn guard(
    State(grape): State<Grape>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let path = request.uri().path();
    let is_page = path == "/" || ["/index.html", "/chart.html"].contains(&path);
    let is_api = path.starts_with("/api/") && !path.starts_with("/api/authen/");
    if !is_page && !is_api {
        return Ok(next.run(request).await);
    }
    let session = cookie(request.headers());
    let user = match session {
        Some(session) => Sessions::of(&grape).await?.user(session).await?,
        None => None,
    };
    let known = |name: &String| grape.app.config.grape.users.contains_key(name);
    let Some(user) = user.filter(known) else {
        let login = [(LOCATION, "/login.html")];
        let to_login = (StatusCode::FOUND, login, "Redirecting to /login.html.");
        return Ok(if is_page {
            to_login.into_response()
        } else {
            StatusCode::UNAUTHORIZED.into_response()
        });
    };
    let namespace = &grape.app.config.grape.namespace;
    let client = Client::user(&grape.app, namespace, &user, request.extensions()).await?;
    request.extensions_mut().insert(client);
    Ok(next.run(request).await)
}

async fn login(State(grape): State<Grape>, request: Request) -> Result<Response, Refusal> {
    let body = read_body(&grape.app, request.into_body()).await?;
    let (name, password) = read_login(&body)?;
    let (name, password) = (name.as_str(), password.as_str());
    let _place = grape.logins.acquire().await;
    let known = grape.app.config.grape.users.get(name);
    let is_right =
        known.is_some_and(|known| bool::from(known.as_bytes().ct_eq(password.as_bytes())));
    if !is_right {
        tokio::time::sleep(WRONG).await;
        return Err(refused(3_002, "username or password is error"));
    }
    let session = Sessions::of(&grape).await?.begin(name).await?;
    let secure = if grape.app.config.tls.certificate.is_some() {
        "; Secure"
    } else {
        ""
    };
    let cookie = format!("grape.session={session}; Path=/; HttpOnly; SameSite=Strict{secure}");
    Ok(([(SET_COOKIE, cookie)], Json(session)).into_response())
}

fn refused(code: u32, desc: &str) -> Refusal {
    Refusal::Named(code, desc.to_owned())
}

/// The name and the password of a login.
pub(super) fn read_login(body: &[u8]) -> Result<(String, String), Refusal> {
    let said: Value = serde_json::from_slice(body).map_err(|_| undecoded(body))?;
    let field = |name| {
        let field = said.get(name).and_then(Value::as_str);
        field.unwrap_or_default().to_owned()
    };
    let (name, password) = (field("username"), field("password"));
    if name.is_empty() {
        return Err(refused(3_000, "username is empty"));
    }
    if password.is_empty() {
        return Err(refused(3_001, "password is empty"));
    }
    Ok((name, password))
}

async fn logout(State(grape): State<Grape>, headers: HeaderMap) -> Result<Response, Refusal> {
    if let Some(session) = cookie(&headers) {
        Sessions::of(&grape).await?.end(session).await?;
    }
    let cookie = "grape.session=; Path=/; Max-Age=0";
    Ok(([(SET_COOKIE, cookie)], Json(Value::Null)).into_response())
}

/// The session of a request.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(axum::http::header::COOKIE).into_iter();
    let mut cookies = cookies.filter_map(|one| one.to_str().ok());
    cookies.find_map(|cookies| {
        let mut pairs = cookies.split(';').map(str::trim);
        pairs.find_map(|pair| pair.strip_prefix("grape.session="))
    })
}

/// What the original answers to a login that is no JSON.
fn undecoded(body: &[u8]) -> Refusal {
    let text = String::from_utf8_lossy(body);
    let word: String = text
        .chars()
        .take_while(|c| c.is_alphanumeric())
        .take(100)
        .collect();
    let column = word.chars().count() + 1;
    Refusal::Failed(format!(
        "io.vertx.core.json.DecodeException: Failed to decode:Unrecognized token '{word}': was \
         expecting (JSON String, Number, Array, Object or token 'null', 'true' or 'false')\n at \
         [Source: (io.netty.buffer.ByteBufInputStream); line: 1, column: {column}]"
    ))
}
