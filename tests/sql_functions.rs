//! The functions that an application calls in its own transactions on PostgreSQL, the groups of
//! roles, and migrations.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

use std::sync::Arc;
use std::time::Duration;

use delayq_core::job::{DelayQueueJob, Limits};
use delayq_core::operate::Operate;
use delayq_core::store::{AttemptEnd, ClaimRequest, SettleOutcome, Settlement, StoreOptions};
use delayq_core::{
    Bucket, Clock, Error, Store, SystemClock, TaskId, TaskState, TaskType, Timestamp, minutes,
};
use delayq_postgres::{PostgresConfig, PostgresMigration, PostgresStore};
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::sql_session::SqlSession;

const TYPE: &str = "order.cancel";

/// Calls that are not well formed, and what they are told.
const REFUSED: [(&str, &str); 14] = [
    (
        r#"send('t', 'i', 'm', '{"headers": {"ü": "x"}}')"#,
        "visible ASCII",
    ),
    (
        "send('t', 'i', 'm', '{\"dely\": 1}')",
        "DQ001 delayq.send: unknown option \"dely\"",
    ),
    ("send('t', 'i', 'm', '{\"delay\": 30}')", "\"30 minutes\""),
    (
        "send('t', 'i', 'm', '{\"delay\": \"1 month\"}')",
        "length of a month",
    ),
    (
        "send('t', 'i', 'm', '{\"at_ms\": 1700000000}')",
        "were seconds given?",
    ),
    (
        "send('t', 'i', 'm', '{\"at\": \"2026-12-24\"}')",
        "with its zone",
    ),
    (
        "send('t', 'i', NULL::text)",
        "DQ002 delayq.send: the message is NULL",
    ),
    (
        "send('t t', 'i', '')",
        "DQ003 delayq.send: 't t' is no task type",
    ),
    ("send('t', 'i', repeat('x', 1048577))", "DQ004"),
    ("send_all('[{\"type\": \"t\"}]')", "NULL is no task id"),
    ("reschedule('t', 'i', '{}')", "0 ms is now"),
    (
        "find('t', 'i', '{\"nix\": 1}')",
        "this version knows: namespace",
    ),
    (
        r#"within_v1('{"call": "reschedule", "type": "t", "ids": ["i"]}')"#,
        "a delay or a time",
    ),
    (
        r#"within_v1('{"call": "reschedule", "type": "t", "ids": ["i"], "at_ms": 1e18}')"#,
        "year 9999",
    ),
];

fn task_type() -> TaskType {
    TaskType::new(TYPE).unwrap()
}

async fn open(url: &str) -> Result<Arc<PostgresStore>, Error> {
    PostgresStore::connect(url, StoreOptions::default()).await
}

/// A database of its own on the shared server, with the schema.
async fn shop(name: &str) -> (&'static PostgresServer, Arc<PostgresStore>) {
    let server = PostgresServer::shared();
    server.create_database(name);
    let store = open(&server.url_of(name)).await.unwrap();
    server.sql(name, "CREATE TABLE orders (number int PRIMARY KEY)");
    (server, store)
}

/// The state of a task.
async fn state(store: &PostgresStore, id: &str) -> Option<TaskState> {
    let id = TaskId::new(id).unwrap();
    let found = store.find(&task_type(), &id).await.unwrap();
    found.map(|task| task.state)
}

/// Claims what is due.
async fn claim(store: &PostgresStore) -> Vec<delayq_core::ClaimedTask> {
    let request = ClaimRequest::new(128, minutes(5), SystemClock.now());
    let bucket = Bucket::whole(task_type());
    store.claim(&bucket, &request).await.unwrap().tasks
}

/// Sends `number` as an order with its task.
fn order(number: u32) -> String {
    format!(
        "INSERT INTO orders VALUES ({number}); \
         SELECT outcome FROM delayq.send('order.cancel', 'o-{number}', '{number}');"
    )
}

#[tokio::test]
async fn a_task_shares_the_fate_of_the_transaction() {
    let (server, store) = shop("fate").await;
    let mut session = SqlSession::open(server, "fate");
    assert_eq!(session.run(&format!("BEGIN; {}", order(1))), "accepted");
    assert_eq!(state(&store, "o-1").await, None, "it is not committed yet");
    session.run("ROLLBACK;");
    assert_eq!(state(&store, "o-1").await, None);

    // A part of a transaction.
    session.run("BEGIN; SAVEPOINT part;");
    session.run(&order(2));
    session.run("ROLLBACK TO part;");
    session.run(&order(3));
    // A refusal leaves the transaction as it is.
    let taken = "SELECT outcome, state FROM delayq.send('order.cancel', 'o-3', 'another');";
    assert_eq!(session.run(taken), "conflict|scheduled");
    session.run("COMMIT;");
    assert_eq!(state(&store, "o-2").await, None);
    assert_eq!(state(&store, "o-3").await, Some(TaskState::Scheduled));

    session.run("BEGIN ISOLATION LEVEL SERIALIZABLE;");
    session.run(&order(4));
    session.run("COMMIT;");
    session.run("BEGIN; SELECT delayq.cancel('order.cancel', 'o-4'); ROLLBACK;");
    assert_eq!(state(&store, "o-4").await, Some(TaskState::Scheduled));
    session.run("SELECT delayq.cancel('order.cancel', 'o-4');");
    assert_eq!(state(&store, "o-4").await, Some(TaskState::Cancelled));

    // A trigger, from which the application knows nothing.
    server.sql(
        "fate",
        "CREATE FUNCTION remind() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         PERFORM delayq.send('order.cancel', 't-' || NEW.number, to_jsonb(NEW)); RETURN NEW; END $$; \
         CREATE TRIGGER remind AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION remind()",
    );
    server.sql("fate", "INSERT INTO orders VALUES (5)");
    let claimed = claim(&store).await;
    let messages: Vec<_> = claimed
        .iter()
        .map(|task| (task.lock.id.as_str(), task.message.as_slice()))
        .collect();
    assert_eq!(
        messages,
        [("o-3", &b"3"[..]), ("t-5", &br#"{"number": 5}"#[..])]
    );
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
    store.close().await;
}

/// Two phases: the transaction outlives its session, and holds its locks meanwhile.
#[tokio::test]
async fn a_prepared_transaction_sends_once_it_commits() {
    let server = PostgresServer::start(&["max_prepared_transactions=4", "fsync=off"]);
    let store = open(&server.url()).await.unwrap();
    server.sql("postgres", "CREATE TABLE orders (number int PRIMARY KEY)");
    let both = format!("BEGIN; {} PREPARE TRANSACTION 'two'", order(1));
    server.sql("postgres", &both);
    assert_eq!(claim(&store).await.len(), 0);
    server.sql("postgres", "COMMIT PREPARED 'two'");
    // A claim without floors, which is made once a second, finds what was committed late.
    let found =
        delayq_tests::rig::until("the claim of the task", async || claim(&store).await.pop());
    assert_eq!(found.await.lock.id.as_str(), "o-1");
    store.close().await;
}

/// SQL and Rust have the same form of a task: it is undamaged, and equal to the same job.
#[tokio::test]
async fn sql_and_rust_write_the_same_task() {
    let (server, store) = shop("same").await;
    let send = r#"SELECT outcome FROM delayq.send('order.cancel', 'a', 'grüße', '{"delay": "1500 ms",
        "expires_after": "1 day", "group": "tenant 7", "headers": {"u": "ü"}}')"#;
    assert_eq!(server.sql("same", send), "accepted");
    let job = DelayQueueJob::raw(TYPE, "grüße")
        .id("a")
        .after(Duration::from_millis(1_500))
        .expires_after(Duration::from_hours(24))
        .header("u", "ü")
        .group("tenant 7");
    let task = job.into_task(&Limits::default(), Timestamp::ZERO).unwrap();
    let again = store.submit(vec![task]).await.remove(0).unwrap();
    let exists = delayq_core::store::SubmitOutcome::AlreadyExists {
        state: TaskState::Scheduled,
    };
    assert_eq!(again, exists);
    store.close().await;
}

#[tokio::test]
async fn a_call_that_is_not_well_formed_is_told_what_to_write() {
    let (server, store) = shop("refused").await;
    server.sql(
        "refused",
        "CREATE FUNCTION told(text) RETURNS text LANGUAGE plpgsql AS $f$ \
         DECLARE hint text; BEGIN EXECUTE $1; RETURN 'no error'; EXCEPTION WHEN OTHERS THEN \
         GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT; \
         RETURN SQLSTATE || ' ' || SQLERRM || ' / ' || hint; END $f$",
    );
    for (call, told) in REFUSED {
        let said = server.sql(
            "refused",
            &format!("SELECT told($t$SELECT delayq.{call}$t$)"),
        );
        assert!(said.contains(told), "{call}: {said}");
    }
    store.close().await;
}

/// A settlement in a transaction waits for a cancel that is under way, and decides by what it left.
#[tokio::test]
async fn a_settlement_that_meets_a_cancel_ends_the_attempt_once() {
    let (server, store) = shop("races").await;
    server.sql("races", &order(1));
    let claimed = claim(&store).await;
    server.sql(
        "races",
        "SELECT delayq.send('order.cancel', 'o-1', 'again', '{\"again_if_running\": true}')",
    );
    let settle = |fence: &str| {
        format!(
            "SELECT delayq.done_within_v1('{{\"type\": \"order.cancel\", \"id\": \"o-1\"{fence}}}')\
             ::json -> 'outcomes' -> 0 ->> 'outcome';"
        )
    };
    // Without a fence nothing is settled, whatever the task does.
    assert_eq!(server.sql("races", &settle("")), "lock_lost");
    let mut cancels = SqlSession::open(server, "races");
    cancels.run("BEGIN; SELECT delayq.cancel('order.cancel', 'o-1');");
    let fence = format!(", \"fence\": {}", claimed[0].lock.fence);
    let settling = std::thread::spawn(move || server.sql("races", &settle(&fence)));
    delayq_tests::rig::until("the settlement waits", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'races' \
                       AND wait_event_type = 'Lock'";
        (server.sql("races", waiting) == "1").then_some(())
    })
    .await;
    cancels.run("COMMIT;");
    assert_eq!(settling.join().unwrap(), "done");
    assert_eq!(state(&store, "o-1").await, Some(TaskState::Done));
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
    store.close().await;
}

/// The attempt ends with the transaction of the worker, and not without it.
#[tokio::test]
async fn an_attempt_is_done_with_the_transaction_or_not_at_all() {
    let (server, store) = shop("done").await;
    server.sql("done", &order(1));
    server.sql("done", &order(2));
    let claimed = claim(&store).await;
    let settle = |id: &str, fence: u64| {
        format!(
            "SELECT delayq.done_within_v1('{{\"type\": \"order.cancel\", \
             \"id\": \"{id}\", \"fence\": {fence}}}')::json -> 'outcomes' -> 0 ->> 'outcome';"
        )
    };
    let bucket = Bucket::whole(task_type());
    let lock = claimed[0].lock.clone();
    let mut session = SqlSession::open(server, "done");
    let write = "UPDATE orders SET number = -1 WHERE number = 1;";
    let mine = settle("o-1", lock.fence);
    assert_eq!(session.run(&format!("BEGIN; {write} {mine}")), "done");
    // While it is open, the lock of the task stays as it is, and others are extended.
    let locks = claimed.iter().map(|task| task.lock.clone()).collect();
    let extended = store.extend(&bucket, locks, minutes(10)).await.unwrap();
    let until = |n: usize| match extended[n] {
        delayq_core::store::ExtendOutcome::Extended(until) => until,
        other => panic!("{other:?}"),
    };
    assert_eq!(until(0), claimed[0].lock_until);
    assert!(until(1) > claimed[1].lock_until);
    session.run("ROLLBACK;");
    assert_eq!(state(&store, "o-1").await, Some(TaskState::Running));
    assert_eq!(session.run(&format!("BEGIN; {write} {mine}")), "done");
    session.run("COMMIT;");
    assert_eq!(session.run(&mine), "settled");
    assert_eq!(session.run(&settle("o-1", lock.fence + 1)), "lock_lost");
    assert_eq!(state(&store, "o-1").await, Some(TaskState::Done));
    let late = Settlement::new(lock, AttemptEnd::Done);
    let late = store.settle(&bucket, vec![late]).await.unwrap();
    assert_eq!(late, [SettleOutcome::Settled]);

    // The lock of another attempt ends nothing.
    let other = settle("o-2", claimed[1].lock.fence + 1);
    assert_eq!(session.run(&other), "lock_lost");
    assert_eq!(state(&store, "o-2").await, Some(TaskState::Running));

    // A request that waits for the end of the attempt becomes the task.
    let again = "SELECT outcome FROM delayq.send('order.cancel', 'o-2', 'again', \
                 '{\"again_if_running\": true}')";
    assert_eq!(server.sql("done", again), "runs_again");
    assert_eq!(session.run(&settle("o-2", claimed[1].lock.fence)), "done");
    let claimed = claim(&store).await;
    assert_eq!(claimed[0].message, b"again");
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!(
        (stats.running, stats.scheduled, stats.totals.done),
        (1, 0, 2)
    );
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
    store.close().await;
}

#[tokio::test]
async fn groups_of_roles_have_their_rights_and_no_others() {
    let server = PostgresServer::start(&["fsync=off"]);
    let at = |role: &str| server.url().replace("delayq@", &format!("{role}@"));
    let mut config = PostgresConfig::parse(&server.url()).unwrap();
    config.may_migrate = false;
    let refused = PostgresStore::connect_with(config.clone(), StoreOptions::default()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("missing") && refused.contains("delayq migrate"),
        "{refused}"
    );
    let migration = PostgresMigration::new(config).with_roles();
    let done = migration.run().await.unwrap();
    assert_eq!((done.from, done.to), (0, 2));
    server.sql(
        "postgres",
        "CREATE ROLE nobody LOGIN; CREATE ROLE shop LOGIN IN ROLE delayq_sender; \
         CREATE ROLE runs LOGIN IN ROLE delayq_worker; CREATE ROLE looks LOGIN IN ROLE delayq_reader",
    );
    let denied = open(&at("nobody")).await.unwrap_err();
    assert!(matches!(denied, Error::Misconfigured { .. }), "{denied}");

    // A sender uses the functions, and nothing else.
    let as_shop = |text: &str| {
        let mut session = SqlSession::open(&server, "postgres");
        session.run("SET ROLE shop;");
        session.run(text)
    };
    let send = "SELECT outcome FROM delayq.send('order.cancel', 'o-1', 'm');";
    assert_eq!(as_shop(send), "accepted");
    assert_eq!(as_shop("SELECT count(*) FROM delayq.tasks;"), "");
    assert_eq!(as_shop("SELECT delayq.fold_v1(1);"), "");
    assert_eq!(as_shop("SELECT delayq.done_within_v1('{}');"), "");

    // A worker runs tasks with a role that changes no schema.
    let worker = open(&at("runs")).await.unwrap();
    let claimed = claim(&worker).await;
    assert_eq!(claimed.len(), 1);
    let end = Settlement::new(claimed[0].lock.clone(), AttemptEnd::Done);
    let bucket = Bucket::whole(task_type());
    let settled = worker.settle(&bucket, vec![end]).await.unwrap();
    assert_eq!(settled, [SettleOutcome::Settled]);
    worker.close().await;

    let reader = open(&at("looks")).await.unwrap();
    assert_eq!(state(&reader, "o-1").await, Some(TaskState::Done));
    let one = DelayQueueJob::raw(TYPE, "m").id("o-2");
    let one = one.into_task(&Limits::default(), Timestamp::ZERO).unwrap();
    let denied = reader.submit(vec![one]).await.remove(0).unwrap_err();
    assert!(matches!(denied, Error::Misconfigured { .. }), "{denied}");
    reader.close().await;
}

/// Makes a schema one of version 1.
const TO_VERSION_1: &str = "UPDATE delayq.meta SET version = 1; \
    DROP TABLE delayq.ends, delayq.ends_state, delayq.ends_ledger CASCADE; \
    ALTER TABLE delayq.types DROP COLUMN history; \
    DROP FUNCTION delayq.find, delayq.within_v1; \
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA delayq TO PUBLIC";

#[tokio::test]
async fn a_migration_completes_a_schema_and_leaves_a_newer_one_alone() {
    let (server, store) = shop("migrations").await;
    let migrate = || {
        let config = PostgresConfig::parse(&server.url_of("migrations")).unwrap();
        PostgresMigration::new(config)
    };
    // Two releases on one schema: the newer one has added to it.
    server.sql("migrations", "UPDATE delayq.meta SET version = 7");
    let older = open(&server.url_of("migrations")).await.unwrap();
    server.sql("migrations", &order(1));
    assert_eq!(claim(&older).await.len(), 1);
    older.close().await;
    server.sql("migrations", TO_VERSION_1);
    let done = migrate().run().await.unwrap();
    assert_eq!((done.from, done.to), (1, 2));
    let found = "SELECT delayq.find('order.cancel', 'o-1') ->> 'state'";
    assert_eq!(server.sql("migrations", found), "running");
    let open_to_all = "SELECT count(*) FROM pg_proc p, aclexplode(p.proacl) a \
         WHERE p.pronamespace = 'delayq'::regnamespace AND a.grantee = 0";
    assert_eq!(server.sql("migrations", open_to_all), "0");

    // A schema of a newer release is not taken back, and one of others is left alone.
    server.sql("migrations", "UPDATE delayq.meta SET version = 7");
    let newer = migrate().run().await.unwrap_err();
    assert!(
        matches!(newer, Error::Incompatible { found: 7, .. }),
        "{newer}"
    );
    server.sql("migrations", "UPDATE delayq.meta SET version = 2");
    server.sql(
        "migrations",
        "CREATE SCHEMA shop CREATE TABLE carts (number int)",
    );
    for (schema, told) in [
        ("public", "of others"),
        ("shop", "of others"),
        ("user", "a word of SQL"),
    ] {
        let mut config = PostgresConfig::parse(&server.url_of("migrations")).unwrap();
        config.schema = schema.to_owned();
        let refused = PostgresMigration::new(config).run().await;
        let refused = refused.expect_err(schema).to_string();
        assert!(refused.contains(told), "{schema}: {refused}");
    }

    // What the script makes is what a store makes.
    server.create_database("by_script");
    server.sql("by_script", &migrate().script());
    let of = |database: &str| {
        let all = "SELECT md5(string_agg(p.oid::regprocedure || p.prosrc || p.proconfig::text \
             || p.prosecdef::text, ',' ORDER BY p.oid::regprocedure::text)) FROM pg_proc p \
             WHERE p.pronamespace = 'delayq'::regnamespace AND p.proconfig IS NOT NULL";
        server.sql(database, all)
    };
    assert_eq!(of("by_script"), of("migrations"));
    open(&server.url_of("by_script"))
        .await
        .unwrap()
        .close()
        .await;

    server.sql(
        "migrations",
        "UPDATE delayq.meta SET version = 9, min_version = 9",
    );
    let before = of("migrations");
    let refused = migrate().run().await.unwrap_err();
    assert!(
        matches!(refused, Error::Incompatible { found: 9, .. }),
        "{refused}"
    );
    assert_eq!(of("migrations"), before);
    store.close().await;
}
