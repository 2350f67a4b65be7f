//! The list of running instances: two keys of the namespace.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::presence::{self, InstanceId, InstanceInfo, MAX_INSTANCES, Presence};
use delayq_core::{Error, Result};

use super::RedisStore;
use crate::connection::{Class, Command, Fields, Reply};
use crate::scripts::{Script, record};
use crate::shard::context::Context;

#[async_trait]
impl Presence for RedisStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        let build = |command: Command| {
            let command = command.arg(instance.id.as_str());
            command
                .arg(presence::encode(instance))
                .number(record::span_ms(holds))
        };
        call(&self.cx, Script::Announce, build).await.map(drop)
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        let build = |command: Command| command.arg(id.as_str());
        call(&self.cx, Script::Withdraw, build).await.map(drop)
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        let most = i64::try_from(MAX_INSTANCES).unwrap_or(i64::MAX);
        let build = |command: Command| command.number(most);
        let mut fields = call(&self.cx, Script::Instances, build).await?;
        let mut instances = Vec::new();
        while !fields.is_empty() {
            let (id, seen_at, info) = (fields.text()?, fields.time()?, fields.bytes()?);
            instances.extend(presence::decode(id, seen_at, &info));
        }
        instances.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(instances)
    }
}

async fn call(
    cx: &Context,
    script: Script,
    build: impl FnOnce(Command) -> Command,
) -> Result<Fields> {
    let keys = cx.keys.instances();
    let command = Command::script(script.lua(), cx.keys.slot(), &keys, 1_024);
    let answer = cx.connections.call(Class::Main, build(command)).await;
    let of_instances = |error| match error {
        Error::Corrupt { .. } => Error::corrupt(
            keys.join(" or "),
            "it is not what delayq keeps there: who else writes to `delayq:*`?",
        ),
        error => error,
    };
    answer.map(Reply::fields).map_err(of_instances)
}
