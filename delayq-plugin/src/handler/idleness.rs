//! Idleness of a handler, for tests that wait until there is nothing left to do.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;

/// The state that a handler reports whenever it goes to sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Idleness {
    /// The last question after which a claim was sent and answered.
    pub(crate) answers: u64,
    /// No worker, claim or settlement is in progress.
    pub(crate) is_idle: bool,
    /// Claims that found something.
    pub(crate) fruitful_claims: u64,
    /// `Clock::elapsed` of the next thing to do, other than polls.
    pub(crate) next_at: Option<Duration>,
}

/// The handler's end of the channel. A question makes the handler claim at once; before the first
/// question it reports nothing.
#[derive(Clone, Debug)]
pub(crate) struct IdlenessReport {
    questions: watch::Receiver<u64>,
    answer: watch::Sender<Idleness>,
}

impl IdlenessReport {
    pub(crate) fn new(questions: watch::Receiver<u64>) -> Self {
        let answer = watch::Sender::default();
        Self { questions, answer }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Idleness> {
        self.answer.subscribe()
    }

    /// The number of the last question; 0 before the first.
    pub(super) fn question(&self) -> u64 {
        *self.questions.borrow()
    }

    /// Completes with the next question.
    pub(super) async fn asked(&mut self) {
        if self.questions.changed().await.is_err() {
            pending::<()>().await;
        }
    }

    pub(super) fn tell(&self, idleness: impl FnOnce() -> Idleness) {
        if self.question() > 0 {
            self.answer.send_replace(idleness());
        }
    }
}
