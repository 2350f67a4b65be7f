//! A task that an earlier promoter may have moved: whether hot has had it.

use std::time::Duration;

use delayq_core::operate::TypeStats;
use delayq_core::{NewTask, TaskInfo, TaskState, Timestamp, When};

use crate::parts::is_live;

/// What becomes of a task that an earlier promoter may have submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Hot has not had it, or would still know.
    Submit,
    /// The same, and hot remembers an earlier task with its id.
    Anew,
    /// Hot has it, or it has ended there.
    Moved,
    /// Hot has another task with its id.
    Taken(TaskState),
    /// It may have run: hot has forgotten it, or the clocks of both stores do not tell.
    Unknown,
}

/// The part of the lead by which the clocks of both stores may differ: three seconds.
const GUARD: u32 = 20;

/// A task with what hot knows of its id.
#[derive(Debug)]
pub(super) struct Suspect<'a> {
    pub(super) task: &'a NewTask,
    /// When cold accepted it.
    pub(super) accepted_at: Timestamp,
    /// True if an earlier promoter may have submitted it. If not, and this promoter has the lock,
    /// a task with other content is another task.
    pub(super) is_in_doubt: bool,
    /// True if hot had another task with the id a moment ago, which may have ended since.
    pub(super) is_refused: bool,
    pub(super) found: Option<TaskInfo>,
}

/// Judges a task by what hot knows. `stats` were read after it was looked for, so that what was
/// forgotten before is known.
pub(super) fn judge(lead: Duration, stats: &TypeStats, suspect: Suspect<'_>) -> Verdict {
    let Suspect {
        task,
        accepted_at,
        is_in_doubt,
        is_refused,
        found,
    } = suspect;
    let due = match task.when {
        When::At(time) => time,
        When::After(_) => Timestamp::ZERO,
    };
    // No promoter has it earlier, by the clock of cold. What hot knows is by that of hot.
    let first = due.minus(lead).max(accepted_at);
    let guard = if is_in_doubt {
        lead / GUARD
    } else {
        Duration::ZERO
    };
    match found {
        Some(info) if is_live(&info) => {
            let is_later = info.submitted_at.is_some_and(|time| time >= first);
            if is_moved_form(&info, task, due) || is_in_doubt && is_later {
                Verdict::Moved
            } else {
                Verdict::Taken(info.state)
            }
        }
        Some(_) if is_refused && !is_in_doubt => Verdict::Anew,
        Some(info) if info.at >= first.plus(guard) => Verdict::Moved,
        Some(info) if info.at.plus(guard) > first => Verdict::Unknown,
        Some(_) => Verdict::Anew,
        None => {
            let has_forgotten = match stats.remembered_since {
                Some(since) => since > first,
                None => stats.now >= due,
            };
            if has_forgotten {
                Verdict::Unknown
            } else {
                Verdict::Submit
            }
        }
    }
}

/// True for a task of hot with the due time and the message of this one. Clocks do not count here.
/// One that was moved late was due when it was moved.
fn is_moved_form(info: &TaskInfo, task: &NewTask, due: Timestamp) -> bool {
    let due = info.submitted_at.map_or(due, |time| due.max(time));
    info.due_at == Some(due) && info.message.as_ref() == Some(&task.message)
}

#[cfg(test)]
mod tests {
    use delayq_core::{TaskId, TaskType, seconds};

    use super::*;

    /// What becomes of a task that cold accepted at 1,000 s and is due at once, by what hot knows.
    fn verdict(is_in_doubt: bool, found: Option<TaskInfo>) -> Verdict {
        verdict_of(is_in_doubt, false, found)
    }

    fn verdict_of(is_in_doubt: bool, is_refused: bool, found: Option<TaskInfo>) -> Verdict {
        let at = |second: i64| Timestamp::from_millis(second * 1_000);
        let (task_type, id) = (TaskType::new("a").unwrap(), TaskId::new("1").unwrap());
        let mut task = NewTask::new(task_type, id, b"m".to_vec());
        task.when = When::At(at(1_000));
        let mut stats = TypeStats::default();
        (stats.now, stats.remembered_since) = (at(1_010), Some(at(500)));
        let accepted_at = at(1_000);
        let suspect = Suspect {
            task: &task,
            accepted_at,
            is_in_doubt,
            is_refused,
            found,
        };
        judge(seconds(60), &stats, suspect)
    }

    /// The clock of hot is 2 s ahead or behind, so the end of an earlier task looks like that of
    /// this one, or the other way round.
    #[test]
    fn an_end_near_the_time_of_a_submit_is_taken_for_none_of_both() {
        let ended = |ms: i64| {
            let id = TaskId::new("1").unwrap();
            let at = Timestamp::from_millis(ms);
            Some(TaskInfo::new(id, TaskState::Done, at))
        };
        for ms in [997_001, 999_000, 1_000_000, 1_002_999] {
            assert_eq!(verdict(true, ended(ms)), Verdict::Unknown, "{ms}");
        }
        assert_eq!(verdict(true, ended(996_999)), Verdict::Anew);
        assert_eq!(verdict(true, ended(1_003_000)), Verdict::Moved);
        assert_eq!(verdict(false, ended(999_999)), Verdict::Anew);
        assert_eq!(verdict(true, None), Verdict::Submit);
        // Another task with the id has ended since hot refused this one.
        assert_eq!(verdict_of(false, true, ended(1_003_000)), Verdict::Anew);
        assert_eq!(verdict_of(true, true, ended(1_003_000)), Verdict::Moved);
    }

    #[test]
    fn another_task_with_the_id_is_the_same_only_in_doubt() {
        let live = |message: &str| {
            let id = TaskId::new("1").unwrap();
            let at = Timestamp::from_millis(1_005_000);
            let mut info = TaskInfo::new(id, TaskState::Scheduled, at);
            (info.submitted_at, info.due_at) = (Some(at), Some(at));
            info.message = Some(message.as_bytes().to_vec());
            Some(info)
        };
        let taken = Verdict::Taken(TaskState::Scheduled);
        assert_eq!(verdict(false, live("other")), taken);
        assert_eq!(verdict(true, live("other")), Verdict::Moved);
        assert_eq!(
            verdict(false, live("m")),
            Verdict::Moved,
            "it was moved late"
        );
    }
}
