//! Command for the writer: one call, as something that runs inside a shared transaction.

use std::fmt;
use std::time::Instant;

use delayq_core::error::{Error, Result};

use crate::commit::call::{Caller, IfLost};
use crate::commit::queue::{Lane, Size};
use crate::error::Outcome;
use crate::rows::Tx;

/// The part of a call that runs in the transaction. It may run again when another command spoilt
/// the transaction, so it answers from its input alone.
pub(crate) type Operation<R> = Box<dyn FnMut(&mut Tx<'_>) -> Outcome<R> + Send>;

/// A call, whatever its operation answers.
pub(crate) trait Command: Send {
    /// Takes the call, unless its caller has given it up.
    fn accept(&self) -> bool;
    /// When the call has taken too long.
    fn deadline(&self) -> Instant;
    /// Whether it adds tasks: all else has to work on a full disk, too.
    fn is_submit(&self) -> bool;
    /// How large it is.
    fn size(&self) -> Size;
    /// Whether it may find its answer without writing.
    fn can_peek(&self) -> bool;
    /// Prepares the answer from a read, if nothing has to be written; whether it did.
    fn peek(&mut self, tx: &mut Tx<'_>) -> Outcome<bool>;
    /// Does its work; the answer waits for the commit.
    fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()>;
    /// Answers: as prepared when the commit is done, else why it is not.
    fn answer(self: Box<Self>, commit: Result<()>);
}

/// The one kind of [`Command`].
pub(crate) struct Call<R> {
    pub(crate) caller: Caller<R>,
    pub(crate) lane: Lane,
    pub(crate) size: Size,
    pub(crate) operation: Operation<R>,
    pub(crate) peek: Option<Operation<Option<R>>>,
    pub(crate) prepared: Option<R>,
    /// What becomes of a committed answer that nobody takes.
    pub(crate) if_lost: Option<IfLost<R>>,
}

impl<R: Send> Command for Call<R> {
    fn accept(&self) -> bool {
        self.caller.accept()
    }

    fn deadline(&self) -> Instant {
        self.caller.deadline()
    }

    fn is_submit(&self) -> bool {
        self.lane == Lane::Submits
    }

    fn size(&self) -> Size {
        self.size
    }

    fn can_peek(&self) -> bool {
        self.peek.is_some()
    }

    fn peek(&mut self, tx: &mut Tx<'_>) -> Outcome<bool> {
        if let Some(peek) = &mut self.peek {
            self.prepared = peek(tx)?;
        }
        Ok(self.prepared.is_some())
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()> {
        self.prepared = Some((self.operation)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let Self {
            caller,
            prepared,
            if_lost,
            ..
        } = *self;
        let nothing = || Error::Closed("the store");
        let result = commit.and_then(|()| prepared.ok_or_else(nothing));
        caller.answer(result, if_lost);
    }
}

impl fmt::Debug for dyn Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}
