//! A job of lmstfy on its way into a store.

use std::time::Duration;

use delayq_plugin::store::NewTask;
use delayq_plugin::{Expiry, OnConflict, Result, TaskId, Timestamp, When};

use super::payload::Payload;
use super::place::Place;
use super::{LMSTFY_ATTRIBUTE, LMSTFY_TRIES, lmstfy_type};

/// A job of lmstfy on its way into a store.
#[derive(Clone, Debug)]
pub(super) struct ImportedJob {
    pub(super) place: Place,
    pub(super) data: Vec<u8>,
    /// The rest of its time to live; `None`: it lives for ever.
    pub(super) ttl: Option<Duration>,
    /// The time of its place in the set, in seconds; `None`: it is ready.
    pub(super) score: Option<i64>,
}

impl ImportedJob {
    /// The task made from it.
    pub(super) fn task(self, now: Timestamp) -> Result<NewTask> {
        let Self {
            place,
            data,
            ttl,
            score,
        } = self;
        let task_type = lmstfy_type(&place.namespace, &place.queue)?;
        let payload = Payload::read(&place.id, data);
        let mut task = NewTask::new(task_type, TaskId::new(&place.id)?, payload.message);
        let mut waits = Duration::ZERO;
        if let Some(score) = score {
            // The set has whole seconds, rounded down: never earlier than the producer asked for.
            let at = Timestamp::from_millis(score.saturating_mul(1_000));
            let due = at.max(place.asked_due().unwrap_or(at));
            waits = due.since(now);
            task.when = When::At(due);
        }
        let left = |ttl: Duration| ttl.saturating_sub(waits).max(Duration::from_millis(1));
        task.expiry = ttl.map(|ttl| Expiry::AfterDue(left(ttl)));
        task.on_conflict = OnConflict::Keep;
        let tries = place.tries.max(1).to_string();
        task.headers.insert(LMSTFY_TRIES.to_owned(), tries);
        for (name, value) in payload.attributes {
            task.headers
                .insert(format!("{LMSTFY_ATTRIBUTE}{name}"), value);
        }
        Ok(task)
    }
}
