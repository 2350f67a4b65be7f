//! A start while the server loads its data.

use delayq_core::{Store, hours};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::{accept, id, impatient, job, open, raw, run, task_type};

/// Loading takes longer than a call may.
#[tokio::test]
async fn a_store_that_is_opened_while_its_server_loads_its_data_waits_for_it() {
    // A delay for each key, and answers between any two.
    let slow = [
        "--key-load-delay",
        "10000",
        "--loading-process-events-interval-bytes",
        "1024",
        "--rdbcompression",
        "no",
    ];
    let mut server = RedisServer::start(Persistence::None, &slow);
    let store = open(&server).await;
    accept(&store, job("1").after(hours(2))).await;
    store.close().await;
    let mut redis = raw(&server).await;
    let fill = "for i = 1, 300 do redis.call('SET', i, string.rep('x', 2000)) end";
    let fill = redis::cmd("EVAL").arg(fill).arg(0).to_owned();
    fill.exec_async(&mut redis).await.unwrap();
    let () = run(&mut redis, "SAVE").await;
    server.kill();
    let url = server.url();
    let restarted = std::thread::spawn(move || {
        server.restart();
        server
    });
    // Until it says that it loads.
    let client = redis::Client::open(url.as_str()).unwrap();
    loop {
        let said = match client.get_multiplexed_async_connection().await {
            Ok(mut redis) => redis::cmd("PING").exec_async(&mut redis).await,
            Err(error) => Err(error),
        };
        match said {
            Ok(()) => panic!("it has loaded already"),
            Err(error) if error.code() == Some("LOADING") => break,
            Err(_) => tokio::task::yield_now().await,
        }
    }
    let store = RedisStore::connect(&url, impatient()).await.unwrap();
    let found = store.find(&task_type(), &id("1")).await.unwrap();
    assert!(found.is_some());
    store.close().await;
    drop(restarted.join().unwrap());
}
