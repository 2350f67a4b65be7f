//! The kinds of faults.

use clap::ValueEnum;

use crate::run::StoreKind;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// SIGKILL of a worker process.
    KillWorker,
    /// SIGKILL of a submitter process.
    KillSubmitter,
    /// SIGKILL of all worker processes at once.
    KillAllWorkers,
    /// A worker process stopped for less than its locks last.
    PauseShort,
    /// A worker process stopped for longer than its locks last.
    PauseLong,
    /// SIGKILL of redis-server, and its restart on the same data.
    KillRedis,
    /// redis-server stopped for a while.
    PauseRedis,
    /// SIGKILL of the PostgreSQL server, and its restart on the same data.
    KillPostgres,
    /// The PostgreSQL server stopped for a while.
    PausePostgres,
    /// All sessions of the PostgreSQL server ended by an operator.
    EndSessions,
    /// A transaction that keeps a snapshot of the PostgreSQL server for a while.
    HoldSnapshot,
    /// Connections of a process cut before a request.
    CutBefore,
    /// Connections of a process cut after a request, the reply lost.
    CutAfter,
    /// Replies to a process held back.
    DelayReplies,
    /// CLIENT KILL of all connections.
    ClientKill,
    /// CLIENT PAUSE.
    ClientPause,
    /// SCRIPT FLUSH.
    ScriptFlush,
    /// DEBUG SLEEP: the server is busy with one command.
    DebugSleep,
    /// The server's memory limit reached, and raised.
    MemoryFull,
    /// The server's eviction policy changed, and changed back.
    EvictionPolicy,
    /// The store's disk full.
    DiskFull,
    /// Syncs of the store's files fail.
    SyncError,
    /// Syncs of the store's files take long.
    SyncDelay,
    /// SIGKILL of the master: sentinels make a replica the new one, and it comes back as a replica.
    KillMaster,
    /// The master stopped until it was replaced: it goes on as a master that nobody follows.
    StopMaster,
    /// The master and a sentinel cut off from the other servers until it was replaced.
    CutMaster,
    /// SIGKILL of a replica, and its restart.
    KillReplica,
    /// SIGKILL of a sentinel, and its restart.
    KillSentinel,
    /// SIGKILL of a node of a cluster: its replica serves its slots, and it comes back as a
    /// replica.
    KillNode,
    /// A node of a cluster stopped until it was replaced.
    StopNode,
    /// A node of a cluster and one of its replicas cut off from the other nodes, and killed: its
    /// other replica serves its slots.
    CutNode,
    /// A slot in use moved to another node, with its tasks.
    MoveSlot,
    /// A master and its replicas added to a cluster, and slots in use moved to it.
    AddNode,
    /// A type split into more shards.
    AddShards,
    /// A worker's clock an hour ahead.
    WorkerClockAhead,
    /// A worker's clock an hour behind.
    WorkerClockBehind,
    /// redis-server's clock an hour ahead.
    RedisClockAhead,
    /// redis-server's clock an hour behind.
    RedisClockBehind,
    /// A worker that panics.
    WorkerPanics,
    /// A worker that blocks its thread for longer than its lock.
    WorkerBlocks,
    /// A worker that never returns.
    WorkerHangs,
    /// A worker that ends its process.
    WorkerAborts,
    /// The application blocks its whole runtime for longer than a lock.
    RuntimeBlocked,
    /// SIGKILL of the delayq-server, and its restart.
    KillServer,
    /// The delayq-server stopped for a while.
    PauseServer,
    /// A bit of a stored record flipped.
    BitFlip,
}

impl Kind {
    /// Its name, as on the command line and in the record.
    #[must_use]
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it can be done to a run on this store.
    #[must_use]
    pub fn fits(self, store: StoreKind) -> bool {
        match self {
            Self::KillRedis | Self::PauseRedis => {
                store.is_redis() || matches!(store, StoreKind::Server | StoreKind::Tiered)
            }
            Self::KillPostgres | Self::PausePostgres | Self::EndSessions | Self::HoldSnapshot => {
                matches!(store, StoreKind::Postgres | StoreKind::Tiered)
            }
            Self::KillServer | Self::PauseServer => store == StoreKind::Server,
            Self::CutBefore
            | Self::CutAfter
            | Self::DelayReplies
            | Self::ClientKill
            | Self::ClientPause
            | Self::ScriptFlush
            | Self::DebugSleep => store.is_redis() || store == StoreKind::Tiered,
            Self::MemoryFull
            | Self::EvictionPolicy
            | Self::RedisClockAhead
            | Self::RedisClockBehind => store.is_redis(),
            Self::KillMaster | Self::StopMaster | Self::CutMaster | Self::KillSentinel => {
                store == StoreKind::RedisSentinel
            }
            Self::KillReplica => store.is_replicated(),
            Self::KillNode
            | Self::StopNode
            | Self::CutNode
            | Self::MoveSlot
            | Self::AddNode
            | Self::AddShards => store == StoreKind::RedisCluster,
            // What becomes of the files of one of several servers, the others make good.
            Self::DiskFull | Self::SyncError | Self::SyncDelay | Self::BitFlip => {
                !store.is_replicated()
                    && !matches!(
                        store,
                        StoreKind::Server | StoreKind::Postgres | StoreKind::Tiered
                    )
            }
            _ => true,
        }
    }

    /// All kinds that can be done to a run on this store.
    #[must_use]
    pub fn all(store: StoreKind) -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|kind| kind.fits(store)).collect()
    }
}
