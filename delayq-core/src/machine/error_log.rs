//! Stored format of a task's last errors.
//!
//! One line for each, newest first: `<when, ms> <attempt> <releases until then> <text>`, then after
//! a unit separator `<fence> <when the next attempt is due, ms> <holder>`, each of them a dash if
//! absent. The lines have no other control character. Lines written by an earlier release end after
//! the text.

use crate::state::TaskState;
use crate::task::{
    HELD_BY, LOCK_EXPIRED, MAX_PAST_ERROR_BYTES, MAX_PAST_ERRORS, PastError, TaskInfo,
};
use crate::time::Timestamp;

use super::Bookkeeping;

/// Number of characters that fits [`MAX_PAST_ERRORS`] lines of any length.
pub const ERROR_LOG_CHARS: usize = 1_500;

/// Separates the text of a line from the facts about its attempt.
const SEPARATOR: char = '\u{1f}';

/// The beginning of an error as written to a log: one line.
#[must_use]
pub fn one_line(error: &str) -> String {
    let end = error.floor_char_boundary(MAX_PAST_ERROR_BYTES);
    let text = error.get(..end).unwrap_or(error);
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(shown).collect()
}

/// The text for a lock that has expired.
#[must_use]
pub fn expiry_text(holder: Option<&str>) -> String {
    holder.map_or_else(
        || LOCK_EXPIRED.to_owned(),
        |holder| format!("{LOCK_EXPIRED}{HELD_BY}{holder}"),
    )
}

/// The last errors of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorLog {
    /// Newest first, at most [`MAX_PAST_ERRORS`].
    pub errors: Vec<PastError>,
    /// How often the task had been given back at the newest error.
    pub(super) releases: Option<u32>,
    /// The due time of the attempt after the newest error.
    next: Option<Timestamp>,
}

/// One line.
#[derive(Debug)]
struct ErrorLine {
    error: PastError,
    releases: u32,
    next: Option<Timestamp>,
}

impl ErrorLog {
    /// The line for `error`, which ended an attempt of the task; `before` and `after` are its
    /// bookkeeping. The caller appends the holder of the attempt, or a dash, and a line feed.
    #[must_use]
    pub fn line(before: &Bookkeeping, after: &Bookkeeping, now: Timestamp, error: &str) -> String {
        let attempt = before.attempt();
        let next = match after.state {
            TaskState::Scheduled => after.at.as_millis().to_string(),
            // Taken over: the next attempt could have started once the lock had expired.
            TaskState::Running => before.at.as_millis().to_string(),
            _ => "-".to_owned(),
        };
        let (now, releases, text) = (now.as_millis(), after.releases, one_line(error));
        let fence = before.fence;
        format!("{now} {attempt} {releases} {text}{SEPARATOR}{fence} {next} ")
    }

    /// `log` with `line` in front, cut to the number of lines that are shown.
    #[must_use]
    pub fn noted(log: &str, line: &str) -> String {
        let older = log.split_inclusive('\n').take(MAX_PAST_ERRORS - 1);
        std::iter::once(line).chain(older).collect()
    }

    /// Reads the log of a task whose requested due time is `asked_due`; malformed lines are
    /// skipped.
    #[must_use]
    pub fn read(log: &str, asked_due: Timestamp) -> Self {
        let mut read = Self::default();
        let lines = log
            .lines()
            .filter_map(ErrorLine::read)
            .take(MAX_PAST_ERRORS);
        let mut lines: Vec<_> = lines.collect();
        while let Some(mut line) = lines.pop() {
            line.error.due_at = line.error.started_at.and_then(|started_at| {
                read.due_of(line.error.attempt, line.releases, started_at, asked_due)
            });
            (read.releases, read.next) = (Some(line.releases), line.next);
            read.errors.insert(0, line.error);
        }
        read
    }

    /// The due time of the attempt after the newest error. It started at `started_at`, after the
    /// task had been given back `releases` times. `None` if that is not known.
    pub(super) fn due_of(
        &self,
        attempt: u32,
        releases: u32,
        started_at: Timestamp,
        asked_due: Timestamp,
    ) -> Option<Timestamp> {
        let last = self.errors.first();
        let (attempts, expected) = match (last, self.next) {
            // An expired lock that does not count leaves the number of the attempt.
            (Some(last), Some(_)) => (last.attempt..=last.attempt.saturating_add(1), self.releases),
            // A requeue restarts the count at one.
            _ => (1..=1, Some(0)),
        };
        if !attempts.contains(&attempt) || Some(releases) != expected {
            return None;
        }
        // The task was rescheduled or requeued since the last error.
        let is_asked = last.is_none_or(|last| asked_due > last.at) && asked_due <= started_at;
        let due_at = is_asked.then_some(asked_due).or(self.next);
        due_at.filter(|due_at| *due_at <= started_at)
    }

    /// True if `text` begins with a line of a log.
    #[must_use]
    pub fn begins(text: &str) -> bool {
        let line = text.split_once('\n').map(|(line, _)| line);
        line.is_some_and(|line| ErrorLine::read(line).is_some())
    }
}

impl ErrorLine {
    fn read(line: &str) -> Option<Self> {
        let (line, attempted) = line.split_once(SEPARATOR).unwrap_or((line, ""));
        let mut words = line.splitn(4, ' ');
        let at = Timestamp::from_millis(number(words.next()?)?);
        let (attempt, releases) = (number(words.next()?)?, number(words.next()?)?);
        let mut error = PastError::new(at, attempt, words.next()?);
        let mut words = attempted.split(' ');
        let fence = words.next().and_then(number).filter(|fence| *fence > 0);
        error.started_at = fence.map(|fence| TaskInfo::claimed_at(fence).min(at));
        let next = words.next().and_then(number).map(Timestamp::from_millis);
        let holder = words.next().filter(|holder| !matches!(*holder, "" | "-"));
        error.holder = holder.map(str::to_owned);
        Some(Self {
            error,
            releases,
            next,
        })
    }
}

/// Parses digits without a sign.
fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::When;
    use crate::machine::MAX_FENCE;
    use crate::presence::InstanceId;

    #[test]
    fn the_last_five_errors_are_read_as_they_were_noted() {
        let at = Timestamp::from_millis;
        let mut task = Bookkeeping::accepted(When::At(at(1)), at(1).into());
        let mut log = String::new();
        let oversized = format!("a\n\u{1e}b{}", "\u{e4}".repeat(MAX_PAST_ERROR_BYTES));
        for (nth, error) in ["", "x", "two words", "y", " z ", &oversized]
            .into_iter()
            .enumerate()
        {
            task.failures += 1;
            let line = ErrorLog::line(&task, &task, at(i64::try_from(nth).unwrap()), error);
            log = ErrorLog::noted(&log, &format!("{line}-\n"));
        }
        let read = ErrorLog::read(&log, at(1));
        let cut = format!("a  b{}", "\u{e4}".repeat(MAX_PAST_ERROR_BYTES / 2 - 2));
        let expected = [
            (5, 6, &*cut),
            (4, 5, " z "),
            (3, 4, "y"),
            (2, 3, "two words"),
            (1, 2, "x"),
        ]
        .map(|(ms, attempt, error)| PastError::new(at(ms), attempt, error));
        assert_eq!(read.errors, expected);
        assert_eq!(read.releases, Some(0));
        assert!(ErrorLog::begins(&log));
        for none in [
            "",
            "1 2 3 x",
            "1 2 x\n",
            "-1 2 3 x\n",
            "1 2 +3 x\n",
            "1 2 3\n",
        ] {
            assert!(!ErrorLog::begins(none), "{none:?}");
            assert_eq!(
                ErrorLog::read(&none[..none.len().saturating_sub(2)], at(1)).errors,
                []
            );
        }
    }

    #[test]
    fn the_longest_lines_are_kept_whole() {
        let mut task = Bookkeeping::accepted(When::At(Timestamp::MAX), Timestamp::ZERO.into());
        (task.failures, task.releases, task.fence) = (u32::MAX, u32::MAX, MAX_FENCE);
        let text = "x".repeat(MAX_PAST_ERROR_BYTES + 1);
        let line = ErrorLog::line(&task, &task, Timestamp::MAX, &text);
        let holder = InstanceId::generate();
        let line = format!("{line}{}\n", holder.short());
        assert!(line.chars().count() * MAX_PAST_ERRORS <= ERROR_LOG_CHARS);
        let read = ErrorLog::read(&line, Timestamp::ZERO);
        assert_eq!(read.errors[0].holder.as_deref(), Some(holder.short()));
        assert_eq!(read.next, Some(Timestamp::MAX));
    }

    /// A line: when, attempt, releases, then start and due time of the next attempt, in ms.
    fn line(at: i64, attempt: u32, releases: u32, rest: Option<(u64, Option<i64>)>) -> String {
        let next = |next: Option<i64>| next.map_or("-".to_owned(), |next| next.to_string());
        let rest = rest.map(|(start, due)| format!("\u{1f}{} {} abc", start * 1_000, next(due)));
        format!("{at} {attempt} {releases} no{}\n", rest.unwrap_or_default())
    }

    #[test]
    fn each_attempt_has_the_due_time_that_is_kept_of_it() {
        let due = |asked: i64, lines: &[String]| {
            let newest_first: String = lines.iter().rev().map(String::as_str).collect();
            let read = ErrorLog::read(&newest_first, Timestamp::from_millis(asked));
            let due = read.errors.iter().rev();
            due.map(|error| error.due_at.map(Timestamp::as_millis))
                .collect::<Vec<_>>()
        };
        let first = || line(20, 1, 0, Some((11, Some(30))));
        let second = line(40, 2, 0, Some((33, Some(90))));
        assert_eq!(due(10, &[first(), second.clone()]), [Some(10), Some(30)]);
        let cases = [
            // Rescheduled to 25 and started at 33; then rescheduled to 50, after the start at 33.
            (25, second.clone(), Some(25)),
            (50, second, Some(30)),
            // Given back in between; an attempt of an earlier release; no preceding attempt.
            (10, line(40, 2, 1, Some((33, None))), None),
            (10, line(40, 2, 0, None), None),
            (10, line(40, 3, 0, Some((33, None))), None),
            // The clock was set back.
            (10, line(40, 2, 0, Some((29, None))), None),
        ];
        for (asked, second, expected) in cases {
            assert_eq!(
                due(asked, &[first(), second.clone()])[1],
                expected,
                "{second}"
            );
        }
        let died = || line(20, 1, 0, Some((11, None)));
        let requeued = line(60, 1, 0, Some((55, None)));
        assert_eq!(due(50, &[died(), requeued.clone()]), [None, Some(50)]);
        assert_eq!(due(50, &[line(20, 1, 0, None), requeued])[1], Some(50));
    }
}
