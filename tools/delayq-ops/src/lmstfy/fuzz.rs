//! Entry points for the fuzz targets: answers of a lmstfy's Redis.

use std::time::Duration;

use delayq_plugin::Timestamp;
use futures_util::FutureExt;

use super::job::ImportedJob;
use super::old_redis::OldRedis;
use super::payload::Payload;
use super::place::{Place, is_overdue};

/// Reads the data of a job. Returns the length of its message and the number of its attributes.
#[must_use]
pub fn lmstfy_payload(id: &str, data: &[u8]) -> (usize, usize) {
    let payload = Payload::read(id, data.to_vec());
    (payload.message.len(), payload.attributes.len())
}

/// Reads a member of the set, or of a list, and describes its place at `now`; `None` if it is not
/// one.
#[must_use]
pub fn lmstfy_place(list: Option<&str>, member: &[u8], [score, now]: [i64; 2]) -> Option<String> {
    let place = match list {
        Some(list) => Place::listed(list, member.to_vec()),
        None => Place::timed(member.to_vec()),
    };
    let place = place?;
    let is_delayed = place.is_delayed(score, now);
    let (key, due) = (place.data_key(), place.asked_due());
    Some(format!(
        "{key} {due:?} {is_delayed} {}",
        is_overdue(score, now)
    ))
}

/// The task made from a job; `None` if it cannot become a task.
///
/// # Panics
/// If it is due before the time that its producer asked for.
#[must_use]
pub fn lmstfy_job(member: &[u8], data: &[u8], score: Option<i64>, now_ms: i64) -> Option<String> {
    let job = ImportedJob {
        place: Place::timed(member.to_vec())?,
        data: data.to_vec(),
        ttl: score.map(|score| Duration::from_millis(score.unsigned_abs())),
        score,
    };
    let asked = job.place.asked_due().filter(|_| score.is_some());
    let task = job.task(Timestamp::from_millis(now_ms)).ok()?;
    if let (Some(asked), delayq_plugin::When::At(due)) = (asked, task.when) {
        assert!(due >= asked);
    }
    Some(format!("{} {}", task.task_type, task.id))
}

/// An answer of Redis in words; `None` if it is invalid or incomplete.
#[must_use]
pub fn lmstfy_reply(bytes: &[u8]) -> Option<String> {
    let mut redis = OldRedis::over(tokio::io::join(bytes, tokio::io::sink()));
    let answer = redis.answer().now_or_never()?;
    answer.ok().map(|answer| format!("{answer:?}"))
}
