//! Entry points of the fuzz targets for queries, headers, lines and bodies of requests.

use axum::extract::Query;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use delayq_core::Limits;
use delayq_plugin::{DelayQueueJob, TaskType, Timestamp};
use delayq_service::operation::callee::check_name;

use super::callee::Announcement;
use super::dead::Dead;
use super::form::{
    CreateOptions, read_cursor, read_span, read_state, read_time, shown_cursor, task_headers,
};
use super::line::Line;
use super::many::Matching;
use super::reply::{read_reply, read_wait};
use super::settings::Settings;
use super::settle_many::{EndingForm, LongerForm, read_endings, read_locks};

/// The current time for all entry points, in milliseconds since the epoch.
const NOW: i64 = 1_767_225_600_000;

/// Parses a span in a query.
#[must_use]
pub fn span(text: &str) -> Option<String> {
    Some(read_span(text).ok()?.as_millis().to_string())
}

/// Parses the wait of a request.
#[must_use]
pub fn wait(text: &str) -> Option<String> {
    Some(read_wait(Some(text)).ok()?.as_millis().to_string())
}

/// Parses a time in a query.
#[must_use]
pub fn time(text: &str) -> Option<String> {
    Some(read_time(text).ok()?.as_millis().to_string())
}

/// Parses a state in a query.
#[must_use]
pub fn listed_state(text: &str) -> Option<String> {
    Some(read_state(Some(text)).ok()?.to_string())
}

/// Parses a cursor of a list.
#[must_use]
pub fn cursor(text: &str) -> Option<String> {
    Some(shown_cursor(&read_cursor(text).ok()?))
}

/// Parses the query of a create. Returns the resulting task as text.
#[must_use]
pub fn options(query: &str) -> Option<String> {
    let uri: Uri = format!("/?{query}").parse().ok()?;
    let Query(options) = Query::<CreateOptions>::try_from_uri(&uri).ok()?;
    let job = options
        .apply(DelayQueueJob::raw("mail", "x").id("a"))
        .ok()?;
    taken(job)
}

/// The task of a job, after all checks, as text.
fn taken(job: DelayQueueJob) -> Option<String> {
    let task = job
        .into_task(&Limits::default(), Timestamp::from_millis(NOW))
        .ok()?;
    Some(format!("{task:?}"))
}

/// Parses a line of `bulk`.
#[must_use]
pub fn bulk_line(bytes: &[u8]) -> Option<String> {
    let line = Line::read(bytes).ok()?;
    let written = serde_json::to_string(&line).ok()?;
    let job = line.job_of("mail").ok()?;
    taken(job.id("a"))?;
    Some(written)
}

/// Parses a request header as a task header and as the content type of a reply.
#[must_use]
pub fn header(name: &[u8], value: &[u8]) -> Option<String> {
    let name = HeaderName::from_bytes(name).ok()?;
    let value = HeaderValue::from_bytes(value).ok()?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, value.clone());
    let reply = read_reply(&headers, b"x".to_vec()).ok();
    headers.insert(name, value);
    let job = task_headers(DelayQueueJob::raw("mail", "x").id("a"), &headers).ok();
    let job = job.and_then(taken);
    (reply.is_some() || job.is_some()).then(|| format!("{job:?}"))
}

/// Parses a JSON body as the body of every route that takes one.
#[must_use]
pub fn body(bytes: &[u8]) -> Option<&'static str> {
    let mail = TaskType::new("mail").ok()?;
    let endings: Option<Vec<EndingForm>> = serde_json::from_slice(bytes).ok();
    if let Some(endings) = endings {
        return read_endings(&mail, endings).ok().map(|_| "settle");
    }
    let longer: Option<LongerForm> = serde_json::from_slice(bytes).ok();
    if let Some(longer) = longer {
        return read_locks(&longer).ok().map(|_| "extend");
    }
    let matching: Option<Matching> = serde_json::from_slice(bytes).ok();
    let matches = matching.is_some_and(|form| form.filter().is_ok());
    let dead: Option<Dead> = serde_json::from_slice(bytes).ok();
    let is_dead = dead.is_some_and(|form| form.selection("mail".to_owned()).is_ok());
    let settings: Option<Settings> = serde_json::from_slice(bytes).ok();
    let sets = settings.is_some_and(|form| form.change().is_ok());
    match (matches, is_dead, sets) {
        (true, ..) => Some("matching"),
        (_, true, _) => Some("dead"),
        (.., true) => Some("settings"),
        _ => None,
    }
}

/// Parses an announcement. Returns its lease in milliseconds.
#[must_use]
pub fn announcement(body: &[u8]) -> Option<u128> {
    let announcement: Announcement = serde_json::from_slice(body).ok()?;
    Some(announcement.read().ok()?.lease().ok()?.as_millis())
}

/// Checks the name of an announced application.
#[must_use]
pub fn callee_name(name: &str) -> bool {
    check_name(name).is_ok()
}
