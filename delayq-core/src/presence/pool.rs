//! A pool of slots of an instance, as announced.

use serde::{Deserialize, Serialize};

/// Maximum number of pools named by one instance.
pub const MAX_INSTANCE_POOLS: usize = 50;

/// The slots of a pool, and how many of them were in use at the announcement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolUse {
    /// The name of the pool.
    pub name: String,
    /// The number of its slots.
    pub slots: u64,
    /// The number of slots with an attempt that runs.
    pub used: u64,
    /// The number of types that share it.
    #[serde(default)]
    pub types: u64,
}

impl PoolUse {
    /// A pool without types.
    #[must_use]
    pub fn new(name: impl Into<String>, slots: u64, used: u64) -> Self {
        Self {
            name: name.into(),
            slots,
            used,
            types: 0,
        }
    }

    /// The same pool, shared by this many types.
    #[must_use]
    pub fn shared_by(mut self, types: u64) -> Self {
        self.types = types;
        self
    }
}
