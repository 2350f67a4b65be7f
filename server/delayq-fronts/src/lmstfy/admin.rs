//! The administration: its paths, and who may use them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::answer::{Refused, answer, bad, empty, failed, indented, moved, pretty, text};
use super::api::named;
use super::limit_call::LimitCall;
use super::overview::{metrics, queues};
use super::params::Params;
use super::state::Lmstfy;
use super::token_call::TokenCall;

/// Largest body of a request.
const MAX_BODY_BYTES: usize = 64 << 10;
/// What a form says of itself.
const FORM: &str = "application/x-www-form-urlencoded";

/// The routes of the administration.
pub(super) fn router(front: Arc<Lmstfy>) -> Router {
    Router::new().fallback(serve).with_state(front)
}

async fn serve(State(front): State<Arc<Lmstfy>>, request: Request) -> Response {
    let path = percent_decode_str(request.uri().path());
    let path = path.decode_utf8_lossy().into_owned();
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    let response = route(&front, request, &parts).await;
    named(response.unwrap_or_else(Refused::into_response))
}

async fn route(front: &Lmstfy, request: Request, parts: &[&str]) -> Result<Response, Refused> {
    let params = Params::of(request.uri());
    let (head, body) = request.into_parts();
    match (head.method.as_str(), parts) {
        ("GET", ["metrics"]) => {
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            Ok(text(StatusCode::OK, kind, metrics(front).await))
        }
        ("GET", ["pools"]) => {
            let pools: Vec<_> = front.pools.keys().collect();
            Ok(indented(StatusCode::OK, &pools))
        }
        ("GET", ["info"]) => info(front, &params).await,
        ("GET", ["version"]) => {
            let body = json!({
                "version": env!("CARGO_PKG_VERSION"),
                "build_commit": "delayq-server",
                "build_date": "",
            });
            Ok(indented(StatusCode::OK, &body))
        }
        ("GET", ["accesslog"]) => Ok(access_log(front)),
        ("POST", ["accesslog"]) => {
            check_account(front, &head.headers)?;
            match params.text("status") {
                "enable" => front.logs_access.store(true, Ordering::Relaxed),
                "disable" => front.logs_access.store(false, Ordering::Relaxed),
                _ => return Err(bad("invalid status")),
            }
            Ok(access_log(front))
        }
        ("GET", ["limits"]) => {
            check_account(front, &head.headers)?;
            super::limit_call::all(front).await
        }
        (_, ["pools", ""]) => Ok(moved("/pools")),
        (_, ["token", rest @ ..]) => token(front, head, body, rest).await,
        _ => Err(no_page()),
    }
}

/// What is below `/token`.
async fn token(
    front: &Lmstfy,
    head: Parts,
    body: Body,
    rest: &[&str],
) -> Result<Response, Refused> {
    let params = Params::of(&head.uri);
    match (head.method.as_str(), rest) {
        (method, [namespace]) if !namespace.is_empty() => {
            let is_form = head
                .headers
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(FORM.as_bytes()));
            let call = TokenCall { front, namespace };
            match method {
                "GET" => {
                    check_account(front, &head.headers)?;
                    call.list(params.get("pool")).await
                }
                "POST" => {
                    check_account(front, &head.headers)?;
                    let form = if is_form {
                        read(body).await?
                    } else {
                        Vec::new()
                    };
                    let pool = params.text("pool").to_owned();
                    call.make(&pool, &Params::read(&form).and(params)).await
                }
                _ => Err(no_page()),
            }
        }
        ("DELETE", [namespace, token]) if !namespace.is_empty() => {
            check_account(front, &head.headers)?;
            let call = TokenCall { front, namespace };
            call.delete(token).await
        }
        (method, [namespace, token, "limit"]) => {
            let call = LimitCall::new(front, namespace, token);
            match method {
                "GET" | "POST" | "PUT" | "DELETE" => check_account(front, &head.headers)?,
                _ => return Err(no_page()),
            }
            match method {
                "GET" => call.show().await,
                "DELETE" => call.delete().await,
                _ => call.set(&read(body).await?, method == "POST").await,
            }
        }
        _ => Err(no_page()),
    }
}

/// No path of the administration.
fn no_page() -> Refused {
    let kind = HeaderValue::from_static("text/plain");
    text(StatusCode::NOT_FOUND, kind, "404 page not found".to_owned()).into()
}

fn access_log(front: &Lmstfy) -> Response {
    let is_on = front.logs_access.load(Ordering::Relaxed);
    let status = if is_on { "enabled" } else { "disabled" };
    answer(StatusCode::OK, &json!({ "status": status }))
}

async fn info(front: &Lmstfy, params: &Params) -> Result<Response, Refused> {
    let pool = super::token_key::pool_or_default(params.text("pool"));
    if !front.pools.contains_key(pool) {
        return Ok(empty(StatusCode::OK));
    }
    let queues = queues(front, pool).await;
    let queues = queues.map_err(|problem| failed(&problem))?;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    Ok(text(StatusCode::OK, kind, pretty(&queues) + "\n"))
}

async fn read(body: Body) -> Result<Vec<u8>, Refused> {
    let bytes = to_bytes(body, MAX_BODY_BYTES).await;
    let bytes = bytes.map_err(|_| bad("failed to read body"))?;
    Ok(bytes.to_vec())
}

/// Refuses whoever is none of the users, where there are some.
fn check_account(front: &Lmstfy, headers: &HeaderMap) -> Result<(), Refused> {
    let accounts = &front.app.config.lmstfy.accounts;
    if accounts.is_empty() || is_account(front, headers) {
        return Ok(());
    }
    let mut response = empty(StatusCode::UNAUTHORIZED);
    let realm = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, realm);
    Err(response.into())
}

fn is_account(front: &Lmstfy, headers: &HeaderMap) -> bool {
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Basic "));
    let given = given.and_then(|value| STANDARD.decode(value).ok());
    let given = given.and_then(|value| String::from_utf8(value).ok());
    let Some((user, password)) = given.as_deref().and_then(|pair| pair.split_once(':')) else {
        return false;
    };
    let known = front.app.config.lmstfy.accounts.get(user);
    let hash = |text: &str| Sha256::digest(text.as_bytes());
    // The time that it takes says nothing about the password.
    let is_its = |known: &String| -> bool { hash(known).ct_eq(&hash(password)).into() };
    known.is_some_and(is_its)
}
