//! Instances: announced in the store for new tasks, listed from both stores.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::store::Presence;
use delayq_plugin::{InstanceId, InstanceInfo, Result};

use super::placed_store::PlacedStore;

#[async_trait]
impl Presence for PlacedStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        self.view()?.main().store.announce(instance, holds).await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        let view = self.view()?;
        for home in view.homes() {
            home.store.withdraw(id).await?;
        }
        Ok(())
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        let (view, mut listed) = (self.view()?, BTreeMap::new());
        for home in view.homes() {
            for instance in home.store.instances().await? {
                listed.insert(instance.id.clone(), instance);
            }
        }
        Ok(listed.into_values().collect())
    }
}
