//! Sleeps that end within a tenth of a millisecond of their time.
//!
//! Sleeps of tokio are rounded up to whole milliseconds, and so is the wait of its I/O driver: they
//! end one millisecond late on average, two at most. That would be most of a task's lateness. So
//! one dedicated thread of the process sleeps until the earliest of all ends, and wakes its waiter.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::Builder;
use std::time::Instant;

/// Completes at `end`; uses tokio's timer if no thread can be started.
pub(super) async fn sleep_until(end: Instant) {
    static TIMER: OnceLock<Option<&'static Timer>> = OnceLock::new();
    match TIMER.get_or_init(Timer::start) {
        Some(timer) => Sleep::new(timer, end).await,
        None => tokio::time::sleep_until(end.into()).await,
    }
}

/// The time to wake a sleeper; numbered, as several may have the same time.
type Key = (Instant, u64);

/// All sleepers. Each step is O(log n).
#[derive(Debug, Default)]
struct Timer {
    sleepers: Mutex<Sleepers>,
    /// Signalled when the first end becomes earlier.
    earlier: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    wakers: BTreeMap<Key, Waker>,
    last: u64,
}

impl Timer {
    fn start() -> Option<&'static Self> {
        let timer: &'static Self = Box::leak(Box::default());
        let thread = Builder::new().name("delayq-timer".to_owned());
        match thread.spawn(|| timer.run()) {
            Ok(_) => Some(timer),
            Err(error) => {
                tracing::warn!(%error, "no thread for the timer: tasks start up to 2 ms later");
                None
            }
        }
    }

    fn run(&self) -> ! {
        let mut sleepers = self.lock();
        loop {
            let now = Instant::now();
            let due = sleepers.take_due(now);
            if !due.is_empty() {
                drop(sleepers);
                due.into_iter().for_each(Waker::wake);
                sleepers = self.lock();
                continue;
            }
            sleepers = match sleepers.wakers.first_key_value() {
                None => self.earlier.wait(sleepers),
                Some(((end, _), _)) => {
                    let rest = *end - now;
                    let waited = self.earlier.wait_timeout(sleepers, rest);
                    waited
                        .map(|(sleepers, _)| sleepers)
                        .map_err(|error| PoisonError::new(error.into_inner().0))
                }
            }
            .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        // Ignores poisoning: no panic leaves the state half changed.
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sleepers {
    fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(first) = self
            .wakers
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            due.push(first.remove());
        }
        due
    }
}

/// One sleep.
#[derive(Debug)]
struct Sleep {
    timer: &'static Timer,
    end: Instant,
    /// Its number, once it is waiting.
    number: Option<u64>,
}

impl Sleep {
    fn new(timer: &'static Timer, end: Instant) -> Self {
        let number = None;
        Self { timer, end, number }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.end <= Instant::now() {
            return Poll::Ready(());
        }
        let mut sleepers = self.timer.lock();
        let number = self.number.unwrap_or(sleepers.last + 1);
        sleepers.last = sleepers.last.max(number);
        let key = (self.end, number);
        let is_new = sleepers.wakers.insert(key, cx.waker().clone()).is_none();
        let is_first = sleepers
            .wakers
            .first_key_value()
            .is_some_and(|(first, _)| *first == key);
        drop(sleepers);
        if is_new && is_first {
            self.timer.earlier.notify_one();
        }
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.timer.lock().wakers.remove(&(self.end, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn a_sleep_ends_at_its_time_and_not_before() {
        let begin = Instant::now();
        for n in 1..=20 {
            let end = begin + MS * n;
            sleep_until(end).await;
            assert!(Instant::now() >= end);
        }
        // A sleep that is already over.
        sleep_until(begin).await;
    }

    #[tokio::test]
    async fn the_sooner_of_two_sleeps_ends_first_whichever_began_first() {
        let begin = Instant::now();
        let (soon, late) = (begin + 20 * MS, begin + 10_000 * MS);
        for order in [[soon, late], [late, soon]] {
            let mut sleeps = order.map(|end| (end, Box::pin(sleep_until(end))));
            let [(first, one), (second, other)] = &mut sleeps;
            let ended = tokio::select! {
                biased;
                () = one => *first,
                () = other => *second,
            };
            assert_eq!(ended, soon);
        }
    }

    #[tokio::test]
    async fn a_sleep_that_is_given_up_leaves_nothing_behind() {
        let timer: &'static Timer = Box::leak(Box::default());
        let mut sleep = Box::pin(Sleep::new(timer, Instant::now() + 10_000 * MS));
        for _ in 0..2 {
            let woken = tokio::time::timeout(MS, &mut sleep).await;
            assert!(woken.is_err());
            assert_eq!(
                timer.lock().wakers.len(),
                1,
                "polled again, it is still one"
            );
        }
        drop(sleep);
        assert_eq!(timer.lock().wakers.len(), 0);
    }

    #[test]
    fn all_whose_time_has_come_are_woken_together() {
        let begin = Instant::now();
        let mut sleepers = Sleepers::default();
        for number in 0..3 {
            let end = begin + MS * (u32::try_from(number).unwrap() % 2);
            sleepers.wakers.insert((end, number), Waker::noop().clone());
        }
        assert_eq!(sleepers.take_due(begin).len(), 2);
        assert_eq!(sleepers.take_due(begin).len(), 0);
        assert_eq!(sleepers.take_due(begin + MS).len(), 1);
    }
}
