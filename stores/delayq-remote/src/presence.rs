//! The list of running instances.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::{Presence, Result};
use delayq_proto::{pb, span};

use crate::remote::{Client, RemoteStore};

#[async_trait]
impl Presence for RemoteStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        let request = pb::AnnounceRequest {
            namespace: self.namespace.to_string(),
            instance: Some(instance.clone().into()),
            holds: Some(span(holds)),
        };
        let response = self.call(async move |mut client: Client| client.announce(request).await);
        response.await.map(drop)
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        let request = pb::WithdrawRequest {
            namespace: self.namespace.to_string(),
            id: id.to_string(),
        };
        let response = self.call(async move |mut client: Client| client.withdraw(request).await);
        response.await.map(drop)
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        let request = pb::InstancesRequest {
            namespace: self.namespace.to_string(),
        };
        let response = self.call(async move |mut client: Client| client.instances(request).await);
        let instances = response.await?.instances;
        instances.into_iter().map(TryInto::try_into).collect()
    }
}
