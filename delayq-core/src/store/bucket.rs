//! Buckets: the sets of tasks that handlers claim from.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::name::TaskType;

/// The due-ordered set of tasks of one type, or of one shard of it. Every claim, settlement and
/// extension names a bucket. [`Store::buckets`](super::Store::buckets) returns the buckets of a
/// type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    task_type: TaskType,
    shard: Arc<str>,
}

impl Bucket {
    /// The only bucket of a type that is not sharded.
    #[must_use]
    pub fn whole(task_type: TaskType) -> Self {
        Self {
            task_type,
            shard: "".into(),
        }
    }

    /// A shard of a type, by the name that its store gave it.
    #[must_use]
    pub fn shard(task_type: TaskType, name: impl Into<Arc<str>>) -> Self {
        Self {
            task_type,
            shard: name.into(),
        }
    }

    /// The type.
    #[must_use]
    pub fn task_type(&self) -> &TaskType {
        &self.task_type
    }

    /// The name of the shard; empty for the whole type. Only its store can read it.
    #[must_use]
    pub fn shard_name(&self) -> &str {
        &self.shard
    }
}

/// Serialized as its `Display` text.
impl Serialize for Bucket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Bucket {
    /// `mail.send`, or `mail.send/2.0` for a shard.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.task_type)?;
        if self.shard.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.shard)
    }
}

/// The state of a bucket: whether it takes new tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BucketState {
    /// New tasks go here.
    #[default]
    Open,
    /// The type has been resized: its new tasks go to other buckets, and this one drains.
    Sealed,
    /// Sealed and empty, for ever: nobody needs to claim from it again.
    Drained,
}
