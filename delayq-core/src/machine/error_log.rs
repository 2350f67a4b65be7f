//! Stored form of a task's last errors.
//!
//! A line each, newest first: `<when, ms> <attempt> <releases until then> <text>`. The lines have
//! no other control character.

use crate::task::{HELD_BY, LOCK_EXPIRED, MAX_PAST_ERROR_BYTES, MAX_PAST_ERRORS, PastError};
use crate::time::Timestamp;

use super::Bookkeeping;

/// Characters that hold [`MAX_PAST_ERRORS`] lines of any length.
pub const ERROR_LOG_CHARS: usize = 1_300;

/// The beginning of an error as a log has it: in one line.
#[must_use]
pub fn one_line(error: &str) -> String {
    let end = error.floor_char_boundary(MAX_PAST_ERROR_BYTES);
    let text = error.get(..end).unwrap_or(error);
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(shown).collect()
}

/// What is noted of a lock that has expired.
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
    /// How often the task had been given back when the newest was noted.
    pub(super) releases: Option<u32>,
}

impl ErrorLog {
    /// The line of `error`, by which the last attempt of `task` has ended.
    #[must_use]
    pub fn line(task: &Bookkeeping, now: Timestamp, error: &str) -> String {
        let attempt = task.failures.saturating_add(task.lock_expiries);
        let (now, releases, text) = (now.as_millis(), task.releases, one_line(error));
        format!("{now} {attempt} {releases} {text}\n")
    }

    /// `log` with `line` in front, and no more lines than are shown.
    #[must_use]
    pub fn noted(log: &str, line: &str) -> String {
        let older = log.split_inclusive('\n').take(MAX_PAST_ERRORS - 1);
        std::iter::once(line).chain(older).collect()
    }

    /// Reads a log; lines that are none are left out.
    #[must_use]
    pub fn read(log: &str) -> Self {
        let lines = log.lines().filter_map(Self::read_line);
        let (errors, releases): (Vec<_>, Vec<_>) = lines.take(MAX_PAST_ERRORS).unzip();
        Self {
            errors,
            releases: releases.first().copied(),
        }
    }

    /// Whether `text` begins with a line of a log.
    #[must_use]
    pub fn begins(text: &str) -> bool {
        let line = text.split_once('\n').map(|(line, _)| line);
        line.is_some_and(|line| Self::read_line(line).is_some())
    }

    fn read_line(line: &str) -> Option<(PastError, u32)> {
        let mut words = line.splitn(4, ' ');
        let at = Timestamp::from_millis(number(words.next()?)?);
        let (attempt, releases) = (number(words.next()?)?, number(words.next()?)?);
        Some((PastError::new(at, attempt, words.next()?), releases))
    }
}

/// Digits without a sign.
fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::When;

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
            let line = ErrorLog::line(&task, at(i64::try_from(nth).unwrap()), error);
            assert!(line.chars().count() * MAX_PAST_ERRORS <= ERROR_LOG_CHARS);
            log = ErrorLog::noted(&log, &line);
        }
        let read = ErrorLog::read(&log);
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
                ErrorLog::read(&none[..none.len().saturating_sub(2)]).errors,
                []
            );
        }
    }
}
