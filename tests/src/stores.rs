//! The stores of this workspace, as the contract suite and the model test need them.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "tests: a panic is a failure"
)]

mod memory;
mod multi_server;
mod postgres;
mod redis;
mod sharded;
mod sqlite;

pub use memory::Memory;
pub use multi_server::{RedisCluster, ReplicatedRedis};
pub use postgres::{PooledPostgres, Postgres};
pub use redis::{PackedRedis, Redis, RestrictedRedis};
pub use sharded::Sharded;
pub use sqlite::Sqlite;
