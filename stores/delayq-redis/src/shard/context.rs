//! State shared by the shards of one store.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::log_limit::LogLimit;
use delayq_core::store::StoreOptions;

use super::batcher::Batcher;
use super::in_doubt::InDoubt;
use super::wakeup_hub::WakeupHub;
use crate::connection::Connections;
use crate::memory_limit::Watermark;
use crate::scripts::packing::Packing;
use crate::scripts::submit::WakeCall;
use crate::scripts::{Keyspace, Retention, ShardKeys, record};

/// The connections, names and settings of one store.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) connections: Connections,
    pub(crate) keys: Keyspace,
    /// The retention of ended tasks.
    pub(crate) retention: Retention,
    /// The maximum size of the records of ends of a shard, in bytes.
    pub(crate) history_buffer: Option<u64>,
    /// The time limit of a call.
    pub(crate) timeout: Duration,
    pub(crate) hub: Arc<WakeupHub>,
    pub(crate) batcher: Arc<Batcher>,
    pub(crate) in_doubt: InDoubt,
    /// Keeps damaged records from flooding the log.
    pub(crate) log: LogLimit,
}

impl Context {
    /// `watermark`: the share of a server's memory up to which it gets new tasks. `packing`: when
    /// far tasks are packed.
    pub(crate) fn new(
        connections: Connections,
        options: &StoreOptions,
        hub: Arc<WakeupHub>,
        watermark: Option<f64>,
        packing: Packing,
    ) -> Arc<Self> {
        let retention = Retention {
            ms: record::span_ms(options.retention),
            most: options.remembered,
        };
        let watermark = watermark.map(|share| Watermark::new(&connections, share));
        Arc::new(Self {
            batcher: Batcher::new(&connections, Arc::clone(&hub), retention.ms, watermark),
            keys: Keyspace::new(options.namespace.clone()).with(packing),
            retention,
            history_buffer: options.history_buffer,
            timeout: options.call_timeout,
            hub,
            in_doubt: InDoubt::default(),
            log: LogLimit::new(),
            connections,
        })
    }

    /// The channel and message by which the scripts of a shard wake handlers in other instances. In
    /// a cluster it is the shard's own channel, which is on the shard's node.
    pub(crate) fn wake_call(&self, keys: &ShardKeys) -> WakeCall {
        let channel = if self.connections.is_cluster() {
            keys.wake_channel()
        } else {
            self.keys.wake_channel()
        };
        WakeCall {
            channel,
            message: self.hub.message(&keys.bucket),
        }
    }
}
