//! The history of a job, as counted by Grape.

use std::time::Duration;

use delayq_core::task::Headers;
use delayq_core::time::MAX_DELAY;
use delayq_plugin::AttemptHistory;

/// Task headers: the job's initial delay and time to run, in milliseconds, and its executions
/// before the last kick.
pub(super) const DELAY: &str = "grape-dtr";
pub(super) const TIME: &str = "grape-ttr";
pub(super) const EXECUTIONS: &str = "grape-noe";

/// The shortest time to run, and the default, in milliseconds.
pub(super) const SHORTEST: i64 = 1_000;
/// The time to run of a task that another API created, in milliseconds.
const OTHERS: i64 = 30_000;

/// The prefix of a release note. An earlier release keeps the note in the list of succeeded
/// workers, which a job does not use otherwise.
const NOTE: &str = "grape:";

/// The history of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    /// The latest delay, in milliseconds.
    pub(super) dtr: i64,
    /// The time that a consumer has for the job, in milliseconds.
    pub(super) ttr: i64,
    /// The number of ended executions.
    pub(super) noe: u64,
    released: u64,
}

impl Course {
    pub(super) fn of(headers: &Headers, history: &AttemptHistory) -> Self {
        let number = |name| {
            headers
                .get(name)
                .and_then(|text: &String| text.parse().ok())
        };
        let noted = history.note.as_deref().and_then(read);
        // It came later than the note, and without its executions.
        let told = history.succeeded.iter().find_map(|note| read(note));
        let both = [told, noted].into_iter().flatten();
        let released = both.clone().map(|(_, released)| released).max();
        let released = released.unwrap_or(0);
        let dtr = both.map(|(dtr, _)| dtr).next();
        let dtr = dtr.unwrap_or_else(|| number(DELAY).unwrap_or(0));
        let before = number(EXECUTIONS).and_then(|noe| u64::try_from(noe).ok());
        let ended = u64::from(history.failures) + u64::from(history.lock_expiries);
        Self {
            dtr,
            ttr: number(TIME).unwrap_or(OTHERS),
            noe: before
                .unwrap_or(0)
                .saturating_add(ended)
                .saturating_add(released),
            released,
        }
    }

    /// The time that a consumer has for the job.
    pub(super) fn time(&self) -> Duration {
        let time = Duration::from_millis(u64::try_from(self.ttr.max(SHORTEST)).unwrap_or(0));
        time.min(MAX_DELAY)
    }

    /// The note of a release with this delay.
    pub(super) fn note(&self, dtr: i64) -> String {
        format!("{NOTE}{dtr}:{}", self.released.saturating_add(1))
    }
}

fn read(note: &str) -> Option<(i64, u64)> {
    let (dtr, released) = note.strip_prefix(NOTE)?.split_once(':')?;
    Some((dtr.parse().ok()?, released.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_those_before_a_kick_failures_ended_times_and_releases() {
        let headers = [(DELAY, "5"), (TIME, "7000"), (EXECUTIONS, "3")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let headers = Headers::from(headers);
        let mut history = AttemptHistory::default();
        let fresh = Course::of(&headers, &history);
        assert_eq!((fresh.dtr, fresh.ttr, fresh.noe), (5, 7_000, 3));
        (history.failures, history.lock_expiries) = (1, 2);
        history.note = Some(fresh.note(-9));
        let course = Course::of(&headers, &history);
        assert_eq!((course.dtr, course.noe), (-9, 7));
        history.note = Some(course.note(0));
        assert_eq!(Course::of(&headers, &history).noe, 8);
    }

    #[test]
    fn what_an_earlier_release_has_noted_is_read_and_counts_no_execution_twice() {
        let mut history = AttemptHistory::default();
        let course = |history: &AttemptHistory| {
            let course = Course::of(&Headers::new(), history);
            (course.dtr, course.noe)
        };
        history.succeeded = vec!["grape:-9:3".to_owned()];
        assert_eq!(course(&history), (-9, 3));
        history.note = Some("grape:8:5".to_owned());
        assert_eq!(course(&history), (-9, 5));
        history.succeeded.clear();
        assert_eq!(course(&history), (8, 5));
        for foreign in ["8:5", "grape:8", "beanstalkd: pri=1", ""] {
            history.note = Some(foreign.to_owned());
            assert_eq!(course(&history), (0, 0), "{foreign}");
        }
    }
}
