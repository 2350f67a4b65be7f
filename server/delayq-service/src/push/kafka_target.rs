//! A target that is a topic of Kafka.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::PushConfig;

/// Longest name of a topic, in bytes.
const MAX_TOPIC_BYTES: usize = 249;

/// A record in a topic of Kafka for each task, with its message as the value. It is done when the
/// broker has acknowledged it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaTarget {
    /// The cluster, by its name in the configuration of the server: `push.kafka.NAME`.
    pub cluster: String,
    /// The topic.
    pub topic: String,
    /// The key of the record; `{id}` stands for the id of the task. Default: the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Further headers of the record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl KafkaTarget {
    /// Refuses what cannot be.
    pub fn check(&self, config: &PushConfig) -> Result<(), String> {
        if !cfg!(feature = "kafka") {
            return Err(
                "kafka: this server was built without it: use one with the feature kafka"
                    .to_owned(),
            );
        }
        if !config.kafka.contains_key(&self.cluster) {
            let text = "cluster: there is no such one: add push.kafka.NAME.brokers to the \
                        configuration of the server";
            return Err(text.to_owned());
        }
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = !self.topic.is_empty() && self.topic.bytes().all(is_word);
        if !is_name || self.topic.len() > MAX_TOPIC_BYTES || [".", ".."].contains(&&*self.topic) {
            return Err("topic: use 1 to 249 of A-Z a-z 0-9 . _ -".to_owned());
        }
        Ok(())
    }
}
