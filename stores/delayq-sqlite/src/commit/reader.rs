//! Readers: threads that answer queries in parallel to the writer, each on its own snapshot.
//!
//! A snapshot begins when the query is taken, so it includes every commit that was answered before
//! the query was sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::error::{Error, Result};
use rusqlite::Connection;

use crate::commit::Shared;
use crate::commit::call::Command;
use crate::commit::queue::{CloseOnExit, Expected};
use crate::connection::busy;
use crate::connection::file::OpenFiles;
use crate::error::Outcome;
use crate::rows::Tx;

/// How long an idle reader sleeps; it has no maintenance to do.
const IDLE: Duration = Duration::from_mins(1);

/// State owned by a reader's thread.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) files: OpenFiles,
    pub(crate) shared: Shared,
}

impl Reader {
    /// Serves the queue until it is closed.
    pub(crate) fn run(self) {
        let _closing = CloseOnExit(Arc::clone(&self.shared.reads));
        while let Some(queries) = self.shared.reads.take(IDLE, Expected::default()) {
            for mut query in queries {
                if query.accept() {
                    let found = self.serve(&mut query);
                    query.answer(found);
                }
            }
        }
    }

    fn serve(&self, query: &mut Command) -> Result<()> {
        let store = &self.shared.context.store;
        if query.deadline <= Instant::now() {
            let detail = "no turn in time: other queries keep it busy";
            return Err(Error::unavailable(store, detail));
        }
        busy::wait_until(query.deadline);
        self.read(query).map_err(|fault| fault.error(store))
    }

    fn read(&self, query: &mut Command) -> Outcome<()> {
        self.files.check()?;
        let snapshot = self.connection.unchecked_transaction()?;
        query.run(&mut Tx::new(&snapshot, &self.shared.context))
    }
}
