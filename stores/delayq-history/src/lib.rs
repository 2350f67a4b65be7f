//! The history database of delayq: one row for each life of a task, for as long as it is kept.
//!
//! A [`HistoryStore`] is opened by a URL: `sqlite:PATH`, `postgres://HOST/DATABASE` or
//! `mysql://USER@HOST/DATABASE`. It stores each [`Life`](delayq_core::history::Life) once, however
//! often it is recorded, so that whoever ships lives may repeat a batch. Lives of several
//! namespaces share a database.
//!
//! The floors, each using only those before it: `page`, `query`, `retention`, `forget`, `status`
//! (nouns) · `month`, `filter` (conditions in SQL), `backend` (the contract of a database) ·
//! `sqlite`, `postgres`, `mysql` · `sink` · `store`. Each database has its SQL in a module of its
//! own.

#![cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "a build without a database opens none")
)]

mod backend;
mod filter;
mod forget;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod month;
#[cfg(feature = "mysql")]
mod mysql;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod retention;
mod sink;
#[cfg(feature = "sqlite")]
mod sqlite;
mod status;
mod store;

pub use forget::Forget;
pub use page::{HistoryCursor, HistoryPage};
pub use query::{HistoryQuery, MAX_HISTORY_PAGE};
pub use retention::{Expired, FOREVER, HistoryRetention};
pub use sink::HistorySink;
pub use status::HistoryStatus;
pub use store::HistoryStore;
