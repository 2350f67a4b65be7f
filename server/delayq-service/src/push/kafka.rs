//! Push to Kafka topics.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use delayq_plugin::{TaskError, TaskResult};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};

use super::config::KafkaConfig;
use super::parcel::Parcel;
use super::target_kinds::KafkaTarget;

/// The client's limit for a record, in bytes: above the largest message of delayq with its headers.
/// The broker has its own limit.
const MAX_RECORD_BYTES: &str = "2097152";
/// How long a record waits for others, in milliseconds, so that one request carries many.
const LINGER_MS: &str = "1";

/// One producer for each cluster, made for its first record.
#[derive(Default)]
pub(super) struct Producers(BTreeMap<String, KafkaCluster>);

struct KafkaCluster {
    brokers: String,
    producer: Mutex<Option<FutureProducer>>,
}

impl Producers {
    pub(super) fn new(clusters: &BTreeMap<String, KafkaConfig>) -> Self {
        let clusters = clusters.iter().map(|(name, config)| {
            let cluster = KafkaCluster {
                brokers: config.brokers.clone(),
                producer: Mutex::default(),
            };
            (name.clone(), cluster)
        });
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
        let failed = |error: &KafkaError| failure(&place, error);
        let producer = cluster.producer().map_err(|error| failed(&error))?;
        let key = key(target, parcel);
        let record = FutureRecord::to(&target.topic)
            .key(&key)
            .payload(parcel.message);
        let record = record.headers(headers(target, parcel));
        let sent = producer.send(record, limit).await;
        if producer.client().fatal_error().is_some() {
            cluster.forget();
        }
        sent.map(drop).map_err(|(error, _)| failed(&error))
    }
}

impl KafkaCluster {
    fn producer(&self) -> Result<FutureProducer, KafkaError> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = &*producer {
            return Ok(producer.clone());
        }
        let made: FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", "delayq-server")
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", "30000")
            .set("message.max.bytes", MAX_RECORD_BYTES)
            .set("linger.ms", LINGER_MS)
            .create()?;
        Ok(producer.insert(made).clone())
    }

    /// Drops the producer. A producer with a fatal ordering error cannot send any more.
    fn forget(&self) {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        *producer = None;
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
