//! What only a store on PostgreSQL can get wrong: dead rows that a held transaction keeps, plans
//! without statistics, a server that is killed or full.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

use std::sync::Arc;
use std::time::Duration;

use delayq_core::job::{DelayQueueJob, Limits};
use delayq_core::operate::Operate;
use delayq_core::store::{
    AttemptEnd, CancelOutcome, ClaimRequest, SettleOutcome, Settlement, StoreOptions,
    SubmitOutcome, Wakeup,
};
use delayq_core::{
    Bucket, Clock, Error, FleetLimits, NewTask, Store, SystemClock, TaskState, TaskType, Timestamp,
    millis, minutes,
};
use delayq_postgres::{PostgresConfig, PostgresStore};
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::rig::{soon, until};
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
    drain_under(store, batches, FleetLimits::NONE).await;
}

/// The same under limits of the fleet.
async fn drain_under(store: &PostgresStore, batches: usize, fleet: FleetLimits) {
    for _ in 0..batches {
        let mut request = ClaimRequest::new(128, minutes(5), SystemClock.now());
        request.fleet = fleet;
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
async fn pages_of(server: &PostgresServer, batches: usize, fleet: FleetLimits) -> i64 {
    let store = open(server).await;
    let before = pages(server);
    drain_under(&store, batches, fleet).await;
    store.close().await;
    drop(store);
    no_connections(server).await;
    pages(server) - before
}

/// Waits until nobody but psql is connected.
async fn no_connections(server: &PostgresServer) {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'delayq'";
    until("the end of its connections", async || {
        (server.sql("postgres", others) == "0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn claims_stay_flat_while_a_snapshot_is_held() {
    stay_flat(FleetLimits::NONE).await;
}

/// They are claimed in a transaction.
#[tokio::test]
async fn claims_of_a_limited_type_stay_flat_while_a_snapshot_is_held() {
    let concurrency = Some(1_000);
    stay_flat(FleetLimits {
        concurrency,
        rate: None,
    })
    .await;
}

/// Any transaction that stays open keeps the dead rows of all later claims, and each claim would go
/// through all of them.
async fn stay_flat(fleet: FleetLimits) {
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
    until("the due time of the last task", async || {
        let stats = store.stats(&task_type()).await.unwrap();
        (stats.due == 20_480).then_some(())
    })
    .await;
    let mut held = SqlSession::open(&server, "postgres");
    held.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM delayq.tasks;");
    store.close().await;
    drop(store);
    let first = pages_of(&server, 20, fleet).await;
    let store = open(&server).await;
    drain_under(&store, 110, fleet).await;
    store.close().await;
    drop(store);
    let last = pages_of(&server, 20, fleet).await;
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

/// A submit that waits for a standby which nobody is, and how the server ends the wait.
async fn end_the_wait(server: &PostgresServer, store: &Arc<PostgresStore>, how: &str) -> Error {
    let own = Arc::clone(store);
    let waiting = tokio::spawn(async move { own.submit(vec![task(1)]).await.remove(0) });
    let end = format!("SELECT {how}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    until("the wait", async || {
        (server.sql("postgres", &end) == "t").then_some(())
    })
    .await;
    waiting.await.unwrap().unwrap_err()
}

/// A write whose wait for a standby was ended is on one machine: neither done nor refused.
#[tokio::test]
async fn a_wait_for_a_standby_that_is_ended_leaves_doubt() {
    let server = PostgresServer::start(&["fsync=off"]);
    let store = open(&server).await;
    fill(&store, 0..1).await;
    server.configure("synchronous_standby_names = 'nobody'");
    for how in ["pg_cancel_backend", "pg_terminate_backend"] {
        let told = end_the_wait(&server, &store, how).await;
        assert!(matches!(told, Error::Indeterminate { .. }), "{how}: {told}");
    }
    server.configure("synchronous_standby_names = ''");
    let again = store.submit(vec![task(1)]).await.remove(0).unwrap();
    assert!(matches!(again, SubmitOutcome::AlreadyExists { .. }));
    store.close().await;
}

#[tokio::test]
async fn a_close_lets_calls_end_and_leaves_no_connection() {
    let server = PostgresServer::start(&["fsync=off"]);
    let store = open(&server).await;
    fill(&store, 0..1).await;
    let mut held = SqlSession::open(&server, "postgres");
    held.run("BEGIN; UPDATE delayq.tasks SET delay = delay;");
    let own = Arc::clone(&store);
    let cancelled = tokio::spawn(async move { own.cancel(&task_type(), &task(0).id).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'";
    until("the wait for the row", async || {
        (server.sql("postgres", waits) == "1").then_some(())
    })
    .await;
    let own = Arc::clone(&store);
    let closed = tokio::spawn(async move { own.close().await });
    until("the refusal of another call", async || {
        let refused = store.find(&task_type(), &task(0).id).await;
        matches!(refused, Err(Error::Closed(_))).then_some(())
    })
    .await;
    assert!(!closed.is_finished());
    held.run("COMMIT;");
    assert_eq!(cancelled.await.unwrap().unwrap(), CancelOutcome::Cancelled);
    closed.await.unwrap();
    // The store is still there.
    no_connections(&server).await;
}

/// Others learn of a task although its sender went away before the answer.
#[tokio::test]
async fn a_caller_that_goes_away_owes_no_wake_up() {
    let server = PostgresServer::start(&["fsync=off"]);
    let store = open(&server).await;
    let mut wakeups = store.wakeups();
    // There is no answer before the caller has gone.
    let mut held = SqlSession::open(&server, "postgres");
    held.run("BEGIN; LOCK TABLE delayq.tasks IN EXCLUSIVE MODE;");
    let gone = tokio::time::timeout(Duration::ZERO, store.submit(vec![task(0)])).await;
    assert!(gone.is_err());
    held.run("COMMIT;");
    let is_meant = async { while wakeups.next().await.unwrap() != Wakeup::Type(task_type()) {} };
    soon("a wake-up", is_meant).await;
    store.close().await;
}

/// A program that sends and ends has woken the handlers of the others.
#[tokio::test]
async fn a_close_sends_the_wake_ups_that_are_due() {
    let server = PostgresServer::start(&["fsync=off"]);
    let store = open(&server).await;
    let (mut wakeups, last) = (store.wakeups(), TaskType::new("order.last").unwrap());
    // It hears others as soon as it has said so.
    soon("the first wake-up", wakeups.next()).await.unwrap();
    let sender = open(&server).await;
    fill(&sender, 0..1).await;
    let job = DelayQueueJob::raw(last.as_str(), "unpaid");
    let task = job.into_task(&Limits::default(), Timestamp::ZERO).unwrap();
    assert!(sender.submit(vec![task]).await.iter().all(Result::is_ok));
    sender.close().await;
    let is_meant = async { while wakeups.next().await.unwrap() != Wakeup::Type(last.clone()) {} };
    soon("the last wake-up", is_meant).await;
    store.close().await;
}

/// A transaction of the application that keeps one task holds up the settlement of no other one.
#[tokio::test]
async fn a_task_that_is_kept_locked_holds_up_no_other_settlement() {
    let server = PostgresServer::start(&["fsync=off"]);
    let store = open(&server).await;
    fill(&store, 0..4).await;
    let request = ClaimRequest::new(4, minutes(1), SystemClock.now());
    let claimed = store.claim(&bucket(), &request).await.unwrap().tasks;
    let ends = |end: AttemptEnd| {
        let settle = |task: &delayq_core::ClaimedTask| (task.lock.clone(), end.clone());
        claimed.iter().map(settle).collect::<Vec<_>>()
    };
    let mut held = SqlSession::open(&server, "postgres");
    held.run("BEGIN; SELECT delayq.cancel('order.cancel', '1');");
    let failed = AttemptEnd::Retry {
        after: minutes(1),
        error: "the bank is closed".to_owned(),
        succeeded: Vec::new(),
    };
    let [done, failed] = [ends(AttemptEnd::Done), ends(failed)].map(|ends| {
        let settlements = ends
            .into_iter()
            .map(|(lock, end)| Settlement::new(lock, end));
        settlements.collect::<Vec<_>>()
    });
    let mut first = done.clone();
    first.truncate(2);
    first.extend(failed.into_iter().skip(2).take(1));
    let busy_and_failed = store.settle(&bucket(), first).await.unwrap();
    let (settled, busy, lost) = (
        SettleOutcome::Settled,
        SettleOutcome::Busy,
        SettleOutcome::LockLost,
    );
    assert_eq!(busy_and_failed, [settled, busy, settled]);
    let all = store.settle(&bucket(), done.clone()).await.unwrap();
    assert_eq!(all, [settled, busy, lost, settled]);
    held.run("ROLLBACK;");
    let again = store.settle(&bucket(), done).await.unwrap();
    assert_eq!(again, [settled, settled, lost, settled]);
    store.close().await;
}

/// Whoever keeps dead rows is named, with the line that ends it.
#[tokio::test]
async fn holders_of_snapshots_are_named() {
    let server = PostgresServer::start(&["fsync=off", "max_prepared_transactions=2"]);
    let mut config = PostgresConfig::parse(&server.url()).unwrap();
    assert_eq!(config.held_for, minutes(10));
    config.held_for = millis(100);
    let store = PostgresStore::connect_with(config, StoreOptions::default()).await;
    let store = store.unwrap();
    assert_eq!(store.concerns().await.unwrap(), []);
    let mut held = SqlSession::open(&server, "postgres");
    held.run("BEGIN; CREATE TABLE a (); PREPARE TRANSACTION 'left';");
    held.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;");
    let pid = held.run("SELECT pg_backend_pid();");
    let named = until("both holders", async || {
        let found = store.concerns().await.unwrap();
        (found.len() == 2).then_some(found)
    })
    .await;
    let text = format!("{named:?}");
    for part in [
        format!("pid {pid} (psql) holds a snapshot since 20"),
        format!("pg_terminate_backend({pid})"),
        "ROLLBACK PREPARED 'left'".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    // What is asked for ends it.
    server.sql("postgres", &format!("SELECT pg_terminate_backend({pid})"));
    server.sql("postgres", "ROLLBACK PREPARED 'left'");
    until("the end of both", async || {
        let found = store.concerns().await.unwrap();
        found.is_empty().then_some(())
    })
    .await;
    store.close().await;
}

/// Each would add the same difference to the counts.
#[tokio::test]
async fn two_repairs_at_once_mend_the_counts_once() {
    let server = PostgresServer::start(&["fsync=off"]);
    let store = open(&server).await;
    fill(&store, 0..600).await;
    server.sql(
        "postgres",
        "UPDATE delayq.counts SET scheduled = scheduled + 5",
    );
    // Both have counted before either can write.
    let mut held = SqlSession::open(&server, "postgres");
    held.run("BEGIN; LOCK TABLE delayq.ledger IN SHARE MODE;");
    let repair = || {
        let own = Arc::clone(&store);
        tokio::spawn(async move { own.audit(&task_type(), true).await.unwrap() })
    };
    let both = (repair(), repair());
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND (query LIKE 'INSERT INTO delayq.ledger%' OR query LIKE 'LOCK TABLE%')";
    until("the wait of both", async || {
        (server.sql("postgres", waits) == "2").then_some(())
    })
    .await;
    held.run("COMMIT;");
    let (one, other) = (both.0.await.unwrap(), both.1.await.unwrap());
    assert_eq!(one.problems.len() + other.problems.len(), 1);
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!((report.checked, report.problems), (600, vec![]));
    store.close().await;
}

/// The server itself looks once a minute, and here never.
#[tokio::test]
async fn many_dead_rows_are_cleaned_up() {
    let server = PostgresServer::start(&["autovacuum=off", "fsync=off"]);
    let store = open(&server).await;
    fill(&store, 0..11_000).await;
    server.sql("postgres", "UPDATE delayq.tasks SET delay = delay");
    server.sql("postgres", "UPDATE delayq.tasks SET delay = delay");
    let cleaned = "SELECT vacuum_count > 0 AND n_dead_tup < 20000 FROM pg_stat_user_tables \
                   WHERE schemaname = 'delayq' AND relname = 'tasks'";
    until("the vacuum", async || {
        (server.sql("postgres", cleaned) == "t").then_some(())
    })
    .await;
    store.close().await;
}
