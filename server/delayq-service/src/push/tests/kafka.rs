//! Pushes into topics of Kafka: of the mock brokers of librdkafka, and of a real one in
//! [`real_broker`].

use rdkafka::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{Offset, TopicPartitionList};

use super::super::config::KafkaConfig;
use super::*;

#[cfg(feature = "soak")]
mod real_broker;

fn brokers() -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(3).unwrap();
    cluster.create_topic("orders", 1, 3).unwrap();
    cluster
}

fn consumer(brokers: &str) -> StreamConsumer {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "test")
        .create()
        .unwrap();
    let mut all = TopicPartitionList::new();
    all.add_partition_offset("orders", 0, Offset::Beginning)
        .unwrap();
    consumer.assign(&all).unwrap();
    consumer
}

fn header(record: &BorrowedMessage<'_>, name: &str) -> Option<String> {
    let headers = record.headers().unwrap();
    let found = headers.iter().find(|header| header.key == name)?;
    Some(String::from_utf8(found.value?.to_vec()).unwrap())
}

#[tokio::test]
async fn a_record_has_key_headers_and_message_and_the_brokers_word_ends_the_task() {
    let cluster = brokers();
    check(&cluster.bootstrap_servers()).await;
}

/// Pushes two tasks, and reads them from the topic.
async fn check(brokers: &str) {
    let main = KafkaConfig {
        brokers: brokers.to_owned(),
    };
    let config = PushConfig {
        kafka: [("main".to_owned(), main)].into(),
        ..PushConfig::default()
    };
    let site = Site::open(&config);
    let target = json!({"cluster": "main", "topic": "orders", "headers": {"shop": "7"}});
    site.set("job", json!({"kafka": target})).await;
    let job = DelayQueueJob::raw("job", b"\x08\xff".to_vec()).id("order-42");
    site.send(job.header("tenant", "acme")).await;
    site.until("job", "order-42", TaskState::Done).await;
    let consumer = consumer(brokers);
    let record = tokio::time::timeout(Duration::from_secs(20), consumer.recv());
    let record = record.await.expect("the record is there").unwrap();
    assert_eq!(record.key(), Some(&b"order-42"[..]));
    assert_eq!(record.payload(), Some(&b"\x08\xff"[..]));
    for (name, value) in [
        ("shop", "7"),
        ("tenant", "acme"),
        ("delayq-task-type", "job"),
    ] {
        assert_eq!(header(&record, name).as_deref(), Some(value), "{name}");
    }
    let keyed = json!({"cluster": "main", "topic": "orders", "key": "k-{id}"});
    site.set("job", json!({"kafka": keyed})).await;
    site.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let record = tokio::time::timeout(Duration::from_secs(20), consumer.recv());
    assert_eq!(record.await.unwrap().unwrap().key(), Some(&b"k-1"[..]));
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_cluster_that_is_away_fails_the_attempt_and_one_that_is_not_named_is_refused() {
    let away = KafkaConfig {
        brokers: "127.0.0.1:1".to_owned(),
    };
    let config = PushConfig {
        kafka: [("away".to_owned(), away)].into(),
        ..PushConfig::default()
    };
    let site = Site::open(&config);
    let target = json!({"kafka": {"cluster": "away", "topic": "orders"}, "timeout": "300ms"});
    let mut wanted = target.clone();
    wanted["retry"] = json!({"attempts": 1});
    site.set("job", wanted).await;
    site.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let dead = site.until("job", "1", TaskState::Dead).await;
    assert!(dead.history.last_error.unwrap().contains("within 300ms"));
    for (cluster, topic, word) in [
        ("other", "orders", "push.kafka"),
        ("away", "a/b", "topic"),
        ("away", "..", "topic"),
    ] {
        let target = json!({"kafka": {"cluster": cluster, "topic": topic}});
        let target = serde_json::from_value(target).unwrap();
        let refused = site
            .push
            .set(&TypePattern::new("job").unwrap(), target)
            .await;
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(word), "{said}");
    }
    site.push.close(Duration::ZERO).await;
}
