//! The list of instances, through the plan.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::{Presence, Result};

use super::FaultyStore;

#[async_trait]
impl Presence for FaultyStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        self.call("announce", self.inner.announce(instance, holds))
            .await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        self.call("withdraw", self.inner.withdraw(id)).await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.call("instances", self.inner.instances()).await
    }
}
