//! A Kafka cluster.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};

/// The client's limit for a record, in bytes: above the largest message of delayq with its headers.
/// The broker has its own limit.
const MAX_RECORD_BYTES: &str = "2097152";
/// How long a record waits for others, in milliseconds, so that one request carries many.
const LINGER_MS: &str = "1";

/// A Kafka cluster with one producer, made for the first record.
pub(crate) struct KafkaCluster {
    brokers: String,
    producer: Mutex<Option<FutureProducer>>,
}

impl KafkaCluster {
    /// The cluster with these bootstrap brokers.
    pub(crate) fn new(brokers: String) -> Self {
        Self {
            brokers,
            producer: Mutex::default(),
        }
    }

    /// Sends one record and waits for the brokers' acknowledgement. After a time-out the record may
    /// still arrive.
    pub(crate) async fn send(
        &self,
        record: FutureRecord<'_, str, [u8]>,
        limit: Duration,
    ) -> Result<(), KafkaError> {
        let producer = self.producer()?;
        let sent = producer.send(record, limit).await;
        // A producer with a fatal ordering error cannot send any more.
        if producer.client().fatal_error().is_some() {
            *self.producer.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        sent.map(drop).map_err(|(error, _)| error)
    }

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
}
