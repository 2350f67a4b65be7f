//! The list of running instances: two keys of the namespace.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::presence::{self, InstanceId, InstanceInfo, MAX_INSTANCES, Presence};
use delayq_core::{Error, Result};

use super::RedisStore;
use crate::connection::{Class, Command, Fields, RespValue};
use crate::scripts::{Script, record};
use crate::shard::context::Context;

#[async_trait]
impl Presence for RedisStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        let command = command(&self.cx, Script::Announce)
            .arg(instance.id.as_str())
            .arg(presence::encode(instance))
            .number(record::span_ms(holds));
        call(&self.cx, command).await.map(drop)
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        let command = command(&self.cx, Script::Withdraw).arg(id.as_str());
        call(&self.cx, command).await.map(drop)
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        let command = command(&self.cx, Script::Instances).arg(MAX_INSTANCES.to_string());
        let mut fields = call(&self.cx, command).await?;
        let mut instances = Vec::new();
        while !fields.is_empty() {
            let (id, seen_at, info) = (fields.text()?, fields.time()?, fields.bytes()?);
            instances.extend(presence::decode(id, seen_at, &info));
        }
        instances.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(instances)
    }
}

fn command(cx: &Context, script: Script) -> Command {
    Command::script(script.lua(), cx.keys.slot(), &cx.keys.instances(), 1_024)
}

async fn call(cx: &Context, command: Command) -> Result<Fields> {
    let answer = cx.connections.call(Class::Main, command).await;
    let of_instances = |error| match error {
        Error::Corrupt { .. } => Error::corrupt(
            cx.keys.instances().join(" or "),
            "it is not what delayq keeps there: who else writes to `delayq:*`?",
        ),
        error => error,
    };
    answer.map(RespValue::fields).map_err(of_instances)
}
