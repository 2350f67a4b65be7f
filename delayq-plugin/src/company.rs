//! Attempts that run side by side in this process, and the one that has to run alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

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
}

/// An attempt that runs beside others, until it is dropped.
#[derive(Debug)]
pub(crate) struct Member(Company);

/// The right to run alone. Other attempts start again once it is dropped.
#[derive(Debug)]
pub(crate) struct Solitude(Company);

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

    /// Keeps other attempts from starting; `None` if that is so already.
    pub(crate) fn close(&self) -> Option<Solitude> {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_closed, true) {
            return None;
        }
        drop(state);
        self.0.is_closed.send_replace(true);
        Some(Solitude(self.clone()))
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
            let notified = self.0.0.quiet.notified();
            if self.0.state().running == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Gives the right up, and runs beside others.
    pub(crate) fn into_member(self) -> Member {
        self.0.join_anyway()
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
        self.0.state().is_closed = false;
        self.0.0.is_closed.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_quiet(alone: &Solitude) -> bool {
        tokio::select! {
            biased;
            () = alone.quiet() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn one_attempt_runs_alone_once_the_others_have_ended() {
        let company = Company::default();
        let (first, second) = (company.join().unwrap(), company.join().unwrap());
        let alone = company.close().unwrap();
        assert!(company.join().is_none() && company.close().is_none());
        drop(first);
        assert!(!is_quiet(&alone).await);
        tokio::join!(alone.quiet(), async { drop(second) });
        assert!(*company.is_closed().borrow());
        drop(alone);
        assert!(company.join().is_some() && !*company.is_closed().borrow());
    }

    #[tokio::test]
    async fn an_attempt_that_gives_up_to_be_alone_is_one_of_several() {
        let company = Company::default();
        let member = company.close().unwrap().into_member();
        let alone = company.close().unwrap();
        assert!(!is_quiet(&alone).await);
        drop(member);
        alone.quiet().await;
    }
}
