//! The list of instances, counted.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::{Presence, Result};

use super::MeteredStore;

#[async_trait]
impl Presence for MeteredStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        self.call(&self.calls.announce, self.inner.announce(instance, holds))
            .await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        self.call(&self.calls.withdraw, self.inner.withdraw(id))
            .await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.call(&self.calls.instances, self.inner.instances())
            .await
    }
}
