//! A far task: its form in cold, and the way back.

use std::time::Duration;

use delayq_core::task::Headers;
use delayq_core::time::{MAX_DELAY, duration_ms};
use delayq_core::worker::OCCURRENCE_HEADER;
use delayq_core::{
    AttemptHistory, ClaimedTask, Expiry, NewTask, OnConflict, TaskInfo, TaskState, Timestamp,
    WaitsFor, When,
};

/// The header that keeps what cold cannot: `after=MS` for an expiry that counts from the due time,
/// and `due=MS` for the real due time of a task that is moved at once. In hot, an occurrence of a
/// recurring task has it with `accepted=MS`. A header of a sender with this name is removed.
pub(crate) const MARK: &str = "delayq-tier";

/// The content of the header [`MARK`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    due: Option<Timestamp>,
    expiry_after: Option<Duration>,
    accepted: Option<Timestamp>,
}

impl Mark {
    fn of(headers: &Headers) -> Self {
        let mut mark = Self::default();
        let text = headers.get(MARK).map_or("", String::as_str);
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some(("due", ms)) => mark.due = ms.parse().ok().map(Timestamp::from_millis),
                Some(("accepted", ms)) => {
                    mark.accepted = ms.parse().ok().map(Timestamp::from_millis);
                }
                Some(("after", ms)) => {
                    mark.expiry_after = ms.parse().ok().map(Duration::from_millis);
                }
                _ => {}
            }
        }
        mark
    }

    fn set(self, headers: &mut Headers) {
        let due = self.due.map(|due| format!("due={}", due.as_millis()));
        let after = self.expiry_after;
        let after = after.map(|span| format!("after={}", duration_ms(span)));
        let accepted = self.accepted;
        let accepted = accepted.map(|time| format!("accepted={}", time.as_millis()));
        let words: Vec<_> = due.into_iter().chain(after).chain(accepted).collect();
        if !words.is_empty() {
            headers.insert(MARK.to_owned(), words.join(" "));
        }
    }
}

/// The time when a cold store accepted an occurrence of a recurring task that was moved since;
/// `None` for a task that was not moved. The submit time of a moved task is that of its move.
#[must_use]
pub fn accepted_at(headers: &Headers) -> Option<Timestamp> {
    Mark::of(headers).accepted
}

/// The real due time of a task that is due in cold at `due`.
pub(crate) fn real_due(headers: &Headers, due: Timestamp, lead: Duration) -> Timestamp {
    Mark::of(headers).due.unwrap_or_else(|| due.plus(lead))
}

/// True for a task that is moved at once, and whose due time is in its header.
pub(crate) fn is_on_its_way(headers: &Headers) -> bool {
    Mark::of(headers).due.is_some()
}

/// The same time, earlier by `lead`.
pub(crate) fn earlier(when: When, lead: Duration) -> When {
    match when {
        When::After(delay) => When::After(delay.saturating_sub(lead)),
        When::At(time) => When::At(time.minus(lead)),
    }
}

/// A request in its form for cold, due there `lead` earlier.
pub(crate) fn to_cold(task: &NewTask, lead: Duration) -> NewTask {
    marked(task, lead, None)
}

/// A request that takes the place of a task of cold and is due too soon to be moved ahead of its
/// due time `due`: it is moved at once.
pub(crate) fn soon_to_cold(task: &NewTask, due: Timestamp, lead: Duration) -> NewTask {
    let mut soon = marked(task, lead, Some(due));
    soon.when = When::At(Timestamp::ZERO);
    if let OnConflict::Debounce { .. } = soon.on_conflict {
        // The due time is counted already; the submit time stays.
        soon.on_conflict = OnConflict::Debounce {
            max_wait: MAX_DELAY,
        };
    }
    soon
}

fn marked(task: &NewTask, lead: Duration, due: Option<Timestamp>) -> NewTask {
    let mut far = task.clone();
    let mut mark = Mark {
        due,
        ..Mark::default()
    };
    far.when = earlier(task.when, lead);
    if let Some(Expiry::AfterDue(span)) = task.expiry {
        mark.expiry_after = Some(span);
        far.expiry = Some(Expiry::AfterDue(span.saturating_add(lead)));
    }
    if let OnConflict::Debounce { max_wait } = task.on_conflict {
        let max_wait = max_wait.saturating_sub(lead);
        far.on_conflict = OnConflict::Debounce { max_wait };
    }
    // A task of cold that runs is being moved: what follows it is hot's to decide.
    far.again_if_running = false;
    mark.set(&mut far.headers);
    far
}

/// True for a time so soon that cold has no exact form for it: it would be due there before a
/// process that dies could have moved it on.
pub(crate) fn is_soon(when: When, now: Timestamp, lead: Duration) -> bool {
    let delay = match when {
        When::After(delay) => delay,
        When::At(time) => time.since(now),
    };
    delay < lead * 2
}

/// A request that is due soon in the form in which cold compares it with an ended task of its own:
/// without a mark, and due there after `lead`. It is due later than it was sent for, and is moved
/// to its time in a second step.
pub(crate) fn later_to_cold(task: &NewTask, now: Timestamp, lead: Duration) -> NewTask {
    let mut later = to_cold(task, lead);
    later.when = match task.when {
        When::After(_) => When::After(lead),
        When::At(_) => When::At(now.plus(lead)),
    };
    later
}

/// The time at which `task` is due if it takes the place of `present`.
pub(crate) fn due_in_place_of(task: &NewTask, present: &TaskInfo, now: Timestamp) -> Timestamp {
    let due = match task.when {
        When::After(delay) => now.plus(delay),
        When::At(time) => time.max(now),
    };
    match (task.on_conflict, present.submitted_at) {
        (OnConflict::Debounce { max_wait }, Some(first)) => due.min(first.plus(max_wait)).max(now),
        _ => due,
    }
}

/// A task of cold in its form for hot. `due` is its due time in cold.
pub(crate) fn to_hot(
    claimed: ClaimedTask,
    task: NewTask,
    due: Timestamp,
    lead: Duration,
) -> NewTask {
    let mark = Mark::of(&claimed.headers);
    let mut near = task;
    near.when = When::At(real_due(&claimed.headers, due, lead));
    near.expiry = match (mark.expiry_after, claimed.expires_at) {
        (Some(span), _) => Some(Expiry::AfterDue(span)),
        (None, at) => at.map(Expiry::At),
    };
    near.headers = claimed.headers;
    near.headers.remove(MARK);
    if near.headers.contains_key(OCCURRENCE_HEADER) {
        // An occurrence that was accepted after its time is not run.
        let accepted = Mark {
            accepted: Some(claimed.submitted_at),
            ..Mark::default()
        };
        accepted.set(&mut near.headers);
    }
    near.message = claimed.message;
    near
}

/// A task of cold as it is shown: with its real due time, and without what moves it.
pub(crate) fn show(info: &mut TaskInfo, lead: Duration) {
    let mark = Mark::of(&info.headers);
    info.due_at = info.due_at.map(|due| real_due(&info.headers, due, lead));
    if let (Some(due), Some(span)) = (info.due_at, mark.expiry_after) {
        info.expires_at = Some(due.plus(span));
    }
    info.headers.remove(MARK);
    if matches!(info.state, TaskState::Scheduled | TaskState::Running) {
        info.state = TaskState::Scheduled;
        info.at = info.due_at.unwrap_or(info.at);
        info.attempt = 0;
        info.history = AttemptHistory::default();
        info.errors.clear();
        info.waits_for = Some(WaitsFor::Delay);
        info.cancel_requested = false;
        (info.started_at, info.attempt_due_at) = (None, None);
        (info.holder, info.fence) = (None, None);
    }
}

/// True for a task of hot that has been moved there in time, by its times: a near task is seldom
/// due just then. One that was moved late looks like a near one.
pub(crate) fn looks_moved(info: &TaskInfo, lead: Duration) -> bool {
    let (Some(due), Some(submitted)) = (info.due_at, info.submitted_at) else {
        return false;
    };
    let ahead = due.since(submitted);
    ahead <= lead && ahead >= lead / 2
}

/// True if a task, as it is shown, has the message, the headers and the expiry of a request.
pub(crate) fn has_content_of(info: &TaskInfo, task: &NewTask) -> bool {
    let expires_at = match task.expiry {
        None => None,
        Some(Expiry::At(time)) => Some(time),
        Some(Expiry::AfterDue(span)) => info.due_at.map(|due| due.plus(span)),
    };
    let mut headers = info.headers.clone();
    headers.remove(MARK);
    info.message.as_ref() == Some(&task.message)
        && headers == task.headers
        && info.expires_at == expires_at
}

#[cfg(test)]
mod tests {
    use delayq_core::{Lock, TaskId, TaskType, seconds};

    use super::*;

    fn job(when: When, expiry: Option<Expiry>) -> NewTask {
        let (task_type, id) = (TaskType::new("a").unwrap(), TaskId::new("1").unwrap());
        let mut task = NewTask::new(task_type, id, b"m".to_vec());
        (task.when, task.expiry) = (when, expiry);
        task
    }

    /// The header is a stored format.
    #[test]
    fn the_mark_is_written_as_before() {
        let after = Some(Expiry::AfterDue(seconds(5)));
        let far = to_cold(&job(When::After(seconds(90)), after), seconds(60));
        assert_eq!(far.headers[MARK], "after=5000");
        assert_eq!(far.when, When::After(seconds(30)));
        assert_eq!(far.expiry, Some(Expiry::AfterDue(seconds(65))));
        let sent = job(When::After(seconds(9)), after);
        let soon = soon_to_cold(&sent, Timestamp::from_millis(7), seconds(60));
        assert_eq!(soon.headers[MARK], "due=7 after=5000");
        assert_eq!(soon.when, When::At(Timestamp::ZERO));
        let plain = to_cold(&job(When::After(seconds(90)), None), seconds(60));
        assert!(plain.headers.is_empty());
    }

    #[test]
    fn a_task_comes_back_as_it_was_sent() {
        let at = Timestamp::from_millis;
        for expiry in [
            None,
            Some(Expiry::At(at(90_000))),
            Some(Expiry::AfterDue(seconds(3))),
        ] {
            let (lead, real) = (seconds(60), at(80_000));
            let mut sent = job(When::At(real), expiry);
            sent.headers.insert("shop".to_owned(), "bonn".to_owned());
            let soon = soon_to_cold(&sent, real, lead);
            for (far, due) in [(to_cold(&sent, lead), at(20_000)), (soon, at(70_000))] {
                let lock = Lock {
                    id: sent.id.clone(),
                    fence: 1,
                };
                let mut claimed = ClaimedTask::new(lock, due, due);
                claimed.expires_at = far.expiry.map(|expiry| match expiry {
                    Expiry::At(time) => time,
                    Expiry::AfterDue(span) => due.plus(span),
                });
                (claimed.headers, claimed.message) = (far.headers, far.message);
                let empty = job(When::At(due), None);
                assert_eq!(to_hot(claimed, empty, due, lead), sent);
            }
        }
    }
}
