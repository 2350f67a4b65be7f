//! One call on its way between a caller and a thread of the store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delayq_core::error::{Error, Result};
use tokio::sync::oneshot;

use crate::commit::queue::{Lane, Size};
use crate::error::Outcome;
use crate::rows::Tx;

/// Time that a caller waits beyond the call's limit, so that the thread can first answer, with
/// certainty, that the call came too late.
const GRACE: Duration = Duration::from_millis(500);

/// Handles a committed answer that nobody took.
pub(crate) type IfLost<R> = Box<dyn FnOnce(R) + Send>;

/// The thread's end of a call: an operation to run inside a shared transaction.
pub(crate) struct Command {
    pub(crate) lane: Lane,
    pub(crate) size: Size,
    /// The end of the call's time limit.
    pub(crate) deadline: Instant,
    /// True if it may find out from a snapshot that it has nothing to write.
    pub(crate) can_peek: bool,
    /// Set by the first of two: the thread that takes the call, or the caller that gives it up.
    decided: Arc<AtomicBool>,
    work: Box<dyn Work>,
}

/// The caller's end. If it is dropped before the thread has taken the call, the call is not made.
pub(crate) struct PendingCall<R> {
    reply: oneshot::Receiver<Result<PreparedAnswer<R>>>,
    decided: Arc<AtomicBool>,
}

/// The work of a call with any type of answer.
trait Work: Send {
    /// Does the work; the answer waits for the commit.
    fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()>;
    /// Sends the prepared answer if the commit succeeded, or else the commit's error.
    fn answer(self: Box<Self>, commit: Result<()>);
}

/// The only implementation of [`Work`].
struct TypedWork<O, R> {
    /// May run again if another command spoilt the transaction, so it must depend only on its
    /// input.
    operation: O,
    prepared: PreparedAnswer<R>,
    reply: oneshot::Sender<Result<PreparedAnswer<R>>>,
}

/// An answer on its way. It is lost if the caller's future is dropped.
struct PreparedAnswer<R> {
    content: Option<R>,
    if_lost: Option<IfLost<R>>,
}

impl<R> Drop for PreparedAnswer<R> {
    fn drop(&mut self) {
        if let (Some(content), Some(if_lost)) = (self.content.take(), self.if_lost.take()) {
            if_lost(content);
        }
    }
}

impl<O, R> Work for TypedWork<O, R>
where
    O: FnMut(&mut Tx<'_>) -> Outcome<R> + Send,
    R: Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()> {
        self.prepared.content = None;
        self.prepared.content = Some((self.operation)(tx)?);
        Ok(())
    }

    fn answer(mut self: Box<Self>, commit: Result<()>) {
        if commit.is_err() {
            self.prepared.content = None;
        }
        let Self {
            prepared, reply, ..
        } = *self;
        if let Err(Err(error)) = reply.send(commit.map(|()| prepared)) {
            tracing::debug!(%error, "a call failed after its caller was gone");
        }
    }
}

impl Command {
    /// Both ends of a call that may take `time`. A committed answer that nobody takes is passed to
    /// `if_lost`.
    pub(crate) fn new<R: Send + 'static>(
        lane: Lane,
        size: Size,
        time: Duration,
        operation: impl FnMut(&mut Tx<'_>) -> Outcome<R> + Send + 'static,
        if_lost: Option<IfLost<R>>,
    ) -> (Self, PendingCall<R>) {
        let (sender, receiver) = oneshot::channel();
        let decided = Arc::new(AtomicBool::new(false));
        let now = Instant::now();
        let prepared = PreparedAnswer {
            content: None,
            if_lost,
        };
        let command = Self {
            lane,
            size,
            deadline: now.checked_add(time).unwrap_or(now),
            can_peek: false,
            decided: Arc::clone(&decided),
            work: Box::new(TypedWork {
                operation,
                prepared,
                reply: sender,
            }),
        };
        let answer = PendingCall {
            reply: receiver,
            decided,
        };
        (command, answer)
    }

    /// A call of the store to itself: nobody waits for the answer.
    pub(crate) fn of_nobody(
        time: Duration,
        operation: impl FnMut(&mut Tx<'_>) -> Outcome<()> + Send + 'static,
    ) -> Self {
        let (command, _) = Self::new(Lane::Operations, Size::ONE, time, operation, None);
        // Dropping the answer above gave the call up; this resets that.
        Self {
            decided: Arc::default(),
            ..command
        }
    }

    /// Takes the call, unless its caller has given it up. From then on it cannot be given up.
    pub(crate) fn accept(&self) -> bool {
        !self.decided.swap(true, Ordering::AcqRel)
    }

    /// True if it adds tasks: everything else has to work on a full disk, too.
    pub(crate) fn is_submit(&self) -> bool {
        self.lane == Lane::Submits
    }

    /// Runs its work; the answer waits for the commit.
    pub(crate) fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()> {
        self.work.run(tx)
    }

    /// Sends the prepared answer if the commit succeeded, or else the commit's error.
    pub(crate) fn answer(self, commit: Result<()>) {
        self.work.answer(commit);
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").finish_non_exhaustive()
    }
}

impl<R> PendingCall<R> {
    /// Waits for the answer, for slightly longer than `time`.
    pub(crate) async fn wait(mut self, time: Duration, store: &str) -> Result<R> {
        let ended = Error::Closed("the store");
        match tokio::time::timeout(time.saturating_add(GRACE), &mut self.reply).await {
            Ok(Ok(reply)) => reply?.content.take().ok_or(ended),
            Ok(Err(_)) if self.give_up() => Err(ended),
            Ok(Err(_)) => Err(Error::indeterminate(
                store,
                "its thread ended in the middle of the call",
            )),
            Err(_) => Err(self.late(time, store)),
        }
    }

    fn late(&self, time: Duration, store: &str) -> Error {
        let ms = time.as_millis();
        if self.give_up() {
            let detail = format!("no turn within {ms} ms: other calls keep it busy");
            return Error::unavailable(store, detail);
        }
        let detail = format!("nothing heard of the disk within {ms} ms");
        Error::indeterminate(store, detail)
    }

    /// Gives the call up. Returns true if the thread had not taken it yet, and so never will.
    fn give_up(&self) -> bool {
        !self.decided.swap(true, Ordering::AcqRel)
    }
}

impl<R> Drop for PendingCall<R> {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use delayq_core::name::Namespace;
    use delayq_core::time::SystemClock;
    use rusqlite::Connection;

    use super::*;
    use crate::rows::Context;

    const TIME: Duration = Duration::from_millis(20);

    fn call(if_lost: Option<IfLost<i32>>) -> (Command, PendingCall<i32>) {
        Command::new(Lane::Operations, Size::ONE, TIME, |_| Ok(5), if_lost)
    }

    /// Serves a call as a thread of the store does.
    fn serve(mut command: Command, commit: Result<()>) {
        let context = Context {
            store: "here".to_owned(),
            clock: Arc::new(SystemClock),
            namespace: Namespace::default(),
            retention: Duration::ZERO,
            remembered: 1,
        };
        let connection = Connection::open_in_memory().unwrap();
        command.run(&mut Tx::new(&connection, &context)).unwrap();
        command.answer(commit);
    }

    #[tokio::test]
    async fn an_answer_arrives_and_is_not_lost() {
        let (command, answer) = call(Some(Box::new(|_| panic!("it was taken"))));
        assert!(command.accept());
        serve(command, Ok(()));
        assert_eq!(answer.wait(TIME, "here").await, Ok(5));
    }

    #[tokio::test]
    async fn an_answer_that_was_not_committed_is_not_lost_either() {
        let full = || Error::full("here", "no room");
        let (command, answer) = call(Some(Box::new(|_| panic!("it was not applied"))));
        assert!(command.accept());
        serve(command, Err(full()));
        assert_eq!(answer.wait(TIME, "here").await, Err(full()));
    }

    #[test]
    fn a_call_given_up_in_line_is_not_made() {
        let (command, answer) = call(None);
        drop(answer);
        assert!(!command.accept());
        assert!(Command::of_nobody(TIME, |_| Ok(())).accept());
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_lost_and_told_so() {
        for is_early in [true, false] {
            let (lost, told) = mpsc::channel();
            let (command, answer) = call(Some(Box::new(move |n| lost.send(n).unwrap())));
            // The caller leaves before the answer is sent, or afterwards without having seen it.
            let mut waiting = Some(answer);
            assert!(command.accept());
            if is_early {
                waiting.take();
            }
            serve(command, Ok(()));
            drop(waiting);
            assert_eq!(told.recv(), Ok(5));
        }
    }

    #[tokio::test]
    async fn a_late_answer_is_certain_only_while_the_call_is_in_line() {
        let (_in_line, answer) = call(None);
        let error = answer.wait(TIME, "here").await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        let (taken, answer) = call(None);
        assert!(taken.accept());
        let error = answer.wait(TIME, "here").await.unwrap_err();
        assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_thread_that_ends_is_never_waited_for() {
        let (command, answer) = call(None);
        drop(command);
        let error = answer.wait(TIME, "here").await.unwrap_err();
        assert_eq!(error, Error::Closed("the store"));
        let (command, answer) = call(None);
        assert!(command.accept());
        drop(command);
        let error = answer.wait(TIME, "here").await.unwrap_err();
        assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
    }
}
