//! The PostgreSQL store of delayq: tasks in the database of the application.
//!
//! Its hot operations are functions of the database, whose plans do not depend on statistics
//! (`schema/*.sql`). What they leave open is decided by `delayq-core::machine` in a transaction
//! (`type_tx`). Reading order: `schema/tables.sql`, `schema/submit.sql`, `schema/claim.sql`,
//! `claim`, `settle`, `type_tx`, `connection`.

mod audit;
mod change;
mod chronicle;
mod claim;
mod columns;
mod concerns;
mod config;
mod connection;
mod database;
mod dead;
mod documents;
mod ends;
mod ends_floor;
mod error;
mod floors;
mod locals;
mod migrate;
mod operate;
mod outbox;
mod outbox_call;
mod preflight;
mod presence;
mod recorded;
mod relay;
mod replies;
mod row;
mod schema;
mod settle;
mod statements;
mod store;
mod submit;
mod tasks;
mod trim;
mod type_row;
mod type_tx;
mod upkeep;
mod vacuum;
mod wakes;

pub use crate::config::{PostgresConfig, Tls};
pub use crate::migrate::{Migrated, PostgresMigration};
pub use crate::outbox::{AsideCall, Outbox, OutboxStatus};
pub use crate::relay::OutboxRelay;
pub use crate::store::PostgresStore;

/// For the history, which keeps its data in a database of its own.
#[doc(hidden)]
pub use crate::database::{Database, DbCell, DbValue};
