//! Entrances of the fuzz targets: paths, queries, tokens, headers and bodies of the API of lmstfy
//! and of its administration.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use percent_encoding::percent_decode_str;

use super::call::{attributes, read_jobs};
use super::limits::Limit;
use super::names::{QueueName, TokenKey, age_ms, split_token};
use super::wire::{Params, check_names, read_path};

/// A path: the operation and its names; `None` is a refusal.
///
/// # Panics
/// If a queue has no task type, or one that stands for another queue.
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

/// A query, read for every operation that has parameters: what they make of it, as a query
/// again; `None`: one of them refuses it.
///
/// # Panics
/// If something is beyond its limits.
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

/// A token with the pool that it names, as its key says them.
///
/// # Panics
/// If its document is not named by a hash.
#[must_use]
pub fn lmstfy_token(text: &str) -> String {
    let (pool, token) = split_token(text);
    let key = TokenKey::new(pool, "shop", token);
    assert_eq!(key.document().len(), 64, "a hash in hexadecimal digits");
    format!("{}:{}", key.pool, key.token)
}

/// The headers of a job that has attributes; how many it has.
///
/// # Panics
/// If it has too many, or too long ones.
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

/// A body of several jobs, as a list again.
///
/// # Panics
/// If there are none, or too many.
#[must_use]
pub fn lmstfy_jobs(body: &[u8]) -> Option<String> {
    let jobs = read_jobs(body).ok()?;
    assert!((1..=64).contains(&jobs.len()));
    let jobs = jobs.into_iter().map(String::from_utf8);
    let jobs: Vec<_> = jobs.collect::<Result<_, _>>().ok()?;
    Some(format!("[{}]", jobs.join(",")))
}

/// A limit, as the administration sets it, as JSON again.
#[must_use]
pub fn lmstfy_limit(body: &[u8]) -> Option<String> {
    let limit: Limit = serde_json::from_slice(body).ok()?;
    serde_json::to_string(&limit).ok()
}

/// A form of the administration: the description and the token that somebody brings.
#[must_use]
pub fn lmstfy_form(body: &[u8]) -> (String, String) {
    let params = Params::read(body).and(Params::default());
    let text = |name: &str| params.text(name).to_owned();
    (text("description"), text("token"))
}

/// The id of a job: its age at `now_ms`, which is never below 0.
#[must_use]
pub fn lmstfy_age(id: &str, now_ms: i64) -> i64 {
    age_ms(id, delayq_plugin::Timestamp::from_millis(now_ms))
}
