//! Readers: threads that answer queries beside the writer, each on a snapshot of its own.
//!
//! A snapshot begins when the query is taken, so after every commit that was answered before it was
//! sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::error::Error;
use rusqlite::Connection;

use crate::commit::call::Caller;
use crate::commit::queue::{Expected, Queue, Taken};
use crate::commit::writer::CloseOnExit;
use crate::connection::busy;
use crate::connection::file::OpenFiles;
use crate::error::Outcome;
use crate::rows::{Context, Tx};

/// How long an idle reader sleeps; it has no maintenance to do.
const IDLE: Duration = Duration::from_mins(1);

/// A query, answered by itself.
pub(crate) type Query = Box<dyn FnOnce(&Reader) + Send>;

/// What a reader's thread owns.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) files: OpenFiles,
    pub(crate) context: Context,
    pub(crate) queue: Arc<Queue<Query>>,
}

impl Reader {
    /// Serves the queue until it is closed.
    pub(crate) fn run(self) {
        let _closing = CloseOnExit(Arc::clone(&self.queue));
        loop {
            match self.queue.take(IDLE, Expected::default()) {
                Taken::Group(queries) => queries.into_iter().for_each(|query| query(&self)),
                Taken::Nothing => {}
                Taken::Closed => return,
            }
        }
    }

    fn read<R>(&self, query: impl FnOnce(&mut Tx<'_>) -> Outcome<R>) -> Outcome<R> {
        self.files.check()?;
        let snapshot = self.connection.unchecked_transaction()?;
        query(&mut Tx::new(&snapshot, &self.context))
    }
}

/// A query for the readers' queue.
pub(crate) fn query<R: Send + 'static>(
    caller: Caller<R>,
    query: impl FnOnce(&mut Tx<'_>) -> Outcome<R> + Send + 'static,
) -> Query {
    Box::new(move |reader| {
        if !caller.accept() {
            return;
        }
        if caller.deadline() <= Instant::now() {
            return caller.answer(Err(too_late(&reader.context.store)), None);
        }
        busy::wait_until(caller.deadline());
        let found = reader.read(query);
        let found = found.map_err(|fault| fault.error(&reader.context.store));
        caller.answer(found, None);
    })
}

fn too_late(store: &str) -> Error {
    Error::unavailable(store, "no turn in time: other queries keep it busy")
}
