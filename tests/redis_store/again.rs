//! Requests to run again beside processes of an earlier release, which know nothing of them.

use delayq_core::store::SubmitOutcome;
use delayq_core::{Clock, Operate, Store, SystemClock, TaskState};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::aio::MultiplexedConnection;

use super::{accept, claim, id, job, key, open, raw, run, state, submit, task_type};

/// Has a request wait for each of three running tasks, and ends these as an earlier release does:
/// done, cancelled and dead.
async fn ended_by_an_earlier_release(server: &RedisServer, store: &RedisStore) {
    for name in ["done", "cancelled", "dead"] {
        accept(store, job(name)).await;
    }
    let tasks = claim(store).await.unwrap().tasks;
    let mut connection = raw(server).await;
    for task in tasks {
        let name = task.lock.id.as_str();
        let again = job(name).header("n", "2").again_if_running();
        let outcome = submit(store, again).await;
        assert!(matches!(outcome, Ok(SubmitOutcome::RunsAgain { .. })));
        end(&mut connection, name, task.lock.fence).await;
    }
}

async fn end(connection: &mut MultiplexedConnection, name: &str, fence: u64) {
    let now = SystemClock.now().as_millis();
    let mut lines = vec![
        format!("ZREM {} {name}", key("running")),
        format!("HDEL {} {name}", key("locks")),
    ];
    if name == "dead" {
        lines.push(format!("ZADD {} {now} {name}", key("dead")));
    } else {
        lines.push(format!("HDEL {} {name}", key("tasks")));
        let mut set = redis::cmd("HSET");
        let ended = format!("{}{now} {fence} 1 0", &name[..1]);
        set.arg(key("gone")).arg(name).arg(ended);
        set.query_async::<u64>(connection).await.unwrap();
    }
    for line in lines {
        assert_eq!(run::<u64>(connection, &line).await, 1, "{line}");
    }
}

async fn are_scheduled(store: &RedisStore) {
    assert_eq!(state(store, "cancelled").await, Some(TaskState::Cancelled));
    for name in ["dead", "done"] {
        let info = store.find(&task_type(), &id(name)).await.unwrap().unwrap();
        assert_eq!(info.state, TaskState::Scheduled, "{name}");
        assert_eq!((info.attempt, &info.headers["n"][..]), (0, "2"));
        assert_eq!(info.again_at, None);
    }
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
}

#[tokio::test]
async fn a_claim_that_finds_nothing_adopts_what_an_earlier_release_left() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    ended_by_an_earlier_release(&server, &store).await;
    let idle = claim(&store).await.unwrap();
    assert_eq!(
        (idle.tasks, idle.next_in),
        (vec![], Some(std::time::Duration::ZERO))
    );
    are_scheduled(&store).await;
    assert_eq!(claim(&store).await.unwrap().tasks.len(), 2);
}

#[tokio::test]
async fn an_audit_finds_and_adopts_what_an_earlier_release_left() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    ended_by_an_earlier_release(&server, &store).await;
    for repair in [false, true] {
        let report = store.audit(&task_type(), repair).await.unwrap();
        let mut found: Vec<_> = report
            .problems
            .iter()
            .map(|p| (&*p.id, p.repaired))
            .collect();
        found.sort_unstable();
        let expected = ["cancelled", "dead", "done"].map(|name| (name, repair));
        assert_eq!(found, expected, "{:?}", report.problems);
    }
    are_scheduled(&store).await;
}

/// More requests than one claim looks at, all of them but one beside tasks that run.
#[tokio::test]
async fn a_request_left_behind_is_found_among_many_that_are_not() {
    const MANY: usize = 200;
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    for n in 0..MANY {
        accept(&store, job(&format!("done{n}"))).await;
    }
    let mut locks = Vec::new();
    while locks.len() < MANY {
        let tasks = claim(&store).await.unwrap().tasks;
        locks.extend(tasks.into_iter().map(|task| task.lock));
    }
    for lock in &locks {
        let again = job(lock.id.as_str()).again_if_running();
        let outcome = submit(&store, again).await;
        assert!(matches!(outcome, Ok(SubmitOutcome::RunsAgain { .. })));
    }
    // Wherever it lies in the table: each of them in turn.
    let mut connection = raw(&server).await;
    for lock in locks.iter().take(5) {
        end(&mut connection, lock.id.as_str(), lock.fence).await;
        let mut claims = 0;
        while claim(&store).await.unwrap().tasks.is_empty() {
            claims += 1;
            assert!(claims < 2 * MANY, "{} is never found", lock.id);
        }
    }
}
