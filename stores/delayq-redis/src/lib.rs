//! The Redis store of delayq: tasks on a server, behind sentinels, or in a cluster.
//!
//! Applications depend on `delayq-plugin` with its feature `redis`. This crate is for those who
//! open the store themselves.
//!
//! The rooms, each using only those above it: [`config`](RedisConfig) · `connection` (knows no
//! task) · `scripts` (one for each operation, keys, stored forms) · `shard` (every operation on one
//! slot) · `layout` (which shards a type has, resize) · `preflight` (start-up check) · `store`.

mod config;
mod connection;
mod layout;
mod lock;
mod memory_limit;
mod preflight;
mod scripts;
mod shard;
mod store;

pub use config::{Address, RedisConfig, RedisServers, ReplicaConfirm, Secret, TlsConfig};
pub use store::RedisStore;
