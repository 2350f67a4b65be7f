//! A command for the writer: one call, made into something that runs inside a shared transaction.

use std::fmt;
use std::time::Instant;

use super::call::{Caller, IfLost};
use super::error::Outcome;
use super::tx::Tx;
use crate::error::{Error, Result};

/// What runs in the transaction. It may run again when another command spoilt the transaction, so it
/// answers from its input alone.
pub(super) type Edge<R> = Box<dyn FnMut(&mut Tx<'_>) -> Outcome<R> + Send>;

/// A call of any edge.
pub(super) trait Command: Send {
    /// Takes the call, unless its caller has given it up.
    fn accept(&self) -> bool;
    /// When the call has taken too long.
    fn deadline(&self) -> Instant;
    /// Whether it may find its answer without writing.
    fn can_look(&self) -> bool;
    /// Prepares the answer from a read, if nothing has to be written; whether it did.
    fn look(&mut self, tx: &mut Tx<'_>) -> Outcome<bool>;
    /// Does its work; the answer waits for the commit.
    fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()>;
    /// Answers: as prepared when the commit is done, else why it is not.
    fn answer(self: Box<Self>, commit: Result<()>);
}

/// The one kind of [`Command`].
pub(super) struct Call<R> {
    pub(super) caller: Caller<R>,
    pub(super) edge: Edge<R>,
    pub(super) look: Option<Edge<Option<R>>>,
    pub(super) prepared: Option<R>,
    /// What becomes of a committed answer that nobody takes.
    pub(super) if_lost: Option<IfLost<R>>,
}

impl<R: Send> Command for Call<R> {
    fn accept(&self) -> bool {
        self.caller.accept()
    }

    fn deadline(&self) -> Instant {
        self.caller.deadline()
    }

    fn can_look(&self) -> bool {
        self.look.is_some()
    }

    fn look(&mut self, tx: &mut Tx<'_>) -> Outcome<bool> {
        if let Some(look) = &mut self.look {
            self.prepared = look(tx)?;
        }
        Ok(self.prepared.is_some())
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Outcome<()> {
        self.prepared = Some((self.edge)(tx)?);
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
