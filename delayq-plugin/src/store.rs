//! Stores, their contract, and the options that they are opened with.

pub use delayq_core::NewTask;
pub use delayq_core::chronicle::*;
pub use delayq_core::documents::*;
pub use delayq_core::history::*;
pub use delayq_core::job::{GROUP_HEADER, MAX_MESSAGE_BYTES};
pub use delayq_core::memory::MemoryStore;
pub use delayq_core::operate::*;
pub use delayq_core::presence::{
    ANNOUNCE_INTERVAL, INSTANCE_EXPIRY, InstanceId, InstanceInfo, MAX_INSTANCE_POOLS,
    MAX_INSTANCE_TYPES, MAX_INSTANCES, MAX_RECENT_TYPES, PoolUse, Presence, RecentWork, TypeWork,
    serving,
};
pub use delayq_core::replies::*;
pub use delayq_core::reply::*;
pub use delayq_core::store::*;
#[cfg(feature = "postgres")]
pub use delayq_postgres::{
    AsideCall, Migrated, Outbox, OutboxRelay, OutboxStatus, PostgresConfig, PostgresMigration,
    PostgresStore, Tls as PostgresTls,
};
#[cfg(feature = "redis")]
pub use delayq_redis::{
    Address, RedisConfig, RedisServers, RedisStore, ReplicaConfirm, Secret, TlsConfig,
};
#[cfg(feature = "sqlite")]
pub use delayq_sqlite::{SqliteStore, SqliteSync, SqliteTransaction};
pub use delayq_tiered::{DEFAULT_HORIZON, LEAD, MIN_HORIZON, TierOptions, TieredStore};
