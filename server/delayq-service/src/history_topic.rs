//! Topic of Kafka that gets the records of ended tasks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::history::{HistorySink, Life};
use delayq_plugin::{Error, Namespace, Result};
use futures_util::future::try_join_all;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use serde::Serialize;
use tracing::warn;

use crate::config::{Config, HistoryTopicName};
use crate::kafka_cluster::KafkaCluster;

/// How long a record waits for room in the producer. The producer has its own time-out after that.
const LIMIT: Duration = Duration::from_secs(30);

/// A topic that gets the record of every ended task, as a JSON object.
pub(crate) struct HistoryTopic {
    name: HistoryTopicName,
    cluster: KafkaCluster,
}

impl fmt::Debug for HistoryTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HistoryTopic").field(&self.name).finish()
    }
}

/// The value of a record.
#[derive(Serialize)]
struct Value<'a> {
    namespace: &'a Namespace,
    #[serde(flatten)]
    life: &'a Life,
}

impl HistoryTopic {
    /// The topic that the configuration names, if there is one.
    pub(crate) fn of(config: &Config) -> Option<Arc<dyn HistorySink>> {
        let name = config.history_topic_name().ok().flatten()?;
        let brokers = config.push.kafka.get(&name.cluster)?.brokers.clone();
        let cluster = KafkaCluster::new(brokers);
        Some(Arc::new(Self { name, cluster }))
    }

    fn place(&self) -> String {
        format!("topic {} of {}", self.name.topic, self.name.cluster)
    }

    async fn send(&self, namespace: &Namespace, life: &Life) -> Result<()> {
        let value = serde_json::to_vec(&Value { namespace, life });
        let value = value.map_err(|error| Error::serialize(error.to_string()))?;
        let (key, id) = (format!("{}/{}", life.task_type, life.id), life.key());
        let header = |key, value| Header {
            key,
            value: Some(value),
        };
        let headers = OwnedHeaders::new()
            .insert(header("delayq-namespace", namespace.as_str()))
            .insert(header("delayq-life", &id));
        let record = FutureRecord::to(&self.name.topic).key(key.as_str());
        let record = record.payload(value.as_slice()).headers(headers);
        match self.cluster.send(record, LIMIT).await {
            Ok(()) => Ok(()),
            // It would be refused for ever, and keep all others back.
            Err(error) if is_too_large(&error) => {
                warn!(life = id, bytes = value.len(), topic = self.place(), %error,
                    "the record of an ended task is left out of the topic");
                Ok(())
            }
            Err(error) => Err(Error::unavailable(self.place(), error.to_string())),
        }
    }
}

#[async_trait]
impl HistorySink for HistoryTopic {
    async fn record(&self, namespace: &Namespace, lives: &[Life]) -> Result<()> {
        let sent = lives.iter().map(|life| self.send(namespace, life));
        try_join_all(sent).await.map(drop)
    }
}

fn is_too_large(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidRecord)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use delayq_plugin::history::{HistoryStore, LifeOutcome};
    use delayq_plugin::{TaskId, TaskType, Timestamp};
    use rdkafka::ClientConfig;
    use rdkafka::consumer::{Consumer, StreamConsumer};
    use rdkafka::message::{Headers, Message};
    use rdkafka::mocking::MockCluster;

    use super::*;

    fn life(id: &str) -> Life {
        let (task_type, id) = (TaskType::new("mail").unwrap(), TaskId::new(id).unwrap());
        Life::new(task_type, id, LifeOutcome::Done, Timestamp::from_millis(5))
    }

    #[tokio::test]
    async fn a_history_has_what_its_topic_has_and_waits_for_it() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("ended", 1, 1).unwrap();
        let brokers = cluster.bootstrap_servers();
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("history").display());
        let text = format!(
            "history = \"{url}\"\nhistory_topic = \"main/ended\"\n[push.kafka.main]\nbrokers = \
             \"{brokers}\""
        );
        let config = Config::of_text(&text).unwrap();
        let topic = HistoryTopic::of(&config).unwrap();
        let namespace = Namespace::new("shop").unwrap();
        let history = HistoryStore::at(&url, namespace, Duration::from_secs(5)).unwrap();
        let history = history.copied_to(topic);
        assert_eq!(history.record(&[life("1"), life("2")]).await.unwrap(), 2);

        let consumer: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", &brokers)
            .set("group.id", "test")
            .set("auto.offset.reset", "earliest")
            .create()
            .unwrap();
        consumer.subscribe(&["ended"]).unwrap();
        for id in ["1", "2"] {
            let record = tokio::time::timeout(Duration::from_secs(20), consumer.recv());
            let record = record.await.expect("the record is there").unwrap();
            let key = record.key().map(String::from_utf8_lossy);
            assert_eq!(key.as_deref(), Some(&*format!("mail/{id}")));
            let value: serde_json::Value =
                serde_json::from_slice(record.payload().unwrap()).unwrap();
            assert_eq!(value["namespace"], "shop");
            assert_eq!(value["id"], id);
            assert_eq!(value["outcome"], "done");
            let headers = record.headers().unwrap();
            let life = headers.iter().find(|header| header.key == "delayq-life");
            let expected = format!("mail/{id}/5/5/0/done");
            assert_eq!(life.unwrap().value, Some(expected.as_bytes()));
        }

        // Without brokers nothing is stored: the records stay where they are.
        drop(consumer);
        let config = Config::of_text(&text.replace(&brokers, "127.0.0.1:1")).unwrap();
        let away = HistoryStore::at(&url, Namespace::default(), Duration::from_secs(5)).unwrap();
        let away = away.copied_to(HistoryTopic::of(&config).unwrap());
        let lives = [life("3")];
        let recorded = tokio::time::timeout(Duration::from_secs(2), away.record(&lives));
        assert!(!matches!(recorded.await, Ok(Ok(_))));
        let (task_type, id) = (life("3").task_type, life("3").id);
        assert_eq!(away.lives(&task_type, &id).await.unwrap(), []);
    }
}
