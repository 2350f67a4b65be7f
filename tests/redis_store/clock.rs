//! The server's clock: what a store reads off it.

use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::aio::MultiplexedConnection;

use super::{claim, open, raw, run};

/// The time of the server, in microseconds.
async fn time(redis: &mut MultiplexedConnection) -> i64 {
    let (seconds, micros): (i64, i64) = run(redis, "TIME").await;
    seconds * 1_000_000 + micros
}

/// Rounded up, what is due would start early.
#[tokio::test]
async fn a_claim_tells_the_servers_time_rounded_down_and_what_that_has_cut_off() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    for _ in 0..20 {
        let before = time(&mut redis).await;
        let claimed = claim(&store).await.unwrap();
        let after = time(&mut redis).await;
        let cut_off = i64::from(claimed.past.subsec_micros());
        let told = claimed.store_now.as_millis() * 1_000 + cut_off;
        assert!((before..=after).contains(&told), "{before} {told} {after}");
        assert!(cut_off < 1_000);
    }
}
