//! The instances that are there: two keys of the namespace.

use std::time::Duration;

use super::RedisStore;
use super::client::{Command, Fields, Lane, Reply};
use super::record::span_ms;
use super::scripts::Script;
use crate::error::{Error, Result};
use crate::store::instance::{decode, encode};
use crate::store::{InstanceId, InstanceInfo, MAX_INSTANCES};

impl RedisStore {
    pub(super) async fn announce_instance(
        &self,
        instance: &InstanceInfo,
        holds: Duration,
    ) -> Result<()> {
        let info = encode(instance);
        let command = self.on_instances(Script::Announce, info.len() + 64);
        let command = command.arg(instance.id.as_str()).arg(info);
        self.call_instances(command.number(span_ms(holds))).await?;
        Ok(())
    }

    pub(super) async fn withdraw_instance(&self, id: &InstanceId) -> Result<()> {
        let command = self.on_instances(Script::Withdraw, 64).arg(id.as_str());
        self.call_instances(command).await?;
        Ok(())
    }

    pub(super) async fn list_instances(&self) -> Result<Vec<InstanceInfo>> {
        let most = i64::try_from(MAX_INSTANCES).unwrap_or(i64::MAX);
        let command = self.on_instances(Script::Instances, 16).number(most);
        let mut fields = self.call_instances(command).await?;
        let mut instances = Vec::new();
        while !fields.is_empty() {
            let (id, seen_at, info) = (fields.text()?, fields.time()?, fields.bytes()?);
            instances.extend(decode(id, seen_at, &info));
        }
        instances.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(instances)
    }

    fn on_instances(&self, script: Script, bytes: usize) -> Command {
        let keys = self.scope.keys.instances();
        Command::script(script, self.scope.keys.slot(), keys.iter(), bytes)
    }

    async fn call_instances(&self, command: Command) -> Result<Fields> {
        let answer = self.client.call(Lane::Main, command).await;
        let answer = answer.map_err(|error| match error {
            Error::Corrupt { .. } => Error::Corrupt {
                key: self.scope.keys.instances().join(" or "),
                detail: "it is not what delayq keeps there: who else writes to `delayq:*`?"
                    .to_owned(),
            },
            error => error,
        });
        answer.map(Reply::fields)
    }
}
