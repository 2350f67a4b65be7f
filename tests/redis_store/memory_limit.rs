//! New tasks are refused before a server is full, and everything else goes on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::store::{AttemptEnd, Settlement, SubmitOutcome};
use delayq_core::{DelayQueueJob, Error, Store, TaskType};
use delayq_redis::RedisStore;
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::liveness::info;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::redis_user;
use delayq_tests::rig::{soon, until};

use super::{accept, claim, id, job, options, raw, run, submit, task, task_type, whole};

const HOUR: Duration = Duration::from_hours(1);

/// A number that the server tells.
async fn number(server: &RedisServer, section: &str, name: &str) -> u64 {
    let fields = info(&server.url(), section).await.unwrap();
    fields[name].trim().parse().unwrap()
}

/// Makes a percent of what is used more than a test submits in a second.
async fn weigh_down(server: &RedisServer, key: &str) {
    let set = format!("SET {key} {}", "x".repeat(32 << 20));
    run::<()>(&mut raw(server).await, &set).await;
}

/// Sets the limit of a server's memory so that `percent` of it are in use.
async fn fill(server: &RedisServer, percent: u64) {
    let used = number(server, "memory", "used_memory").await;
    let limit = used * 100 / percent;
    let set = format!("CONFIG SET maxmemory {limit}");
    run::<()>(&mut raw(server).await, &set).await;
}

async fn lift(server: &RedisServer) {
    run::<()>(&mut raw(server).await, "CONFIG SET maxmemory 0").await;
}

/// How often the server has run INFO.
async fn looks(server: &RedisServer) -> u64 {
    let fields: HashMap<_, _> = info(&server.url(), "commandstats").await.unwrap();
    let stats = fields.get("cmdstat_info");
    let calls = stats.and_then(|stats| stats.strip_prefix("calls="));
    let calls = calls.and_then(|calls| calls.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Submits until one is refused; says how many were not, and why it was.
async fn until_refused(store: &RedisStore, job: impl Fn(usize) -> DelayQueueJob) -> (usize, Error) {
    let refused = async {
        for n in 0.. {
            if let Err(error) = submit(store, job(n)).await {
                return (n, error);
            }
        }
        unreachable!("the loop does not end")
    };
    soon("a refusal", refused).await
}

fn assert_above(error: &Error, share: &str) {
    assert!(matches!(error, Error::Full { .. }), "{error}");
    let said = format!("is above {share} of maxmemory");
    assert!(error.to_string().contains(&said), "{error}");
}

/// As the server has memory left, a store without a watermark still submits.
async fn assert_server_takes(server: &RedisServer, id: &str) {
    let url = server.url() + "?watermark=off";
    let other = RedisStore::connect(&url, options()).await.unwrap();
    accept(&other, job(id)).await;
}

#[tokio::test]
async fn submits_are_refused_before_the_server_is_full_and_the_rest_goes_on() {
    let server = RedisServer::start(Persistence::None, &[]);
    let url = server.url() + "?watermark=0.7";
    let store = RedisStore::connect(&url, options()).await.unwrap();
    let hour = Duration::from_hours(1);
    for name in ["done", "dead", "again"] {
        accept(&store, job(name)).await;
    }
    let held = claim(&store).await.unwrap().tasks;
    for name in ["cancelled", "moved", "changed"] {
        accept(&store, job(name).after(hour)).await;
    }
    for n in 0..300 {
        accept(&store, job(&n.to_string())).await;
    }
    weigh_down(&server, "filler").await;
    fill(&server, 68).await;
    let later = |n| job(&format!("more-{n}")).after(hour);
    let (taken, refused) = until_refused(&store, later).await;
    assert!(taken > 0, "there was room at the beginning");
    assert_above(&refused, "0.7");
    // The buffers of calls, which are freed again, may have made it full.
    fill(&server, 75).await;
    assert_server_takes(&server, "past-the-mark").await;
    let unhealthy = store.check().await.unwrap_err();
    assert_above(&unhealthy, "0.7");
    let locks: Vec<_> = held.into_iter().map(|task| task.lock).collect();
    let extended = store.extend(&whole(), locks.clone(), hour).await;
    assert_eq!(extended.unwrap().len(), 3);
    let ends = locks.into_iter().map(|lock| {
        let (error, succeeded) = ("no".to_owned(), Vec::new());
        let end = match lock.id.as_str() {
            "done" => AttemptEnd::Done,
            "dead" => AttemptEnd::Dead { error, succeeded },
            _ => AttemptEnd::Retry {
                after: hour,
                error,
                succeeded,
            },
        };
        Settlement::new(lock, end)
    });
    store.settle(&whole(), ends.collect()).await.unwrap();
    let _ = store.cancel(&task_type(), &id("cancelled")).await.unwrap();
    let now = delayq_core::When::After(Duration::ZERO);
    let _ = store
        .reschedule(&task_type(), &id("moved"), now)
        .await
        .unwrap();
    let _ = store
        .update(&task_type(), &id("changed"), vec![1])
        .await
        .unwrap();
    let mut drained = 0;
    while drained < 302 {
        let claimed = claim(&store).await.unwrap().tasks;
        let ends = claimed
            .into_iter()
            .map(|task| Settlement::new(task.lock, AttemptEnd::Done));
        let settled = store.settle(&whole(), ends.collect()).await.unwrap();
        drained += settled.len();
    }
    run::<u64>(&mut raw(&server).await, "DEL filler").await;
    until("room again", || async {
        submit(&store, job("new")).await.ok()
    })
    .await;
    store.check().await.unwrap();
}

/// A server above its watermark, and a store on it that knows so.
async fn refusing() -> (RedisServer, Arc<RedisStore>) {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = RedisStore::connect(&server.url(), options()).await.unwrap();
    weigh_down(&server, "filler").await;
    fill(&server, 97).await;
    let (_, refused) = until_refused(&store, |n| job(&n.to_string()).after(HOUR)).await;
    assert_above(&refused, "0.95");
    (server, store)
}

#[tokio::test]
async fn a_store_that_was_idle_looks_again_before_it_refuses() {
    let (server, store) = refusing().await;
    lift(&server).await;
    // As long as a look counts, it is not repeated.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    accept(&store, job("after-a-while")).await;
}

#[tokio::test]
async fn none_is_taken_while_it_is_looked_whether_there_is_room_again() {
    let (server, store) = refusing().await;
    let mut names = (0..).map(|n: u32| format!("more-{n}"));
    let (before, mut questions) = (looks(&server).await, 0);
    let two_more = async {
        // Each question is a look, too.
        while looks(&server).await - before - questions < 3 {
            questions += 1;
            let refused = submit(&store, job(&names.next().unwrap()).after(HOUR)).await;
            assert_above(&refused.unwrap_err(), "0.95");
        }
    };
    soon("two more looks", two_more).await;
}

#[tokio::test]
async fn a_look_costs_no_submit_anything_and_ends_with_them() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = RedisStore::connect(&server.url(), options()).await.unwrap();
    let (before, began) = (looks(&server).await, Instant::now());
    for n in 0..2_000 {
        accept(&store, job(&n.to_string())).await;
    }
    let most = began.elapsed().as_secs() + 1;
    // The question itself is one, too.
    let found = looks(&server).await - before - 1;
    assert!((1..=most).contains(&found), "{found} looks, {most} at most");
    let before = looks(&server).await;
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let idle = looks(&server).await - before - 1;
    assert_eq!(idle, 0, "nobody submits");
}

#[tokio::test]
async fn a_server_that_hides_its_memory_is_asked_once() {
    let server = RedisServer::start(Persistence::None, &[]);
    let rights = redis_user::rights().replacen("+info", "", 1);
    let url = redis_user::add(&server, "app", &rights);
    let store = RedisStore::connect(&url, options()).await.unwrap();
    let began = Instant::now();
    let mut names = (0..).map(|n: u32| n.to_string());
    while began.elapsed() < Duration::from_millis(2_500) {
        accept(&store, job(&names.next().unwrap())).await;
    }
    let stats = info(&server.url(), "commandstats").await.unwrap();
    let refused = stats["cmdstat_info"].contains("rejected_calls=2,");
    assert!(
        refused,
        "by the check, and by one look: {}",
        stats["cmdstat_info"]
    );
}

#[tokio::test]
async fn without_a_watermark_only_the_server_refuses() {
    let server = RedisServer::start(Persistence::None, &[]);
    let url = server.url() + "?watermark=off";
    let store = RedisStore::connect(&url, options()).await.unwrap();
    weigh_down(&server, "filler").await;
    fill(&server, 97).await;
    let before = looks(&server).await;
    for n in 0..100 {
        accept(&store, job(&n.to_string())).await;
    }
    store.check().await.unwrap();
    let found = looks(&server).await - before;
    assert_eq!(found, 2, "that of the check, and the question itself");
}

/// A type for each node, whose tasks lie there.
async fn types(cluster: &ClusterSet) -> Vec<TaskType> {
    let mut types = vec![None; cluster.nodes.len()];
    for n in 0.. {
        let name = format!("type.n{n}");
        let slot = cluster
            .slot_of(&format!("delayq:{{default/{name}}}:due"))
            .await;
        types[cluster.node_of(slot).await] = Some(TaskType::new(&name).unwrap());
        if types.iter().all(Option::is_some) {
            break;
        }
    }
    types.into_iter().flatten().collect()
}

#[tokio::test]
async fn only_tasks_of_a_full_node_are_refused() {
    let layout = ClusterOptions {
        replicas: 0,
        ..ClusterOptions::default()
    };
    let cluster = ClusterSet::start(layout).await;
    let types = types(&cluster).await;
    let url = cluster.url();
    let store: Arc<RedisStore> = RedisStore::connect(&url, options()).await.unwrap();
    let all = |n: usize| {
        let jobs = types.iter().map(move |task_type| {
            let job = DelayQueueJob::raw(task_type.as_str(), "message");
            task(job.id(n.to_string()).after(Duration::from_hours(1)))
        });
        jobs.collect::<Vec<_>>()
    };
    let outcomes = store.submit(all(0)).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let here = format!("filler{{default/{}}}", types[1]);
    weigh_down(&cluster.nodes[1], &here).await;
    fill(&cluster.nodes[1], 97).await;
    let mut n = 0;
    let outcomes = until("a refusal", || {
        n += 1;
        let outcomes = store.submit(all(n));
        async move {
            let outcomes = outcomes.await;
            // On a busy machine a node may be late, which is no refusal.
            let is_full = |outcome: &Result<_, _>| matches!(outcome, Err(Error::Full { .. }));
            let is_late = outcomes.iter().any(|o| o.is_err() && !is_full(o));
            (outcomes.iter().any(is_full) && !is_late).then_some(outcomes)
        }
    })
    .await;
    let place = format!("127.0.0.1:{}", cluster.nodes[1].port());
    let [_, Err(refused), _] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    assert_above(refused, "0.95");
    assert!(refused.to_string().contains(&place), "{refused}");
    for node in [0, 2] {
        let taken = &outcomes[node];
        assert!(
            matches!(taken, Ok(SubmitOutcome::Accepted { .. })),
            "{taken:?}"
        );
    }
    assert_above(&store.check().await.unwrap_err(), "0.95");
    lift(&cluster.nodes[1]).await;
    until("room again", || {
        n += 1;
        let outcomes = store.submit(all(n));
        async move { outcomes.await.iter().all(Result::is_ok).then_some(()) }
    })
    .await;
}
