//! Presence of instances, as calls to the engine.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::error::Result;
use delayq_core::presence::{InstanceId, InstanceInfo, Presence};

use crate::commit::{Lane, Size};
use crate::operations::instances;
use crate::rows::Tx;
use crate::store::SqliteStore;

#[async_trait]
impl Presence for SqliteStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        let instance = instance.clone();
        let announce = move |tx: &mut Tx<'_>| instances::announce(tx, &instance, holds);
        self.engine
            .write(Lane::Operations, Size::ONE, announce)
            .await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        let id = id.clone();
        let withdraw = move |tx: &mut Tx<'_>| instances::withdraw(tx, &id);
        self.engine
            .write(Lane::Operations, Size::ONE, withdraw)
            .await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.engine.read(|tx| instances::instances(tx)).await
    }
}
