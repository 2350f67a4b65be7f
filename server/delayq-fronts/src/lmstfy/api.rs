//! The API: its paths and the checks of a request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderValue, Method, StatusCode};
use axum::response::Response;
use delayq_service::access::Caller;
use delayq_service::context::Context;
use delayq_service::requests::{Route, counted};
use percent_encoding::percent_decode_str;
use tokio::time::Instant;
use ulid::Ulid;

use super::call::{Call, MAX_JOB_BYTES};
use super::engine::Engine;
use super::figures::labels;
use super::limits::Action;
use super::names::{QueueName, TokenKey, hash, split_token};
use super::state::Lmstfy;
use super::wire::{Params, Refused, answer, check_names, failed, read_path, refused};

/// The header with the token.
const TOKEN: &str = "x-token";
/// The header with the request id.
const REQUEST_ID: &str = "x-request-id";

/// The routes of the API.
pub(super) fn router(front: Arc<Lmstfy>) -> Router {
    let app = front.app.clone();
    counted(&app, Router::new().fallback(serve).with_state(front))
}

/// Answers a request, counts it and gives it a request id.
async fn serve(State(front): State<Arc<Lmstfy>>, request: Request) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let mut seen = RequestLabels::default();
    let mut response = named(route(&front, request, &mut seen).await);
    if !seen.api.is_empty() {
        response.extensions_mut().insert(Route(seen.api));
    }
    let status = response.status();
    let elapsed = started.elapsed();
    if front.logs_access.load(Ordering::Relaxed) {
        tracing::info!(%method, path, status = status.as_u16(), ?elapsed, "lmstfy");
    }
    let (pool, namespace) = (seen.pool.as_str(), seen.namespace.as_str());
    let code = status.as_u16().to_string();
    let mut of = vec![
        ("pool", pool),
        ("namespace", namespace),
        ("api", seen.api),
        ("method", method_name(&method)),
    ];
    if status.is_success() {
        let ms = elapsed.as_secs_f64() * 1_000.0;
        front
            .figures
            .latency("http_latency_milliseconds", labels(&of), ms);
    }
    of.push(("code", &code));
    front.figures.one("http_http_codes", labels(&of));
    response
}

/// Adds the request id to an answer.
pub(super) fn named(mut response: Response) -> Response {
    let id = Ulid::generate().to_string();
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The method as a metric label; invented methods share one.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        _ => "other",
    }
}

/// The metric labels of a request. Pool and namespace are set only if the token belongs to them.
#[derive(Debug, Default)]
struct RequestLabels {
    api: &'static str,
    pool: String,
    namespace: String,
}

async fn route(front: &Lmstfy, request: Request, seen: &mut RequestLabels) -> Response {
    match checked(front, request, seen).await {
        Ok(response) => response,
        Err(refused) => refused.into_response(),
    }
}

async fn checked(
    front: &Lmstfy,
    request: Request,
    seen: &mut RequestLabels,
) -> Result<Response, Refused> {
    let path = percent_decode_str(request.uri().path());
    let path = path.decode_utf8_lossy().into_owned();
    let (operation, namespace, queue) = read_path(request.method(), &path)?;
    seen.api = operation.path();
    check_names(operation, namespace, queue)?;

    let params = Params::of(request.uri());
    let header = request.headers().get(TOKEN);
    let header = header
        .and_then(|token| token.to_str().ok())
        .unwrap_or_default();
    let text = if header.is_empty() {
        params.text("token")
    } else {
        header
    };
    let text = text.to_owned();
    let (pool_name, token) = split_token(&text);
    let engine = front.engine(pool_name).await;
    let engine = engine.ok_or_else(|| refused(StatusCode::NOT_FOUND, "pool not found"))?;
    let engine = engine.map_err(|problem| failed(&problem))?;
    let key = TokenKey::new(pool_name, namespace, token);
    if !operation.is_public() {
        front.check_token(&key).await?;
        pool_name.clone_into(&mut seen.pool);
        namespace.clone_into(&mut seen.namespace);
    }
    let context = context_of(front, &engine, &key, request.extensions());
    if !operation.is_public()
        && let Err(refusal) = context.charge(request.extensions())
    {
        let body = serde_json::json!({ "msg": refusal.to_string() });
        return Err(answer(StatusCode::TOO_MANY_REQUESTS, &body).into());
    }
    let call = Call {
        front,
        context,
        engine,
        pool_name,
        key: &key,
        queue: QueueName::new(namespace, queue),
        params,
    };
    let Some(action) = operation.action() else {
        return call.run(operation, request).await;
    };
    let limit = front.limits.get(&key);
    let is_allowed =
        limit.is_none_or(|limit| front.throttle.count(&key, limit, action, Instant::now()));
    if !is_allowed {
        return Err(too_many(front, &key, action));
    }
    let done = call.run(operation, request).await;
    let response = done.as_ref().unwrap_or_else(Refused::response);
    let is_done = matches!(response.status(), StatusCode::OK | StatusCode::CREATED);
    if limit.is_some() && !is_done {
        front.throttle.give_back(&key, action);
    }
    done
}

/// The context of an lmstfy token, in the namespace of its pool.
fn context_of(front: &Lmstfy, engine: &Engine, key: &TokenKey, extensions: &Extensions) -> Context {
    let (id, space) = (key.document(), Arc::clone(&engine.space));
    let name = format!("lmstfy token {}", id.get(..8).unwrap_or_default());
    let origin = Caller::origin_of(extensions);
    let caller = Caller::of_front(&id, &name, space.namespace.as_str(), origin);
    let mut context = Context::within(&front.app, caller, space);
    context.max_message_bytes = MAX_JOB_BYTES;
    context.checks_times = false;
    context
}

fn too_many(front: &Lmstfy, key: &TokenKey, action: Action) -> Refused {
    let action = action.name();
    let (pool, namespace, token) = (&key.pool, &key.namespace, &key.token);
    // Readers of the metrics must not see the token, so its hash identifies it.
    let hash = hash(token);
    let of = [
        ("pool", pool.as_str()),
        ("namespace", namespace),
        ("token", hash.get(..8).unwrap_or_default()),
        ("action", action),
    ];
    front.figures.one("http_rate_limit", labels(&of));
    let text = format!("token({token}) {action} reach the limit rate, please retry later");
    answer(
        StatusCode::TOO_MANY_REQUESTS,
        &serde_json::json!({ "msg": text }),
    )
    .into()
}
