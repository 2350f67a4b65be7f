//! Push to Kafka topics.

use std::collections::BTreeMap;
use std::time::Duration;

use delayq_plugin::{TaskError, TaskResult};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

use super::config::KafkaConfig;
use super::parcel::Parcel;
use super::target_kinds::KafkaTarget;
use crate::kafka_cluster::KafkaCluster;

/// One producer for each cluster, made for its first record.
#[derive(Default)]
pub(super) struct Producers(BTreeMap<String, KafkaCluster>);

impl Producers {
    pub(super) fn new(clusters: &BTreeMap<String, KafkaConfig>) -> Self {
        let clusters = clusters
            .iter()
            .map(|(name, config)| (name.clone(), KafkaCluster::new(config.brokers.clone())));
        Self(clusters.collect())
    }

    /// Sends one record and waits for the brokers' acknowledgement. After a time-out the record may
    /// still arrive. The task is then sent again, as after any lost answer.
    pub(super) async fn push(
        &self,
        target: &KafkaTarget,
        parcel: &Parcel<'_>,
        limit: Duration,
    ) -> TaskResult {
        let Some(cluster) = self.0.get(&target.cluster) else {
            let text = format!(
                "there is no push.kafka.{} in the configuration",
                target.cluster
            );
            return Err(TaskError::retry(text));
        };
        let place = format!("topic {} of {}", target.topic, target.cluster);
        let key = key(target, parcel);
        let record = FutureRecord::to(&target.topic)
            .key(key.as_str())
            .payload(parcel.message);
        let record = record.headers(headers(target, parcel));
        let sent = cluster.send(record, limit).await;
        sent.map_err(|error| failure(&place, &error))
    }
}

/// The key of the record.
fn key(target: &KafkaTarget, parcel: &Parcel<'_>) -> String {
    let id = parcel.cx.id().as_str();
    let key = target.key.as_ref();
    key.map_or_else(|| id.to_owned(), |key| key.replace("{id}", id))
}

fn headers(target: &KafkaTarget, parcel: &Parcel<'_>) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new();
    let mut add = |key: &str, value: &str| {
        let header = Header {
            key,
            value: Some(value),
        };
        headers = std::mem::take(&mut headers).insert(header);
    };
    for (name, value) in parcel.facts() {
        add(name, &value);
    }
    add("delayq-push-id", &parcel.push_id());
    for (name, value) in parcel.task_headers() {
        add(name, value);
    }
    for (name, value) in &target.headers {
        add(name, value);
    }
    headers
}

/// The error for a failed record: dead if no retry can succeed, and a retry otherwise.
fn failure(place: &str, error: &KafkaError) -> TaskError {
    let text = format!("{place}: {error}");
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidRecord) => {
            TaskError::dead(text)
        }
        _ => TaskError::retry(text),
    }
}
