//! One call on its way between a caller and a thread of the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delayq_core::error::{Error, Result};
use tokio::sync::oneshot;

/// How much longer than the call's time a caller waits, so that the thread can say first, and with
/// certainty, that the call came too late.
const GRACE: Duration = Duration::from_millis(500);

/// The thread's end: the caller to answer, and until when.
pub(crate) struct Caller<R> {
    reply: oneshot::Sender<Result<Reply<R>>>,
    /// Set by the first of two: the thread that takes the call, or the caller that gives it up.
    decided: Arc<AtomicBool>,
    deadline: Instant,
}

/// The caller's end. Dropped before the thread has taken the call, the call is not made.
pub(crate) struct Answer<R> {
    reply: oneshot::Receiver<Result<Reply<R>>>,
    decided: Arc<AtomicBool>,
}

/// Disposal of an answer that nobody took.
pub(crate) type IfLost<R> = Box<dyn FnOnce(R) + Send>;

/// An answer on its way; it may be lost wherever the caller's future is dropped.
struct Reply<R> {
    content: Option<R>,
    if_lost: Option<IfLost<R>>,
}

impl<R> Reply<R> {
    fn open(mut self) -> Result<R> {
        self.content.take().ok_or(Error::Closed("the store"))
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        if let (Some(content), Some(if_lost)) = (self.content.take(), self.if_lost.take()) {
            if_lost(content);
        }
    }
}

/// Both ends of a call that may take `time`.
pub(crate) fn call<R>(time: Duration) -> (Caller<R>, Answer<R>) {
    let (sender, receiver) = oneshot::channel();
    let decided = Arc::new(AtomicBool::new(false));
    let now = Instant::now();
    let caller = Caller {
        reply: sender,
        decided: Arc::clone(&decided),
        deadline: now.checked_add(time).unwrap_or(now),
    };
    let answer = Answer {
        reply: receiver,
        decided,
    };
    (caller, answer)
}

impl<R> Caller<R> {
    /// The end of a call that the store makes to itself: nobody waits for the answer.
    pub(crate) fn nobody(time: Duration) -> Self {
        let (caller, _) = call(time);
        // Dropping the answer above gave up a call; this one is not given up.
        Self {
            decided: Arc::default(),
            ..caller
        }
    }

    /// Takes the call, unless its caller has given it up. After that it cannot be given up.
    pub(crate) fn accept(&self) -> bool {
        !self.decided.swap(true, Ordering::AcqRel)
    }

    /// When the call has taken too long.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Sends the answer. If the caller is gone, `if_lost` gets it.
    pub(crate) fn answer(self, result: Result<R>, if_lost: Option<IfLost<R>>) {
        let result = result.map(|content| Reply {
            content: Some(content),
            if_lost,
        });
        let _ = self.reply.send(result);
    }
}

impl<R> Answer<R> {
    /// Waits for the answer, up to `time` and a little.
    pub(crate) async fn wait(mut self, time: Duration, store: &str) -> Result<R> {
        match tokio::time::timeout(time.saturating_add(GRACE), &mut self.reply).await {
            Ok(Ok(result)) => result.and_then(Reply::open),
            Ok(Err(_)) if self.give_up() => Err(Error::Closed("the store")),
            Ok(Err(_)) => Err(Error::indeterminate(
                store,
                "its thread ended in the middle of the call",
            )),
            Err(_) => Err(self.late(time, store)),
        }
    }

    fn late(&self, time: Duration, store: &str) -> Error {
        let store = store.to_owned();
        let ms = time.as_millis();
        if self.give_up() {
            let detail = format!("no turn within {ms} ms: other calls keep it busy");
            return Error::unavailable(store, detail);
        }
        let detail = format!("nothing heard of the disk within {ms} ms");
        Error::indeterminate(store, detail)
    }

    /// Whether the thread had not taken the call yet; it will not any more.
    fn give_up(&self) -> bool {
        !self.decided.swap(true, Ordering::AcqRel)
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const TIME: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn an_answer_arrives_and_is_not_lost() {
        let (caller, answer) = call(TIME);
        assert!(caller.accept());
        caller.answer(Ok(5), Some(Box::new(|_| panic!("it was taken"))));
        assert_eq!(answer.wait(TIME, "here").await, Ok(5));
    }

    #[test]
    fn a_call_given_up_in_line_is_not_made() {
        let (caller, answer) = call::<i32>(TIME);
        drop(answer);
        assert!(!caller.accept());
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_lost_and_told_so() {
        for is_early in [true, false] {
            let (caller, answer) = call(TIME);
            let (lost, told) = mpsc::channel();
            assert!(caller.accept());
            let if_lost: IfLost<i32> = Box::new(move |n| lost.send(n).unwrap());
            // Its caller leaves before the answer is sent, or after, without having seen it.
            let mut waiting = Some(answer);
            if is_early {
                waiting.take();
            }
            caller.answer(Ok(5), Some(if_lost));
            drop(waiting);
            assert_eq!(told.recv(), Ok(5));
        }
    }

    #[tokio::test]
    async fn a_late_answer_is_certain_only_while_the_call_is_in_line() {
        let (_in_line, answer) = call::<i32>(TIME);
        let error = answer.wait(TIME, "here").await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        let (taken, answer) = call::<i32>(TIME);
        assert!(taken.accept());
        let error = answer.wait(TIME, "here").await.unwrap_err();
        assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_thread_that_ends_is_never_waited_for() {
        let (caller, answer) = call::<i32>(TIME);
        drop(caller);
        let error = answer.wait(TIME, "here").await.unwrap_err();
        assert_eq!(error, Error::Closed("the store"));
        let (caller, answer) = call::<i32>(TIME);
        assert!(caller.accept());
        drop(caller);
        let error = answer.wait(TIME, "here").await.unwrap_err();
        assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
    }
}
