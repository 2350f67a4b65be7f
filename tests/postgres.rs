//! What only a store on PostgreSQL can get wrong: dead rows that a held transaction keeps, plans
//! without statistics, a server that is killed or full.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

use std::sync::Arc;

use delayq_core::job::{DelayQueueJob, Limits};
use delayq_core::operate::Operate;
use delayq_core::store::{AttemptEnd, ClaimRequest, SettleOutcome, Settlement, StoreOptions};
use delayq_core::{
    Bucket, Clock, Error, NewTask, Store, SystemClock, TaskState, TaskType, Timestamp, millis,
    minutes,
};
use delayq_postgres::PostgresStore;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::sql_session::SqlSession;

const TYPE: &str = "order.cancel";

fn task_type() -> TaskType {
    TaskType::new(TYPE).unwrap()
}

fn bucket() -> Bucket {
    Bucket::whole(task_type())
}

fn task(id: usize) -> NewTask {
    let job = DelayQueueJob::raw(TYPE, "unpaid").id(id.to_string());
    job.into_task(&Limits::default(), Timestamp::ZERO).unwrap()
}

async fn open(server: &PostgresServer) -> Arc<PostgresStore> {
    let options = StoreOptions::default();
    PostgresStore::connect(&server.url(), options)
        .await
        .unwrap()
}

/// Submits tasks that are due now.
async fn fill(store: &PostgresStore, ids: std::ops::Range<usize>) {
    let outcomes = store.submit(ids.map(task).collect()).await;
    assert!(outcomes.iter().all(Result::is_ok));
}

/// Claims and settles so many full batches.
async fn drain(store: &PostgresStore, batches: usize) {
    for _ in 0..batches {
        let request = ClaimRequest::new(128, minutes(5), SystemClock.now());
        let claimed = store.claim(&bucket(), &request).await.unwrap();
        assert_eq!(claimed.tasks.len(), 128);
        let done = |task: delayq_core::ClaimedTask| Settlement::new(task.lock, AttemptEnd::Done);
        let ends = claimed.tasks.into_iter().map(done).collect();
        let settled = store.settle(&bucket(), ends).await.unwrap();
        assert!(settled.iter().all(|one| *one == SettleOutcome::Settled));
    }
}

/// Pages that statements have looked at, in tables and indexes of the store. A connection tells its
/// share at its end.
fn pages(server: &PostgresServer) -> i64 {
    let sum = "SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint \
               FROM pg_statio_user_tables WHERE schemaname = 'delayq'";
    server.sql("postgres", sum).parse().unwrap()
}

/// The pages of draining so many batches over connections of their own.
async fn pages_of(server: &PostgresServer, batches: usize) -> i64 {
    let store = open(server).await;
    let before = pages(server);
    drain(&store, batches).await;
    store.close().await;
    drop(store);
    // Its connections have ended once nobody but psql is there.
    let others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'delayq'";
    delayq_tests::rig::until("the end of its connections", async || {
        (server.sql("postgres", others) == "0").then_some(())
    })
    .await;
    pages(server) - before
}

/// Any transaction that stays open keeps the dead rows of all later claims, and each claim would go
/// through all of them.
#[tokio::test]
async fn claims_stay_flat_while_a_snapshot_is_held() {
    let server = PostgresServer::start(&["autovacuum=off", "fsync=off", "full_page_writes=off"]);
    let store = open(&server).await;
    // Due in another order than they are stored, so that each dead row is on a page of its own.
    let scattered = |id: usize| {
        let wait = millis(u64::try_from(id * 7_919 % 1_000).unwrap());
        let job = DelayQueueJob::raw(TYPE, "unpaid").id(id.to_string());
        job.after(wait)
            .into_task(&Limits::default(), Timestamp::ZERO)
            .unwrap()
    };
    let outcomes = store.submit((0..20_480).map(scattered).collect()).await;
    assert!(outcomes.iter().all(Result::is_ok));
    delayq_tests::rig::until("the due time of the last task", async || {
        let stats = store.stats(&task_type()).await.unwrap();
        (stats.due == 20_480).then_some(())
    })
    .await;
    let mut held = SqlSession::open(&server, "postgres");
    held.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM delayq.tasks;");
    store.close().await;
    drop(store);
    let first = pages_of(&server, 20).await;
    let store = open(&server).await;
    drain(&store, 110).await;
    store.close().await;
    drop(store);
    let last = pages_of(&server, 20).await;
    assert!(
        last < 3 * first,
        "{last} pages for the last batches, {first} for the first"
    );
    assert_eq!(held.run("SELECT count(*) FROM delayq.tasks;"), "20480");
}

/// A table that has just been filled has no statistics, and the planner takes it for empty.
#[tokio::test]
async fn plans_do_not_depend_on_statistics() {
    let server = PostgresServer::start(&["autovacuum=off", "fsync=off", "full_page_writes=off"]);
    let store = open(&server).await;
    server.sql("postgres", "ANALYZE delayq.tasks");
    fill(&store, 0..60_000).await;
    drain(&store, 1).await;
    let mut session = SqlSession::open(&server, "postgres");
    session.run("SET search_path = delayq;");
    let mut explained = |call: &str| {
        // The first call of a session reads the catalogue, too.
        session.run(&format!("{call};"));
        let text = session.run(&format!("EXPLAIN (ANALYZE, BUFFERS) {call};"));
        let hits = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("Buffers: shared hit="));
        let hits = hits.unwrap_or_else(|| panic!("{text}"));
        let digits: String = hits.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap()
    };
    let nothing_due =
        "SELECT * FROM claim_v1('default', 'order.cancel', 128, 1000, NULL, false, 1, 0, 0)";
    let many_lost = "SELECT * FROM done_v1('default', 'order.cancel', \
                     ARRAY(SELECT n::text FROM generate_series(9001, 9128) n), \
                     array_fill(1::bigint, ARRAY[128]))";
    let one_cancelled = "SELECT * FROM cancel_v1('default', 'order.cancel', 1000, ARRAY['29999'])";
    for (call, most) in [(nothing_due, 100), (many_lost, 800), (one_cancelled, 100)] {
        let pages = explained(call);
        assert!(pages < most, "{pages} pages: {call}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_killed_server_has_what_it_acknowledged_and_the_store_goes_on() {
    let mut server = PostgresServer::start(&[]);
    let store = open(&server).await;
    fill(&store, 0..256).await;
    drain(&store, 1).await;
    server.kill();
    let refused = store.submit(vec![task(1_000)]).await.remove(0).unwrap_err();
    let is_told = matches!(
        refused,
        Error::Unavailable { .. } | Error::Indeterminate { .. }
    );
    assert!(is_told, "{refused}");
    server.restart();
    drain(&store, 1).await;
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!(
        (stats.scheduled, stats.running, stats.totals.done),
        (0, 0, 256)
    );
    let found = store
        .find(&task_type(), &task(0).id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.state, TaskState::Done);
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
}

#[tokio::test]
async fn a_server_that_cannot_keep_the_promises_is_refused_with_the_line_to_change() {
    let server = PostgresServer::start(&[]);
    let refused = async |setting: &str| {
        server.sql("postgres", &format!("ALTER ROLE delayq SET {setting}"));
        let opened = PostgresStore::connect(&server.url(), StoreOptions::default()).await;
        server.sql(
            "postgres",
            "BEGIN READ WRITE; ALTER ROLE delayq RESET ALL; COMMIT",
        );
        opened.unwrap_err().to_string()
    };
    for (setting, line) in [
        (
            "default_transaction_isolation = 'serializable'",
            "ALTER ROLE delayq SET default_transaction_isolation = 'read committed'",
        ),
        (
            "synchronous_commit = off",
            "ALTER ROLE delayq SET synchronous_commit = on",
        ),
        ("default_transaction_read_only = on", "takes no writes"),
    ] {
        let told = refused(setting).await;
        assert!(told.contains(line), "{setting}: {told}");
    }
    let store = open(&server).await;
    server.sql(
        "postgres",
        "UPDATE delayq.meta SET min_version = 99, version = 99",
    );
    let newer = PostgresStore::connect(&server.url(), StoreOptions::default()).await;
    let newer = newer.unwrap_err();
    assert!(
        matches!(newer, Error::Incompatible { found: 99, .. }),
        "{newer}"
    );
    store.close().await;
}
