//! The stores of this workspace, as the contract suite and the model test want them.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "tests: a panic is a failure"
)]

mod beyond;
mod memory;
mod redis;
mod split;
mod sqlite;

pub use beyond::{RedisCluster, ReplicatedRedis};
pub use memory::Memory;
pub use redis::{Redis, RestrictedRedis};
pub use split::Split;
pub use sqlite::Sqlite;
