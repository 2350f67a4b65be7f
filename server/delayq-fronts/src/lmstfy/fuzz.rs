//! Entry points of the fuzz targets for paths, queries, tokens, headers and bodies of the lmstfy
//! API and its admin API.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use percent_encoding::percent_decode_str;

use super::call::{attributes, read_jobs};
use super::limits::Limit;
use super::names::{QueueName, TokenKey, age_ms, split_token};
use super::wire::{Params, check_names, read_path};

/// Parses a path into the operation and its names; `None` is a refusal.
///
/// # Panics
/// If a queue has no task type, or one that belongs to another queue.
#[must_use]
pub fn lmstfy_path(method: &str, path: &str) -> Option<String> {
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let path = percent_decode_str(path).decode_utf8_lossy();
    let (operation, namespace, queue) = read_path(&method, &path).ok()?;
    check_names(operation, namespace, queue).ok()?;
    for queue in queue.split(',').filter(|queue| !queue.is_empty()) {
        let queue = QueueName::new(namespace, queue);
        let own = queue.task_type().expect("checked names have a type");
        assert!(queue.is_hashed() || QueueName::read(own.as_str()) == Some(queue));
    }
    Some(format!("{operation:?} {namespace} {queue}"))
}

/// Parses a query for all operations with parameters and writes the result as a query; `None` if
/// one of them refuses it.
///
/// # Panics
/// If a value exceeds its limit.
#[must_use]
pub fn lmstfy_query(query: &str) -> Option<String> {
    let params = Params::of(&format!("/?{query}").parse::<Uri>().ok()?);
    let job = params.new_job().ok()?;
    assert!(job.ttl.is_zero() || job.ttl >= job.delay);
    assert!((1..=u32::from(u16::MAX)).contains(&job.tries));
    let (delay, ttl, tries) = (job.delay.as_secs(), job.ttl.as_secs(), job.tries);
    let (count, limit) = (params.count().ok()?, params.limit().ok()?);
    assert!((1..=100).contains(&count) && limit > 0);
    let (ttr, timeout) = (params.ttr().ok()?, params.timeout().ok()?);
    let (ttr, timeout) = (ttr.as_secs(), timeout.as_secs());
    params.respawn_ttl().ok();
    let freeze = params.is_frozen();
    Some(format!(
        "delay={delay}&ttl={ttl}&tries={tries}&count={count}&limit={limit}&ttr={ttr}&\
         timeout={timeout}&freeze_tries={freeze}"
    ))
}

/// Parses a token with its pool and returns their key as text.
///
/// # Panics
/// If the name of its document is not a hash.
#[must_use]
pub fn lmstfy_token(text: &str) -> String {
    let (pool, token) = split_token(text);
    let key = TokenKey::new(pool, "shop", token);
    assert_eq!(key.document().len(), 64, "a hash in hexadecimal digits");
    format!("{}:{}", key.pool, key.token)
}

/// Parses the headers of a job with attributes and returns the number of attributes.
///
/// # Panics
/// If there are too many, or one is too long.
#[must_use]
pub fn lmstfy_attributes(headers: &[(&[u8], &[u8])]) -> Option<usize> {
    let mut map = HeaderMap::new();
    map.insert("enable-job-version", HeaderValue::from_static("YES"));
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name).ok()?;
        map.append(name, HeaderValue::from_bytes(value).ok()?);
    }
    let attributes = attributes(&map).ok()??;
    assert!(attributes.len() <= 16);
    for (name, value) in &attributes {
        assert!(name.len() <= 32 && (1..=128).contains(&value.len()));
    }
    Some(attributes.len())
}

/// Parses a body with several jobs and writes it as a list.
///
/// # Panics
/// If there are no jobs, or too many.
#[must_use]
pub fn lmstfy_jobs(body: &[u8]) -> Option<String> {
    let jobs = read_jobs(body).ok()?;
    assert!((1..=64).contains(&jobs.len()));
    let jobs = jobs.into_iter().map(String::from_utf8);
    let jobs: Vec<_> = jobs.collect::<Result<_, _>>().ok()?;
    Some(format!("[{}]", jobs.join(",")))
}

/// Parses a limit of the admin API and writes it as JSON.
#[must_use]
pub fn lmstfy_limit(body: &[u8]) -> Option<String> {
    let limit: Limit = serde_json::from_slice(body).ok()?;
    serde_json::to_string(&limit).ok()
}

/// Parses a form of the admin API. Returns the description and the chosen token.
#[must_use]
pub fn lmstfy_form(body: &[u8]) -> (String, String) {
    let params = Params::read(body).and(Params::default());
    let text = |name: &str| params.text(name).to_owned();
    (text("description"), text("token"))
}

/// Computes the age of a job from its id at `now_ms`; never negative.
#[must_use]
pub fn lmstfy_age(id: &str, now_ms: i64) -> i64 {
    age_ms(id, delayq_plugin::Timestamp::from_millis(now_ms))
}
