//! Entrances of the fuzz targets: queries, headers, lines and bodies of requests.

use axum::extract::Query;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use delayq_core::Limits;
use delayq_plugin::{DelayQueueJob, TaskType, Timestamp};
use delayq_service::operation::callee::check_name;

use super::bulk::Line;
use super::callee::Announcement;
use super::dead::Dead;
use super::form::{
    CreateOptions, read_cursor, read_span, read_state, read_time, shown_cursor, task_headers,
};
use super::many::Matching;
use super::reply::{read_reply, read_wait};
use super::settings::Settings;
use super::settle_many::{EndingForm, LongerForm, read_endings, read_locks};

/// The present time of all entrances, in milliseconds.
const NOW: i64 = 1_767_225_600_000;

/// A span of a query.
#[must_use]
pub fn span(text: &str) -> Option<String> {
    Some(read_span(text).ok()?.as_millis().to_string())
}

/// How long a request waits.
#[must_use]
pub fn wait(text: &str) -> Option<String> {
    Some(read_wait(Some(text)).ok()?.as_millis().to_string())
}

/// A time of a query.
#[must_use]
pub fn time(text: &str) -> Option<String> {
    Some(read_time(text).ok()?.as_millis().to_string())
}

/// A state of a query.
#[must_use]
pub fn listed_state(text: &str) -> Option<String> {
    Some(read_state(Some(text)).ok()?.to_string())
}

/// A cursor of a list.
#[must_use]
pub fn cursor(text: &str) -> Option<String> {
    Some(shown_cursor(&read_cursor(text).ok()?))
}

/// The query of a create; its words are those of the job that came of it.
#[must_use]
pub fn options(query: &str) -> Option<String> {
    let uri: Uri = format!("/?{query}").parse().ok()?;
    let Query(options) = Query::<CreateOptions>::try_from_uri(&uri).ok()?;
    let job = options
        .apply(DelayQueueJob::raw("mail", "x").id("a"))
        .ok()?;
    taken(job)
}

/// What a job is once all its limits were checked.
fn taken(job: DelayQueueJob) -> Option<String> {
    let task = job
        .into_task(&Limits::default(), Timestamp::from_millis(NOW))
        .ok()?;
    Some(format!("{task:?}"))
}

/// A line of `bulk`.
#[must_use]
pub fn bulk_line(bytes: &[u8]) -> Option<String> {
    let line = Line::read(bytes).ok()?;
    let written = serde_json::to_string(&line).ok()?;
    let job = line.job("mail").ok()?;
    taken(job.id("a"))?;
    Some(written)
}

/// A header of a request, be it one of a task or the type of a reply.
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

/// A body of JSON, of each route that takes one.
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

/// What an application says of itself: how long that holds, in milliseconds.
#[must_use]
pub fn announcement(body: &[u8]) -> Option<u128> {
    let announcement: Announcement = serde_json::from_slice(body).ok()?;
    Some(announcement.read().ok()?.lease().ok()?.as_millis())
}

/// The name under which it says so.
#[must_use]
pub fn callee_name(name: &str) -> bool {
    check_name(name).is_ok()
}
