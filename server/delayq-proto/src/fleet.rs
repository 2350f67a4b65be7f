//! Buckets, locks and fleet limits.

use delayq_core::store::BucketState;
use delayq_core::{Bucket, Error, FleetLimits, Lock, Rate, Result, TaskId};

use crate::field::{required, required_type, unknown};
use crate::pb;
use crate::time::{read_span, span};

impl From<&Bucket> for pb::Bucket {
    fn from(bucket: &Bucket) -> Self {
        Self {
            task_type: bucket.task_type().to_string(),
            shard: bucket.shard_name().to_owned(),
        }
    }
}

impl TryFrom<pb::Bucket> for Bucket {
    type Error = Error;

    fn try_from(bucket: pb::Bucket) -> Result<Self> {
        let task_type = required_type(&bucket.task_type)?;
        if bucket.shard.is_empty() {
            return Ok(Self::whole(task_type));
        }
        Ok(Self::shard(task_type, bucket.shard))
    }
}

impl From<BucketState> for pb::BucketState {
    fn from(state: BucketState) -> Self {
        match state {
            BucketState::Open => Self::Open,
            BucketState::Sealed => Self::Sealed,
            BucketState::Drained => Self::Drained,
            _ => Self::Unspecified,
        }
    }
}

/// The state of a bucket in a message.
pub(crate) fn read_bucket_state(value: i32) -> Result<BucketState> {
    match pb::BucketState::try_from(value) {
        Ok(pb::BucketState::Open) => Ok(BucketState::Open),
        Ok(pb::BucketState::Sealed) => Ok(BucketState::Sealed),
        Ok(pb::BucketState::Drained) => Ok(BucketState::Drained),
        Ok(pb::BucketState::Unspecified) | Err(_) => Err(unknown("bucket", value)),
    }
}

impl From<Lock> for pb::Lock {
    fn from(lock: Lock) -> Self {
        Self {
            id: lock.id.to_string(),
            fence: lock.fence,
        }
    }
}

impl TryFrom<pb::Lock> for Lock {
    type Error = Error;

    fn try_from(lock: pb::Lock) -> Result<Self> {
        Ok(Self {
            id: TaskId::new(lock.id)?,
            fence: lock.fence,
        })
    }
}

impl From<Rate> for pb::Rate {
    fn from(rate: Rate) -> Self {
        Self {
            starts: rate.starts,
            per: Some(span(rate.per)),
            burst: Some(rate.burst),
        }
    }
}

impl TryFrom<pb::Rate> for Rate {
    type Error = Error;

    fn try_from(rate: pb::Rate) -> Result<Self> {
        let per = read_span("rate.per", required("rate.per", rate.per)?)?;
        let read = Self::new(rate.starts, per);
        Ok(rate.burst.map_or(read, |burst| read.with_burst(burst)))
    }
}

impl From<FleetLimits> for pb::FleetLimits {
    fn from(limits: FleetLimits) -> Self {
        Self {
            concurrency: limits.concurrency,
            rate: limits.rate.map(Into::into),
        }
    }
}

impl TryFrom<pb::FleetLimits> for FleetLimits {
    type Error = Error;

    fn try_from(limits: pb::FleetLimits) -> Result<Self> {
        Ok(Self {
            concurrency: limits.concurrency,
            rate: limits.rate.map(TryInto::try_into).transpose()?,
        })
    }
}
