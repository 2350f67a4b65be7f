//! Equipment of the tests: the stores that the contract suite runs on, Redis servers (alone, behind
//! sentinels, in a cluster), PostgreSQL servers (alone, replicated, behind a pooler), a plugin on
//! virtual time, processes that run a plugin.
//!
//! The suite itself is `delayq_testing::contract`, for third-party stores too.

pub mod cluster_set;
pub mod instance;
pub mod liveness;
pub mod mariadb_server;
pub mod network;
pub mod paused_clock;
pub mod pgbouncer;
pub mod postgres_server;
mod program_folders;
pub mod redis_server;
pub mod redis_user;
pub mod rig;
pub mod sentinel_set;
pub mod sharded_memory;
pub mod sql_session;
pub mod stores;
mod unprivileged;
pub mod watched_process;
