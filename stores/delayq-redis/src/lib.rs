//! The Redis store of delayq: tasks on a server, behind sentinels, or in a cluster.
//!
//! Applications depend on `delayq-plugin` with its feature `redis`. This crate is for programs that
//! open the store themselves.
//!
//! The modules, each using only those before it: [`config`](RedisConfig) · `connection` (knows
//! nothing about tasks) · `scripts` (one for each operation, keys, stored formats) · `shard` (every
//! operation on one slot) · `layout` (the shards of a type, resize) · `preflight` (start-up check)
//! · `loading` (a server that loads its data) · `store`.

mod config;
mod connection;
mod layout;
mod loading;
mod lock;
mod memory_limit;
mod preflight;
mod scripts;
mod shard;
mod store;

pub use config::{Address, PackFar, RedisConfig, RedisServers, ReplicaConfirm, Secret, TlsConfig};
pub use store::RedisStore;
