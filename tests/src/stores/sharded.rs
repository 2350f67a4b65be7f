//! Stores whose usual type is sharded before its first task.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::operate::TypeSettings;
use delayq_core::store::StoreOptions;
use delayq_core::{Store, TaskId, TaskType};
use delayq_testing::contract::{Damage, Damageable, StoreUnderTest};

use super::Redis;
use super::redis::do_damage;
use crate::redis_server::RedisServer;

/// How many shards the type has.
const SHARDS: u32 = 3;
/// The type that most sentences of the suite are about.
const TYPE: &str = "order.cancel";

/// Stores as the other harness opens them, with the usual type sharded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sharded<H>(pub H);

#[async_trait]
impl<H: StoreUnderTest> StoreUnderTest for Sharded<H> {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let store = self.0.open(options).await;
        let settings = TypeSettings::default().shards(SHARDS);
        let task_type = TaskType::new(TYPE).unwrap();
        store.configure_type(&task_type, &settings).await.unwrap();
        store
    }

    async fn advance(&self, span: Duration) {
        self.0.advance(span).await;
    }

    /// Each shard has a bound of its own for its records of ends.
    fn leaves_out(&self, sentence: &str) -> bool {
        [
            "at_the_bound_the_oldest_records_go_and_are_counted",
            "the_bound_of_recorded_ends_is_that_of_who_set_it",
        ]
        .contains(&sentence)
            || self.0.leaves_out(sentence)
    }
}

#[async_trait]
impl Damageable for Sharded<Redis> {
    async fn damage(
        &self,
        options: &StoreOptions,
        task_type: &TaskType,
        id: &TaskId,
        damage: Damage,
    ) {
        let tag = |n: u32| format!("{}/{task_type}/1.{n}", options.namespace);
        let url = RedisServer::shared().url();
        do_damage(&url, (0..SHARDS).map(tag), id, damage).await;
    }
}
