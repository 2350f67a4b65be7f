//! Attempts that run side by side in this process, and the one that has to run alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::Clock;
use tokio::sync::{Notify, watch};

/// How long others may be kept waiting in each [`SPAN`]. The last attempt to run alone may exceed
/// it.
const WAITING: Duration = Duration::from_mins(1);
/// See [`WAITING`].
const SPAN: Duration = Duration::from_mins(10);

/// The running attempts of a plugin.
///
/// A crash ends all attempts of its process, and every one of them may be its cause. So a task that
/// was there at several crashes runs alone before it is called poison: no other attempt starts, and
/// those that run have ended.
#[derive(Clone, Debug)]
pub(crate) struct Company(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the last attempt has ended while one waits to run alone.
    quiet: Notify,
    is_closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// One attempt runs alone or waits for that; no other one starts.
    is_closed: bool,
    /// The begin of the present [`SPAN`], by `Clock::elapsed`.
    span_from: Duration,
    /// How long others have been kept waiting in it.
    waiting: Duration,
}

/// How a suspect enters.
#[derive(Debug)]
pub(crate) enum Entry {
    Alone(Solitude),
    /// The others have waited for long enough.
    Beside(Member),
}

/// An attempt that runs beside others, until it is dropped.
#[derive(Debug)]
pub(crate) struct Member(Company);

/// The right to run alone. Other attempts start again once it is dropped.
#[derive(Debug)]
pub(crate) struct Solitude {
    company: Company,
    clock: Arc<dyn Clock>,
    since: Duration,
}

impl Default for Company {
    fn default() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            quiet: Notify::new(),
            is_closed: watch::Sender::new(false),
        }))
    }
}

impl Company {
    /// Enters an attempt; `None` while another one runs alone or waits for that.
    pub(crate) fn join(&self) -> Option<Member> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        state.running += 1;
        Some(Member(self.clone()))
    }

    /// Enters an attempt, whatever else runs.
    pub(crate) fn join_anyway(&self) -> Member {
        self.state().running += 1;
        Member(self.clone())
    }

    /// Enters a suspect and keeps other attempts from starting; `None` if that is so already.
    pub(crate) fn enter_alone(&self, clock: &Arc<dyn Clock>) -> Option<Entry> {
        let now = clock.elapsed();
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        if now >= state.span_from.saturating_add(SPAN) {
            (state.span_from, state.waiting) = (now, Duration::ZERO);
        }
        if state.waiting >= WAITING {
            state.running += 1;
            return Some(Entry::Beside(Member(self.clone())));
        }
        state.is_closed = true;
        // Within the lock, or it could come after the end of another one.
        self.0.is_closed.send_replace(true);
        Some(Entry::Alone(Solitude {
            company: self.clone(),
            clock: Arc::clone(clock),
            since: now,
        }))
    }

    /// True while no attempt may start, and each change of that.
    pub(crate) fn is_closed(&self) -> watch::Receiver<bool> {
        self.0.is_closed.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Solitude {
    /// Completes once no other attempt runs.
    pub(crate) async fn quiet(&self) {
        loop {
            let notified = self.company.0.quiet.notified();
            if self.company.state().running == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Gives the right up, and runs beside others.
    pub(crate) fn into_member(self) -> Member {
        self.company.join_anyway()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        let is_awaited = state.running == 0 && state.is_closed;
        drop(state);
        if is_awaited {
            self.0.0.quiet.notify_waiters();
        }
    }
}

impl Drop for Solitude {
    fn drop(&mut self) {
        let waited = self.clock.elapsed().saturating_sub(self.since);
        let mut state = self.company.state();
        state.is_closed = false;
        state.waiting = state.waiting.saturating_add(waited);
        self.company.0.is_closed.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::{VirtualClock, minutes, seconds};

    use super::*;

    async fn is_quiet(alone: &Solitude) -> bool {
        tokio::select! {
            biased;
            () = alone.quiet() => true,
            () = std::future::ready(()) => false,
        }
    }

    fn alone(company: &Company, clock: &VirtualClock) -> Solitude {
        let clock: Arc<dyn Clock> = Arc::new(clock.clone());
        match company.enter_alone(&clock) {
            Some(Entry::Alone(solitude)) => solitude,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn one_attempt_runs_alone_once_the_others_have_ended() {
        let (company, clock) = (Company::default(), VirtualClock::default());
        let (first, second) = (company.join().unwrap(), company.join().unwrap());
        let solitude = alone(&company, &clock);
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        assert!(company.join().is_none() && company.enter_alone(&shared).is_none());
        drop(first);
        assert!(!is_quiet(&solitude).await);
        tokio::join!(solitude.quiet(), async { drop(second) });
        assert!(*company.is_closed().borrow());
        drop(solitude);
        assert!(company.join().is_some() && !*company.is_closed().borrow());
    }

    #[tokio::test]
    async fn an_attempt_that_gives_up_to_be_alone_is_one_of_several() {
        let (company, clock) = (Company::default(), VirtualClock::default());
        let member = alone(&company, &clock).into_member();
        let solitude = alone(&company, &clock);
        assert!(!is_quiet(&solitude).await);
        drop(member);
        solitude.quiet().await;
    }

    #[test]
    fn others_are_kept_waiting_for_a_part_of_the_time_only() {
        let (company, clock) = (Company::default(), VirtualClock::default());
        clock.advance(minutes(20));
        let member = company.join().unwrap();
        for _ in 0..2 {
            let solitude = alone(&company, &clock);
            clock.advance(seconds(30));
            drop(solitude);
        }
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let beside = company.enter_alone(&shared);
        assert!(matches!(beside, Some(Entry::Beside(_))), "{beside:?}");
        drop((beside, member));
        // Those that are due would wait, though none runs.
        let beside = company.enter_alone(&shared);
        assert!(matches!(beside, Some(Entry::Beside(_))), "{beside:?}");
        clock.advance(minutes(9));
        drop(alone(&company, &clock));
    }
}
