//! Running instances.

use delayq_core::presence::{
    InstanceId, InstanceInfo, MAX_INSTANCE_POOLS, PoolUse, RecentWork, TypeWork,
};
use delayq_core::{Error, Result, TaskType};

use crate::field::required;
use crate::pb;
use crate::time::{read_time, read_time_if, time};

impl From<InstanceInfo> for pb::InstanceInfo {
    fn from(instance: InstanceInfo) -> Self {
        Self {
            id: instance.id.to_string(),
            host: instance.host,
            pid: instance.pid,
            version: instance.version,
            types: instance.types.iter().map(ToString::to_string).collect(),
            type_count: instance.type_count as u64,
            started_at: Some(time(instance.started_at)),
            seen_at: Some(time(instance.seen_at)),
            recent: instance.recent.map(Into::into),
            pools: instance.pools.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::InstanceInfo> for InstanceInfo {
    type Error = Error;

    fn try_from(sent: pb::InstanceInfo) -> Result<Self> {
        if sent.id.is_empty() {
            return Err(Error::invalid("instance.id", "it is missing: set it"));
        }
        let started_at = required("instance.started_at", sent.started_at)?;
        let started_at = read_time("instance.started_at", started_at)?;
        let id = InstanceId::stored(sent.id);
        let mut instance = Self::new(id, sent.host, sent.pid, started_at);
        instance.version = sent.version;
        let types = sent.types.into_iter().map(TaskType::new);
        instance.types = types.collect::<Result<_>>()?;
        instance.type_count = usize::try_from(sent.type_count).unwrap_or(usize::MAX);
        let seen_at = read_time_if("instance.seen_at", sent.seen_at)?;
        instance.seen_at = seen_at.unwrap_or_default();
        instance.recent = sent.recent.map(TryInto::try_into).transpose()?;
        let pools = sent.pools.into_iter().take(MAX_INSTANCE_POOLS);
        instance.pools = pools.map(Into::into).collect();
        Ok(instance)
    }
}

impl From<PoolUse> for pb::PoolUse {
    fn from(pool: PoolUse) -> Self {
        Self {
            name: pool.name,
            slots: pool.slots,
            used: pool.used,
            types: pool.types,
        }
    }
}

impl From<pb::PoolUse> for PoolUse {
    fn from(sent: pb::PoolUse) -> Self {
        Self::new(sent.name, sent.slots, sent.used).shared_by(sent.types)
    }
}

impl From<RecentWork> for pb::RecentWork {
    fn from(recent: RecentWork) -> Self {
        let work = |work: TypeWork| pb::TypeWork {
            task_type: work.task_type.to_string(),
            figures: Some(work.figures.into()),
        };
        Self {
            since: Some(time(recent.since)),
            types: recent.types.into_iter().map(work).collect(),
        }
    }
}

impl TryFrom<pb::RecentWork> for RecentWork {
    type Error = Error;

    fn try_from(sent: pb::RecentWork) -> Result<Self> {
        let since = read_time("recent.since", required("recent.since", sent.since)?)?;
        let types = sent.types.into_iter().map(|work| {
            Ok(TypeWork {
                task_type: TaskType::new(work.task_type)?,
                figures: work.figures.unwrap_or_default().into(),
            })
        });
        Ok(Self::new(since, types.collect::<Result<_>>()?))
    }
}
