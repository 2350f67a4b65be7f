//! The admin API: its paths, its users and its operations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_service::access::{Caller, client_address};
use delayq_service::brake::{Guesser, count_failed_login};
use delayq_service::problem::Problem;
use delayq_service::same_site::is_same_site;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use ulid::Ulid;

use super::api::named;
use super::figures::{gauge, labels};
use super::limits::Limit;
use super::names::{MAX_NAME_BYTES, QueueName, TokenKey, is_name, pool_or_default, split_token};
use super::state::Lmstfy;
use super::wire::{
    Params, Refused, answer, bad, empty, failed, indented, moved, pretty, refused, text, unread,
};

/// The largest request body, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The content type of a form.
const FORM: &str = "application/x-www-form-urlencoded";
/// The shortest token that a user may choose, in characters.
const MIN_TOKEN: usize = 20;
/// The longest token that a user may choose, in characters.
const MAX_TOKEN: usize = 1_024;
/// The largest number of queues of a pool whose sizes are reported.
const MAX_SIZES: usize = 1_000;

/// The routes of the admin API.
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
    check_site(&head)?;
    // The version tells nothing about the jobs, and checks of a balancer have no password.
    if parts != ["version"] {
        check_account(front, &head)?;
    }
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
            match params.text("status") {
                "enable" => front.logs_access.store(true, Ordering::Relaxed),
                "disable" => front.logs_access.store(false, Ordering::Relaxed),
                _ => return Err(bad("invalid status")),
            }
            Ok(access_log(front))
        }
        ("GET", ["limits"]) => all_limits(front).await,
        (_, ["pools", ""]) => Ok(moved("/pools")),
        (_, ["token", rest @ ..]) => token(front, head, body, rest).await,
        _ => Err(no_page()),
    }
}

/// Handles paths below `/token`.
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
                "GET" => call.list(params.get("pool")).await,
                "POST" => {
                    let form = if is_form {
                        read(front, body).await?
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
            let call = TokenCall { front, namespace };
            call.delete(token).await
        }
        (method, [namespace, token, "limit"]) => {
            let call = LimitCall::new(front, namespace, token);
            match method {
                "GET" => call.show().await,
                "DELETE" => call.delete().await,
                "POST" | "PUT" => call.set(&read(front, body).await?, method == "POST").await,
                _ => Err(no_page()),
            }
        }
        _ => Err(no_page()),
    }
}

/// The answer to an unknown path.
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
    let pool = pool_or_default(params.text("pool"));
    if !front.pools.contains_key(pool) {
        return Ok(empty(StatusCode::OK));
    }
    let queues = queues(front, pool).await;
    let queues = queues.map_err(|problem| failed(&problem))?;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    Ok(text(StatusCode::OK, kind, pretty(&queues) + "\n"))
}

async fn read(front: &Lmstfy, body: Body) -> Result<Vec<u8>, Refused> {
    let patience = front.app.config.connections.body_timeout();
    let read = delayq_service::body::read(body, MAX_BODY_BYTES, patience).await;
    read.map_err(|problem| match problem.retry_after() {
        Some(_) => unread(&problem),
        None => bad("failed to read body"),
    })
}

/// Refuses changes by pages of other sites, because a browser adds the password by itself.
fn check_site(head: &Parts) -> Result<(), Refused> {
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    if is_read || is_same_site(&head.headers, head.uri.authority()) {
        return Ok(());
    }
    let text = "the request was sent from another site";
    Err(refused(StatusCode::FORBIDDEN, text))
}

/// Refuses callers that are not configured users, if there are any.
fn check_account(front: &Lmstfy, head: &Parts) -> Result<(), Refused> {
    let accounts = &front.app.config.lmstfy.accounts;
    if accounts.is_empty() {
        return Ok(());
    }
    let Some(credentials) = Credentials::of(&head.headers) else {
        return Err(unknown_account());
    };
    let (address, origin) = (
        client_address(&head.extensions),
        Caller::origin_of(&head.extensions),
    );
    let known = accounts.get_key_value(&credentials.user);
    let guesser = Guesser::new(known.map(|(user, _)| user.clone()), address);
    if let Err(wait) = front.brake.attempt(&guesser) {
        count_failed_login("lmstfy_admin");
        tracing::warn!(
            address = origin,
            "too many wrong passwords; this one is not checked"
        );
        let text = "too many wrong passwords: try again later";
        return Err(unread(&Problem::too_many_requests(
            text,
            wait.as_secs() + 1,
        )));
    }
    if !known.is_some_and(|(_, password)| credentials.has(password)) {
        count_failed_login("lmstfy_admin");
        tracing::warn!(
            address = origin,
            "a password of the lmstfy administration was wrong"
        );
        return Err(unknown_account());
    }
    front.brake.forgive(&guesser);
    Ok(())
}

fn unknown_account() -> Refused {
    let mut response = empty(StatusCode::UNAUTHORIZED);
    let realm = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, realm);
    response.into()
}

/// A user and a password, as a request presents them.
struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let given = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let given = STANDARD.decode(given.strip_prefix("Basic ")?).ok()?;
        let given = String::from_utf8(given).ok()?;
        let (user, password) = given.split_once(':')?;
        Some(Self {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// Returns true if this is the password. Compares in constant time.
    fn has(&self, password: &str) -> bool {
        let hash = |text: &str| Sha256::digest(text.as_bytes());
        hash(password).ct_eq(&hash(&self.password)).into()
    }
}

/// A call about the tokens of a namespace.
#[derive(Clone, Copy, Debug)]
struct TokenCall<'a> {
    front: &'a Lmstfy,
    namespace: &'a str,
}

impl TokenCall<'_> {
    fn check_pool(&self, pool: &str) -> Result<(), Refused> {
        if self.front.pools.contains_key(pool_or_default(pool)) {
            return Ok(());
        }
        Err(bad("the pool was not exists"))
    }

    /// Lists all tokens of the namespace. If a pool is named, each is shown with it.
    async fn list(&self, pool: Option<&str>) -> Result<Response, Refused> {
        let named = pool.unwrap_or_default();
        self.check_pool(named)?;
        let refreshed = self.front.tokens.refresh().await;
        refreshed.map_err(|error| failed(&error))?;
        let pool = pool_or_default(named);
        let is_its = |key: &TokenKey| key.pool == pool && key.namespace == self.namespace;
        let tokens: BTreeMap<_, _> = self
            .front
            .tokens
            .all(is_its)
            .into_iter()
            .map(|(key, description)| (shown(named, &key.token), description))
            .collect();
        Ok(indented(StatusCode::OK, &json!({ "tokens": tokens })))
    }

    /// Creates a token.
    async fn make(&self, pool: &str, params: &Params) -> Result<Response, Refused> {
        let description = params.text("description");
        let own = params.text("token");
        if description.is_empty() {
            return Err(bad("invalid description"));
        }
        if !own.is_empty() && own.len() < MIN_TOKEN {
            return Err(bad("the user token was too short"));
        }
        if own.len() > MAX_TOKEN || description.len() > MAX_TOKEN {
            return Err(bad("the user token was too long"));
        }
        if self.namespace.len() > MAX_NAME_BYTES {
            return Err(bad("the namespace name was too long"));
        }
        if !is_name(self.namespace) {
            return Err(bad("namespace name contains forbidden characters"));
        }
        let (pool, token) = match own.split_once(':') {
            _ if own.is_empty() => (pool, Ulid::generate().to_string()),
            Some((pool, token)) if !token.contains(':') => (pool, token.to_owned()),
            _ => (pool, own.to_owned()),
        };
        self.check_pool(pool)?;
        let key = TokenKey::new(pool_or_default(pool), self.namespace, &token);
        let known = self.front.tokens.find(&key).await;
        if known.map_err(|error| failed(&error))?.is_some() {
            return Err(bad("the token has already existed"));
        }
        let made = self.front.tokens.put(&key, &description.to_owned()).await;
        made.map_err(|error| failed(&error))?;
        let body = json!({ "token": shown(pool, &token) });
        Ok(indented(StatusCode::CREATED, &body))
    }

    /// Deletes a token and its limit. Every server refuses it within a second.
    async fn delete(&self, text: &str) -> Result<Response, Refused> {
        let (pool, token) = split_token(text);
        self.check_pool(pool)?;
        let key = TokenKey::new(pool, self.namespace, token);
        let removed = self.front.tokens.remove(&key).await;
        removed.map_err(|error| failed(&error))?;
        let removed = self.front.limits.remove(&key).await;
        removed.map_err(|error| failed(&error))?;
        Ok(empty(StatusCode::NO_CONTENT))
    }
}

/// A token, prefixed with its pool if one is named.
fn shown(pool: &str, token: &str) -> String {
    if pool.is_empty() {
        return token.to_owned();
    }
    format!("{pool}:{token}")
}

/// A call about the limit of a token.
#[derive(Clone, Debug)]
struct LimitCall<'a> {
    front: &'a Lmstfy,
    key: TokenKey,
    /// The token as given in the request.
    named: &'a str,
}

impl<'a> LimitCall<'a> {
    fn new(front: &'a Lmstfy, namespace: &str, named: &'a str) -> Self {
        let (pool, token) = split_token(named);
        let key = TokenKey::new(pool, namespace, token);
        Self { front, key, named }
    }

    async fn show(&self) -> Result<Response, Refused> {
        let refreshed = self.front.limits.refresh().await;
        refreshed.map_err(|error| failed(&error))?;
        match self.front.limits.get(&self.key) {
            Some(limit) => Ok(answer(StatusCode::OK, &limit)),
            None => Ok(answer(StatusCode::NOT_FOUND, &())),
        }
    }

    /// Sets the limit. With `is_new`, only if there is none.
    async fn set(&self, body: &[u8], is_new: bool) -> Result<Response, Refused> {
        let limit: Limit = serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?;
        if limit.read == 0 && limit.write == 0 {
            let body = json!({ "limiter": limit });
            return Ok(answer(StatusCode::BAD_REQUEST, &body));
        }
        if limit.interval <= 0 {
            return Err(bad("interval should be > 0"));
        }
        if limit.read <= 0 && limit.write <= 0 {
            return Err(bad(
                "the read and write of limiter can't be <= 0 at the same time",
            ));
        }
        let known = self.front.limits.find(&self.key).await;
        let is_known = known.map_err(|error| failed(&error))?.is_some();
        if is_new && is_known {
            let text = format!("throttler token({}) has already exists", self.named);
            return Err(refused(StatusCode::CONFLICT, &text));
        }
        let kept = self.front.limits.put(&self.key, &limit).await;
        kept.map_err(|error| failed(&error))?;
        let status = if is_new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok(answer(status, &json!({ "limiter": limit })))
    }

    async fn delete(&self) -> Result<Response, Refused> {
        let removed = self.front.limits.remove(&self.key).await;
        removed.map_err(|error| failed(&error))?;
        Ok(answer(StatusCode::OK, &json!({"msg": "success"})))
    }
}

/// A limit in the list.
#[derive(Serialize)]
struct Listed {
    namespace: String,
    token: String,
    limiter: Limit,
}

/// All limits.
async fn all_limits(front: &Lmstfy) -> Result<Response, Refused> {
    let refreshed = front.limits.refresh().await;
    refreshed.map_err(|error| failed(&error))?;
    let listed = front.limits.all(|_| true).into_iter();
    let listed = listed.map(|(key, limiter)| Listed {
        token: match key.pool.as_str() {
            "default" => key.token,
            pool => format!("{pool}:{}", key.token),
        },
        namespace: key.namespace,
        limiter,
    });
    Ok(answer(StatusCode::OK, &listed.collect::<Vec<_>>()))
}

/// The queues of a pool, by namespace.
async fn queues(front: &Lmstfy, pool: &str) -> Result<BTreeMap<String, Vec<String>>, Problem> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for QueueName { namespace, queue } in front.queues(pool).await? {
        all.entry(namespace).or_default().push(queue);
    }
    Ok(all)
}

/// All figures in Prometheus format.
async fn metrics(front: &Lmstfy) -> String {
    let mut text = front.figures.render();
    let (mut timers, mut ready, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    for pool in front.pools.keys() {
        let mut timed = 0;
        let Some(Ok(engine)) = front.engine(pool).await else {
            continue;
        };
        let queues = front.queues(pool).await.unwrap_or_default();
        for queue in queues.into_iter().take(MAX_SIZES) {
            let Ok(task_type) = queue.task_type() else {
                continue;
            };
            let Ok(stats) = engine.space.tasks.store().stats(&task_type).await else {
                continue;
            };
            let of = labels(&[
                ("pool", pool),
                ("namespace", &queue.namespace),
                ("queue", &queue.queue),
            ]);
            timed += stats.scheduled.saturating_sub(stats.due) + stats.running;
            ready.push((of.clone(), stats.due));
            dead.push((of, stats.dead));
        }
        timers.push((labels(&[("pool", pool)]), timed));
    }
    gauge(&mut text, "redis_timer_sizes", &timers);
    gauge(&mut text, "redis_queue_sizes", &ready);
    gauge(&mut text, "redis_deadletter_sizes", &dead);
    text
}
