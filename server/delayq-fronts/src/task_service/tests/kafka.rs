//! Records of Kafka, in the mock brokers of librdkafka, or in those of the variable
//! `DELAYQ_TEST_KAFKA`.

use delayq_service::push::PushConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::mocking::MockCluster;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use super::*;

#[tokio::test]
async fn a_kafka_task_is_a_record_at_its_time_in_the_only_cluster() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("orders", 1, 1).unwrap();
    let real = std::env::var("DELAYQ_TEST_KAFKA");
    let brokers = real.unwrap_or_else(|_| cluster.bootstrap_servers());
    let kafka = json!({"kafka": {"main": {"brokers": brokers}}, "allow_http": true});
    let push: PushConfig = serde_json::from_value(kafka).unwrap();
    let site = Site::with(push).await;
    let trigger_at = now() + 300;
    let task = json!({
        "topic": "orders", "key": "42", "headers": {"shop": "7"}, "trigger_at": trigger_at,
        "body_base64": "CP8=",
    });
    let (status, made) = site.ask("POST", "/CreateKafkaTask", task).await;
    assert_eq!(status, 201, "{made}");
    let done = site
        .until(made["task_id"].as_str().unwrap(), "success")
        .await;
    assert!(done["state_at"].as_i64().unwrap() >= trigger_at);
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", &brokers)
        .set("group.id", "test")
        .create()
        .unwrap();
    let mut all = TopicPartitionList::new();
    all.add_partition_offset("orders", 0, Offset::Beginning)
        .unwrap();
    consumer.assign(&all).unwrap();
    let record = tokio::time::timeout(Duration::from_secs(20), consumer.recv());
    let record = record.await.expect("the record is there").unwrap();
    assert_eq!(
        (record.key(), record.payload()),
        (Some(&b"42"[..]), Some(&b"\x08\xff"[..]))
    );
    site.close().await;
}
