//! The option `history_topic`.

use super::Config;

/// A topic of a Kafka cluster of `push.kafka`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryTopicName {
    /// The name of the cluster.
    pub cluster: String,
    /// The topic.
    pub topic: String,
}

/// The characters of a topic besides letters and digits, and the length, that Kafka takes.
const TOPIC_SIGNS: [char; 3] = ['.', '_', '-'];
const MAX_TOPIC: usize = 249;

impl HistoryTopicName {
    /// Reads `CLUSTER/TOPIC`. `None` without the option.
    ///
    /// # Errors
    /// A text that says what to write.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, String> {
        let Some(text) = &config.history_topic else {
            return Ok(None);
        };
        let Some((cluster, topic)) = text.split_once('/') else {
            return Err("use CLUSTER/TOPIC, with a cluster of push.kafka".to_owned());
        };
        let is_sign = |sign: char| sign.is_ascii_alphanumeric() || TOPIC_SIGNS.contains(&sign);
        if topic.is_empty() || topic.len() > MAX_TOPIC || !topic.chars().all(is_sign) {
            let signs = "letters, digits, '.', '_' and '-'";
            return Err(format!("a topic has 1 to {MAX_TOPIC} {signs}"));
        }
        if !config.push.kafka.contains_key(cluster) {
            return Err(format!(
                "there is no push.kafka.{cluster} in the configuration: add its brokers"
            ));
        }
        if config.history.is_none() {
            return Err("set history as well: the topic gets a copy of it".to_owned());
        }
        if cfg!(not(feature = "kafka")) {
            return Err("this server was built without the feature kafka".to_owned());
        }
        let (cluster, topic) = (cluster.to_owned(), topic.to_owned());
        Ok(Some(Self { cluster, topic }))
    }
}
