//! SQLite store, the default store of delayq: tasks in one file, nothing to install.
//!
//! SQLite was chosen because a second process (another instance during a rolling restart, a tool, a
//! person with `sqlite3`) can open the file while the application runs, and because no database is
//! tested better.
//!
//! One thread writes: calls that arrive while it syncs wait in a bounded queue and share the next
//! transaction and its sync. Two threads answer queries. Several processes may open one file: they
//! take turns with SQLite's write lock.
//!
//! The floors, each using only those below it: `store`, `operate`, `presence`, `chronicle` (the
//! contract) · `transaction` (calls in one of the application) · `commit` (threads and calls) ·
//! `operations` (one module for each operation) · `rows` (a transaction and its rows) · `schema`,
//! `connection`, `error`. Reading order: `schema/schema_1.sql` (the stored data), `rows`,
//! `operations::submit`, `operations::claim`, `operations::settle`, then `commit::writer`.

mod chronicle;
mod commit;
mod connection;
mod documents;
mod ends;
mod error;
mod operate;
mod operations;
mod presence;
mod replies;
mod rows;
mod schema;
mod store;
mod transaction;

#[cfg(test)]
mod tests;

pub use crate::connection::sync::SqliteSync;
pub use crate::store::SqliteStore;
pub use crate::transaction::SqliteTransaction;
