//! Where workers note which tasks they were given, and when.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Not due, or not started, yet.
const NEVER: i64 = i64::MIN;

/// All tasks of a case by their number.
#[derive(Debug)]
pub(crate) struct Board {
    origin: Instant,
    tasks: Vec<Entry>,
    /// Tasks that started at least once.
    ran: AtomicUsize,
    /// Why the worker ended by itself.
    ended: OnceLock<String>,
    all: Notify,
}

#[derive(Debug)]
struct Entry {
    due_us: AtomicI64,
    first_us: AtomicI64,
    starts: AtomicU32,
}

impl Board {
    pub(crate) fn of(count: usize) -> Self {
        let entry = || Entry {
            due_us: AtomicI64::new(NEVER),
            first_us: AtomicI64::new(NEVER),
            starts: AtomicU32::new(0),
        };
        Self {
            origin: Instant::now(),
            tasks: std::iter::repeat_with(entry).take(count).collect(),
            ran: AtomicUsize::new(0),
            ended: OnceLock::new(),
            all: Notify::new(),
        }
    }

    /// The task will be due after `delay`; to be called before it is sent.
    pub(crate) fn due_after(&self, number: usize, delay: Duration) {
        if let Some(task) = self.tasks.get(number) {
            let due_us = self.now_us() + micros(delay);
            task.due_us.store(due_us, Ordering::Relaxed);
        }
    }

    /// A worker was given the task: the first thing that it tells.
    pub(crate) fn started(&self, number: usize) {
        let now_us = self.now_us();
        let Some(task) = self.tasks.get(number) else {
            return;
        };
        if task.starts.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        task.first_us.store(now_us, Ordering::Relaxed);
        if self.ran.fetch_add(1, Ordering::Relaxed) + 1 == self.tasks.len() {
            self.all.notify_one();
        }
    }

    /// The worker has ended by itself; its first reason is kept.
    pub(crate) fn ended<E: std::fmt::Display>(&self, result: Result<(), E>) {
        let why = result.map_or_else(
            |error| error.to_string(),
            |()| "without an error".to_owned(),
        );
        self.ended.get_or_init(|| why);
    }

    pub(crate) fn why_ended(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
    }

    /// Waits until every task has started, for so long at most; says whether they have.
    pub(crate) async fn wait(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.all.notified())
            .await
            .is_ok()
    }

    pub(crate) fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Starts beyond the first one of each task.
    pub(crate) fn repeats(&self) -> u64 {
        let repeats =
            |task: &Entry| u64::from(task.starts.load(Ordering::Relaxed).saturating_sub(1));
        self.tasks.iter().map(repeats).sum()
    }

    /// How late each task that started did so, sorted; negative when it was early.
    pub(crate) fn lateness_us(&self) -> Vec<i64> {
        let started = self.tasks.iter().filter_map(|task| {
            let first_us = task.first_us.load(Ordering::Relaxed);
            (first_us != NEVER).then(|| first_us - task.due_us.load(Ordering::Relaxed))
        });
        let mut lateness: Vec<_> = started.collect();
        lateness.sort_unstable();
        lateness
    }

    fn now_us(&self) -> i64 {
        micros(self.origin.elapsed())
    }
}

fn micros(span: Duration) -> i64 {
    span.as_micros().try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn early_late_and_repeated_starts_are_told_apart() {
        let board = Board::of(3);
        board.due_after(0, Duration::from_mins(1));
        board.due_after(1, Duration::ZERO);
        board.due_after(2, Duration::ZERO);
        for number in [0, 1, 1, usize::MAX] {
            board.started(number);
        }
        assert!(!board.wait(Duration::ZERO).await);
        board.started(2);
        assert!(board.wait(Duration::ZERO).await);
        let lateness = board.lateness_us();
        assert!(
            lateness[0] < -50_000_000 && lateness[1] >= 0,
            "{lateness:?}"
        );
        assert_eq!((board.ran(), board.repeats(), lateness.len()), (3, 1, 3));
    }
}
