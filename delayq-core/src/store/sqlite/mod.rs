//! The embedded store, the default: one `SQLite` file, nothing to install.
//!
//! Chosen because a second process (another instance during a rolling restart, a tool, a person with
//! `sqlite3`) can open the file while the application runs, and because nothing is tested better.
//!
//! One thread writes ([`writer`]): the calls that come while it syncs wait in a bounded queue
//! ([`queue`]) and then share the next transaction and its sync. Two threads answer queries
//! ([`reader`]). Several processes may open one file: they take turns by `SQLite`'s write lock.
//!
//! Reading order: [`schema`] (`schema_1.sql`: what is kept), [`tx`] (what edges see), [`rows`], then an
//! edge: [`submit`], [`claim`], [`settle`], [`change`], [`dead`], [`query`], [`audit`].

use std::path::Path;
use std::sync::Arc;

mod audit;
mod busy;
mod call;
mod change;
mod claim;
mod command;
mod dead;
mod edges;
mod engine;
mod error;
mod file;
mod housekeeping;
mod instances;
mod open;
mod query;
mod queue;
mod reader;
mod record;
mod retain;
mod rows;
mod schema;
mod settle;
mod stored;
mod submit;
mod sync;
mod tx;
mod writer;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

pub use self::sync::SqliteSync;

use self::engine::Engine;
use self::error::Outcome;
use self::queue::{Lane, Size};
use self::tx::{Bucket, Tx, World};
use super::{Durability, StoreOptions};
use crate::error::Result;
use crate::name::TaskType;
use crate::time::Clock;

/// The embedded store: tasks in one `SQLite` file.
///
/// An acknowledged call has been synced to disk ([`SqliteSync::Full`], the default); concurrent calls
/// share a sync. Several stores, in one process or many, may open the same file, each for a namespace
/// of its own or for the same. The file has to be on a local disk.
///
/// Dropping the future of a call does not take the call back: it may still be applied. Only what a claim
/// took for a caller that is gone is given back.
#[derive(Debug)]
pub struct SqliteStore {
    engine: Engine,
    durability: Durability,
}

impl SqliteStore {
    /// Opens the file at `path`, and makes it and its folder when they do not exist. Acknowledgements
    /// survive a power loss.
    ///
    /// # Errors
    /// `Misconfigured`, `ReadOnly`, `Corrupt`, `Incompatible` say what is wrong with the file and what
    /// to do; a file of another application, or one that is damaged, is not changed. `Unavailable` when
    /// another program holds it locked for longer than a call may take.
    pub async fn open(
        path: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
    ) -> Result<Arc<Self>> {
        Self::open_with(path, clock, options, SqliteSync::Full).await
    }

    /// Opens a file as [`open`](Self::open) does, synced in the way that `sync` says.
    ///
    /// # Errors
    /// As [`open`](Self::open); `Misconfigured`, too, when `sync` cannot keep the durability asked for.
    pub async fn open_with(
        path: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
        sync: SqliteSync,
    ) -> Result<Arc<Self>> {
        let path = path.as_ref().to_owned();
        let store = format!("sqlite:{}", path.display());
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(crate::error::Error::NoRuntime);
        }
        let options = options.checked()?;
        sync.check(options.durability, &store)?;
        let world = World {
            store,
            clock,
            namespace: options.namespace,
            retention: options.retention,
        };
        let engine = Engine::start(path, sync, world, options.call_timeout).await?;
        let durability = sync.durability();
        Ok(Arc::new(Self { engine, durability }))
    }

    /// Runs `edge` on a type, which is made if it is new.
    async fn edit<R: Send + 'static>(
        &self,
        task_type: &TaskType,
        mut edge: impl FnMut(&mut Bucket<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<R> {
        let task_type = task_type.clone();
        let edge = move |tx: &mut Tx<'_>| edge(&mut tx.bucket(&task_type)?);
        self.engine.write(Lane::Edges, Size::ONE, edge).await
    }

    /// Runs `edge` on a type, if anything is known of it.
    async fn edit_known<R: Send + 'static>(
        &self,
        task_type: &TaskType,
        size: Size,
        mut edge: impl FnMut(&mut Bucket<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<Option<R>> {
        let task_type = task_type.clone();
        let edge = move |tx: &mut Tx<'_>| {
            let bucket = tx.known(&task_type)?;
            bucket.map(|mut bucket| edge(&mut bucket)).transpose()
        };
        self.engine.write(Lane::Edges, size, edge).await
    }

    /// Looks at a type, if anything is known of it.
    async fn look<R: Send + 'static>(
        &self,
        task_type: &TaskType,
        look: impl FnOnce(&mut Bucket<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<Option<R>> {
        let task_type = task_type.clone();
        let look = move |tx: &mut Tx<'_>| {
            let bucket = tx.known(&task_type)?;
            bucket.map(|mut bucket| look(&mut bucket)).transpose()
        };
        self.engine.read(look).await
    }
}
