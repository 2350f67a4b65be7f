//! Records of ends that wait in Redis.

use delayq_core::history::{EndPosition, Ends, KeptMessage, MAX_ENDS, WaitingEnd};
use delayq_tests::redis_server::Persistence;

use super::*;

const MESSAGE: usize = 1 << 18;

/// A store that remembers no ends: a shard is empty as soon as its last task has ended.
async fn forgetful(server: &RedisServer, buffer: u64) -> Arc<RedisStore> {
    let mut options = options();
    options.retention = Duration::ZERO;
    options.history_buffer = Some(buffer);
    RedisStore::connect(&server.url(), options).await.unwrap()
}

async fn record(store: &RedisStore) {
    let settings = TypeSettings::default().history(Some(KeptMessage::Whole));
    store.configure_type(&task_type(), &settings).await.unwrap();
}

/// Sends a task with a message of this size, and ends it.
async fn end(store: &RedisStore, name: &str, size: usize) {
    accept(store, DelayQueueJob::raw(TYPE, vec![b'x'; size]).id(name)).await;
    assert_eq!(take_all(store).await.len(), 1);
}

async fn remove(store: &RedisStore, waiting: &[WaitingEnd]) -> u64 {
    let positions: Vec<EndPosition> = waiting.iter().map(|end| end.position.clone()).collect();
    store.remove_ends(&positions).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn large_records_are_read_in_parts_and_all_of_them() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server, 1 << 30).await;
    record(&store).await;
    let count = 100;
    for n in 0..count {
        end(&store, &format!("{n}"), MESSAGE).await;
    }
    let (mut left, mut parts) = (count, 0);
    while left > 0 {
        let waiting = store.ends(MAX_ENDS).await.unwrap();
        let bytes: usize = waiting
            .iter()
            .flat_map(|end| &end.life.message)
            .map(Vec::len)
            .sum();
        assert!((1..=9 << 20).contains(&bytes), "{bytes} bytes in one call");
        left -= waiting.len();
        parts += 1;
        assert_eq!(remove(&store, &waiting).await, waiting.len() as u64);
    }
    assert!(parts > 2, "{parts} parts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_that_was_lowered_is_reached_in_steps() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server, 1 << 30).await;
    record(&store).await;
    for n in 0..1_000 {
        accept(
            &store,
            DelayQueueJob::raw(TYPE, vec![b'x'; 4_000]).id(format!("{n}")),
        )
        .await;
    }
    assert_eq!(take_all(&store).await.len(), 1_000);
    let lower = forgetful(&server, 1 << 20).await;
    record(&lower).await;
    end(&lower, "first", 10).await;
    let status = lower.ends_status().await.unwrap();
    assert_eq!((status.waiting, status.lost), (745, 256), "{status:?}");
    assert!(status.bytes > status.limit);
    for n in 0..3 {
        end(&lower, &format!("next-{n}"), 10).await;
    }
    let status = lower.ends_status().await.unwrap();
    assert_eq!(
        (status.waiting + status.lost, status.limit),
        (1_004, 1 << 20)
    );
    assert!((1 << 19..=1 << 20).contains(&status.bytes), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_shard_stays_until_its_records_are_removed_and_the_fullest_shard_counts() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server, 1 << 20).await;
    record(&store).await;
    for n in 0..4 {
        let job = DelayQueueJob::raw(TYPE, vec![b'x'; 200_000]);
        accept(&store, job.id(format!("old-{n}"))).await;
    }
    shard(&store, 3).await;
    assert_eq!(take_all(&store).await.len(), 4);
    for n in 0..30 {
        end(&store, &format!("{n}"), 100).await;
    }
    let status = store.ends_status().await.unwrap();
    assert_eq!((status.waiting, status.lost), (34, 0));
    assert!((70..90).contains(&status.fill_percent()), "{status:?}");
    let waiting = store.ends(MAX_ENDS).await.unwrap();
    assert_eq!(waiting.len(), 34);
    assert_eq!(store.buckets(&task_type()).await.unwrap().len(), 4);
    assert_eq!(remove(&store, &waiting).await, 34);
    assert_eq!(remove(&store, &waiting).await, 0);
    let status = store.ends_status().await.unwrap();
    assert_eq!(
        (status.waiting, status.bytes, status.limit),
        (0, 0, 4 << 20)
    );
    while store.buckets(&task_type()).await.unwrap().len() > 3 {
        take_all(&store).await;
    }
    // The new shards go on to record.
    end(&store, "new", 100).await;
    assert_eq!(store.ends(MAX_ENDS).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_set_after_a_resize_is_one_of_the_older_shard_too() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server, 1 << 20).await;
    accept(&store, DelayQueueJob::raw(TYPE, "old").id("old")).await;
    shard(&store, 3).await;
    record(&store).await;
    accept(&store, DelayQueueJob::raw(TYPE, "new").id("new")).await;
    assert_eq!(take_all(&store).await.len(), 2);
    let waiting = store.ends(MAX_ENDS).await.unwrap();
    let ids: BTreeSet<&str> = waiting.iter().map(|end| end.life.id.as_str()).collect();
    assert_eq!(ids, BTreeSet::from(["new", "old"]));
    // One that nobody can read is left out, and holds nothing up.
    let mut redis = raw(&server).await;
    let key = "delayq:{default/order.cancel}:ends";
    run::<String>(&mut redis, &format!("XADD {key} * a nonsense i 1 r 2 h 3")).await;
    assert_eq!(remove(&store, &waiting).await, 2);
    end(&store, "next", 10).await;
    assert_eq!(store.ends(MAX_ENDS).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bound_outlives_a_history_that_is_off() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server, 1 << 20).await;
    record(&store).await;
    let off = TypeSettings::default().history(None);
    store.configure_type(&task_type(), &off).await.unwrap();
    store.configure_type(&task_type(), &off).await.unwrap();
    let other = RedisStore::connect(&server.url(), options()).await.unwrap();
    record(&other).await;
    assert_eq!(other.ends_status().await.unwrap().limit, 1 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_a_type_that_is_dropped_still_wait() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server, 1 << 20).await;
    record(&store).await;
    end(&store, "1", 10).await;
    store.drop_type(&task_type()).await.unwrap();
    let other = forgetful(&server, 1 << 20).await;
    let waiting = other.ends(MAX_ENDS).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(remove(&other, &waiting).await, 1);
}

/// Whether each shard of an epoch of the type began under a release that knows
/// packed tasks.
async fn born(redis: &mut MultiplexedConnection, epoch: &str) -> Vec<bool> {
    let mut shards = Vec::new();
    for meta in run::<Vec<String>>(redis, &format!("KEYS *{epoch}*:meta")).await {
        shards.push(run(redis, &format!("HEXISTS {meta} born")).await);
    }
    shards
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bound_and_the_release_that_a_type_began_under_outlive_a_resize() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server, 1 << 20).await;
    let mut redis = raw(&server).await;
    record(&store).await;
    accept(&store, job("first")).await;
    let off = TypeSettings::default().history(None);
    store.configure_type(&task_type(), &off).await.unwrap();
    shard(&store, 3).await;
    assert_eq!(born(&mut redis, "/1.").await, [true; 3]);
    // Who turns the history on again, and names no bound, gets the one that was set.
    let other = RedisStore::connect(&server.url(), options()).await.unwrap();
    record(&other).await;
    assert_eq!(other.ends_status().await.unwrap().limit, 4 << 20);
    assert_eq!(take_all(&store).await.len(), 1);
    let waiting = other.ends(MAX_ENDS).await.unwrap();
    assert_eq!(remove(&other, &waiting).await, 1);
    while store.buckets(&task_type()).await.unwrap().len() > 3 {
        take_all(&store).await;
    }
    // One shard of an earlier release is enough: its processes know no packed tasks.
    let one = key("meta").replace('}', "/1.0}");
    assert_eq!(run::<u8>(&mut redis, &format!("HDEL {one} born")).await, 1);
    shard(&store, 5).await;
    assert_eq!(born(&mut redis, "/2.").await, [false; 5]);
}
