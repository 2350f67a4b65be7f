//! Ids of jobs: new ones, and the age of one.

use std::sync::{Mutex, PoisonError};

use delayq_plugin::Timestamp;
use ulid::{Generator, Overflow, Ulid};

/// What the id of a job with attributes begins with.
const VERSION: &str = "1";
/// Characters of an id without a version.
const LENGTH: usize = 26;

/// New ids: a later one sorts behind an earlier one, so that jobs of one millisecond stay in order.
#[derive(Debug)]
pub(super) struct JobIds(Mutex<Generator>);

impl Default for JobIds {
    fn default() -> Self {
        Self(Mutex::new(Generator::new()))
    }
}

impl JobIds {
    /// A new id, of a job with attributes or without.
    pub(super) fn next(&self, has_version: bool) -> String {
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = generator.generate();
        let id = made.unwrap_or_else(Overflow::commit_overflow_increment);
        let version = if has_version { VERSION } else { "" };
        format!("{version}{id}")
    }
}

/// Milliseconds since the job with this id was made; 0 for an id of another form.
pub(super) fn age_ms(id: &str, now: Timestamp) -> i64 {
    let ulid = id.get(id.len().saturating_sub(LENGTH)..).unwrap_or(id);
    let made: Option<Ulid> = ulid.parse().ok();
    let made = made.and_then(|made| i64::try_from(made.timestamp_ms()).ok());
    made.map_or(0, |made| (now.as_millis() - made).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_and_tell_their_age() {
        let ids = JobIds::default();
        let made: Vec<_> = (0..1_000).map(|_| ids.next(false)).collect();
        assert!(made.is_sorted() && made.iter().all(|id| id.len() == 26));
        assert_eq!(ids.next(true).len(), 27);
        let ulid = Ulid::from_parts(1_000, 7).to_string();
        let now = Timestamp::from_millis(1_250);
        assert_eq!(age_ms(&ulid, now), 250);
        assert_eq!(age_ms(&format!("1{ulid}"), now), 250);
        assert_eq!(age_ms("x", now), 0);
    }
}
