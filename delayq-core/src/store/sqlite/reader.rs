//! The readers: threads that answer queries beside the writer, each on a snapshot of its own.
//!
//! A snapshot begins when the query is taken, so after every commit that was answered before it was sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::busy;
use super::call::Caller;
use super::error::{Fault, Outcome};
use super::file::OpenFiles;
use super::queue::{Hope, Queue, Taken};
use super::tx::{Tx, World};
use super::writer::CloseOnExit;
use crate::error::Error;

/// How long an idle reader sleeps; it has nothing to look after.
const IDLE: Duration = Duration::from_mins(1);

/// A query, answered by itself.
pub(super) type Query = Box<dyn FnOnce(&Reader) + Send>;

/// What a reader's thread owns.
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) files: OpenFiles,
    pub(super) world: World,
    pub(super) queue: Arc<Queue<Query>>,
}

impl Reader {
    /// Serves the queue until it is closed.
    pub(super) fn run(self) {
        let _closing = CloseOnExit(Arc::clone(&self.queue));
        loop {
            match self.queue.take(IDLE, Hope::default()) {
                Taken::Group(queries) => queries.into_iter().for_each(|query| query(&self)),
                Taken::Nothing => {}
                Taken::Closed => return,
            }
        }
    }

    fn look<R>(&self, look: impl FnOnce(&mut Tx<'_>) -> Outcome<R>) -> Outcome<R> {
        self.files.check()?;
        let snapshot = self.connection.unchecked_transaction()?;
        look(&mut Tx::new(&snapshot, &self.world))
    }
}

/// Makes a query of something that looks.
pub(super) fn query<R: Send + 'static>(
    caller: Caller<R>,
    look: impl FnOnce(&mut Tx<'_>) -> Outcome<R> + Send + 'static,
) -> Query {
    Box::new(move |reader| {
        if !caller.accept() {
            return;
        }
        if caller.deadline() <= Instant::now() {
            return caller.answer(Err(too_late(&reader.world.store)), None);
        }
        busy::wait_until(caller.deadline());
        let found = reader.look(look);
        caller.answer(
            found.map_err(|fault: Fault| fault.into_error(&reader.world.store)),
            None,
        );
    })
}

fn too_late(store: &str) -> Error {
    Error::Unavailable {
        store: store.to_owned(),
        detail: "no turn in time: other queries keep it busy".to_owned(),
    }
}
