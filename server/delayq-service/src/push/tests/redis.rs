//! Push on Redis, by several servers.

use std::collections::BTreeSet;

use delayq_plugin::store::StoreOptions;
use delayq_plugin::{Namespace, open_store};
use delayq_tests::redis_server::RedisServer;

use super::*;

const TASKS: usize = 60;

#[tokio::test]
async fn each_task_is_pushed_by_one_of_the_servers_and_a_new_target_is_heard_by_all() {
    let url = RedisServer::shared().url();
    let options = StoreOptions {
        namespace: Namespace::new("push-on-redis").unwrap(),
        ..StoreOptions::default()
    };
    let mut sites = Vec::new();
    for _ in 0..2 {
        let store = open_store(&url, options.clone()).await.unwrap();
        sites.push(Site::on(&store, &near()));
    }
    let mut target = Receiver::open(Vec::new()).await;
    let http = json!({"http": {"url": target.url}, "concurrency": 4});
    sites[0].set("job.*", http.clone()).await;
    for number in 0..TASKS {
        let job = DelayQueueJob::raw("job.a", "x").id(format!("{number}"));
        sites[number % 2].send(job).await;
    }
    let mut pushed = BTreeSet::new();
    while pushed.len() < TASKS {
        let got = target.next().await;
        let id = got.header("delayq-task-id").to_owned();
        assert_eq!(got.header("delayq-attempt"), "1");
        assert!(pushed.insert(id.clone()), "{id} was pushed twice");
    }
    for number in 0..TASKS {
        let id = number.to_string();
        sites[1].until("job.a", &id, TaskState::Done).await;
    }
    // A target that one server was given is pushed to by the other one as well.
    let mut other = Receiver::open(Vec::new()).await;
    sites[1]
        .set("job.*", json!({"http": {"url": other.url}}))
        .await;
    sites[1].push.close(Duration::from_secs(5)).await;
    let mut heard = false;
    for number in 0..100 {
        let job = DelayQueueJob::raw("job.a", "x").id(format!("late-{number}"));
        sites[0].send(job).await;
        let pushed = tokio::time::timeout(Duration::from_millis(100), other.next());
        heard = pushed.await.is_ok();
        if heard {
            break;
        }
    }
    assert!(heard, "the new target is pushed to by no other server");
    sites[0].push.close(Duration::from_secs(5)).await;
}
