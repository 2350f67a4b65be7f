//! A history in MariaDB, whose server is away, refuses, or was changed by somebody.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests: a panic is a failure"
)]

use std::time::Duration;

use delayq_plugin::history::{HistoryQuery, HistoryRetention, HistoryStore, Life, LifeOutcome};
use delayq_plugin::{
    Clock, Error, Namespace, SystemClock, TaskId, TaskType, Timestamp, days, millis, seconds,
};
use delayq_tests::mariadb_server::MariadbServer;
use delayq_tests::rig::until;

const TIMEOUT: Duration = seconds(5);

fn history_at(url: &str) -> HistoryStore {
    HistoryStore::at(url, Namespace::default(), TIMEOUT).unwrap()
}

/// A life that ended at this time.
fn life(id: &str, ended_at: Timestamp) -> Life {
    let (task_type, id) = (TaskType::new("a").unwrap(), TaskId::new(id).unwrap());
    Life::new(task_type, id, LifeOutcome::Done, ended_at)
}

/// How many lives there are.
async fn count(history: &HistoryStore) -> usize {
    let page = history.search(&HistoryQuery::default()).await;
    page.unwrap().lives.len()
}

/// A database of its own on the shared server.
fn database(name: &str) -> String {
    let server = MariadbServer::shared();
    server.create_database(name);
    server.url_of(name)
}

fn sql(database: &str, text: &str) -> String {
    MariadbServer::shared().sql(database, text)
}

#[tokio::test]
async fn a_server_that_is_away_at_the_start_or_later_is_found_again() {
    let mut server = MariadbServer::start(&[]);
    server.create_database("h");
    let history = history_at(&server.url_of("h"));
    let now = SystemClock.now();
    server.kill();
    let error = history.record(&[life("1", now)]).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    server.restart();
    assert_eq!(history.record(&[life("1", now)]).await, Ok(1));
    // What was open has ended, and nobody who calls needs to know.
    server.restart();
    assert_eq!(
        history.record(&[life("1", now), life("2", now)]).await,
        Ok(1)
    );
    assert_eq!(count(&history).await, 2);
    // A server that hangs keeps nobody longer than a call may take.
    let url = server.url_of("h");
    let hasty = HistoryStore::at(&url, Namespace::default(), millis(600)).unwrap();
    assert_eq!(count(&hasty).await, 2);
    server.stop();
    let error = hasty.record(&[life("3", now)]).await.unwrap_err();
    assert!(matches!(error, Error::Indeterminate { .. }), "{error}");
    server.resume();
    let again = || async { hasty.record(&[life("3", now)]).await.ok() };
    until("the server again", again).await;
    assert_eq!(count(&hasty).await, 3);
    hasty.close().await;
    assert_eq!(count(&hasty).await, 3);
}

#[tokio::test]
async fn a_month_without_a_partition_is_made_and_blocks_nothing() {
    let history = history_at(&database("months"));
    let now = SystemClock.now();
    let names = || {
        let names = "SELECT partition_name FROM information_schema.partitions WHERE \
            table_schema = 'months' AND table_name = 'lives' ORDER BY partition_ordinal_position";
        let names = sql("months", names);
        names.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let old = [0, 40, 80].map(|ago| life("a", now.minus(days(ago))));
    assert_eq!(history.record(&old).await, Ok(3));
    let made = names();
    assert!((7..=8).contains(&made.len()), "{made:?}");
    assert_eq!(
        (&*made[0], &*made[made.len() - 1]),
        ("lives_before", "lives_rest")
    );
    // Far from now there are no months, and lives are kept.
    let far = [life("b", Timestamp::ZERO), life("b", now.plus(days(3_000)))];
    assert_eq!(history.record(&far).await, Ok(2));
    assert!(names().len() < 130);
    // Somebody drops what is to come, while the process believes it is there.
    let rest: Vec<_> = names().into_iter().skip(2).collect();
    let drop = format!("ALTER TABLE lives DROP PARTITION {}", rest.join(", "));
    sql("months", &drop);
    assert_eq!(history.record(&old[..1]).await, Ok(1));
    assert_eq!(names().last().map(String::as_str), Some("lives_rest"));
    assert_eq!(count(&history).await, 2);
    // What is too old is removed wherever it is.
    let keep = HistoryRetention::of_all(Some(days(10)));
    history.expire(&keep, now).await.unwrap();
    assert_eq!(count(&history).await, 1);
    assert_eq!(history.record(&far[..1]).await, Ok(1));
    history.expire(&keep, now).await.unwrap();
    assert_eq!(count(&history).await, 1);
}

#[tokio::test]
async fn a_value_that_is_too_long_is_refused_and_never_cut() {
    let history = history_at(&database("narrow"));
    let now = SystemClock.now();
    assert_eq!(history.record(&[life("12345678", now)]).await, Ok(1));
    sql(
        "narrow",
        "ALTER TABLE lives MODIFY id VARBINARY(8) NOT NULL",
    );
    let lives = [life("1", now), life("123456789", now)];
    let error = history.record(&lives).await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
    assert_eq!(count(&history).await, 1, "all of a batch, or nothing");
    sql(
        "narrow",
        "ALTER TABLE lives MODIFY id VARBINARY(128) NOT NULL",
    );
    assert_eq!(history.record(&lives).await, Ok(2));
    assert_eq!(history.record(&lives).await, Ok(0));
}

#[tokio::test]
async fn a_batch_that_is_larger_than_a_packet_is_sent_in_parts() {
    let server = MariadbServer::start(&["max-allowed-packet=1M"]);
    server.create_database("h");
    let history = history_at(&server.url_of("h"));
    let now = SystemClock.now();
    let mut lives: Vec<_> = (0..117).map(|n| life(&n.to_string(), now)).collect();
    for life in &mut lives {
        life.message = Some(vec![0xff; 40_000]);
    }
    assert_eq!(history.record(&lives).await, Ok(117));
    assert_eq!(history.record(&lives).await, Ok(0));
    let found = history.lives(&lives[7].task_type, &lives[7].id).await;
    assert_eq!(found, Ok(lives[7..8].to_vec()));
    lives[0].id = TaskId::new("large").unwrap();
    lives[0].message = Some(vec![0xff; 1 << 20]);
    let error = history.record(&lives).await.unwrap_err().to_string();
    assert!(
        error.contains("max_allowed_packet") && error.contains("large"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_will_not_do_is_refused_with_what_to_do() {
    let server = MariadbServer::start(&["sql-mode="]);
    for name in ["h", "other"] {
        server.create_database(name);
    }
    server.sql(
        "mysql",
        "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'secret'",
    );
    server.sql("mysql", "GRANT SELECT ON h.* TO reader@'127.0.0.1'");
    server.sql("other", "CREATE TABLE tasks (id INT)");
    let now = SystemClock.now();
    let own = server.url_of("h");
    let refused = |url: String| async move {
        let error = history_at(&url)
            .record(&[life("1", now)])
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(!text.contains("secret"), "{text}");
        (error, text)
    };
    let as_user = |user: &str| own.replace("//delayq@", &format!("//{user}@"));
    for (url, fix) in [
        (as_user("reader:secret1"), "check user and password"),
        (as_user("reader:secret"), "GRANT ALL"),
        (own.replace("/h", "/absent"), "CREATE DATABASE"),
        (own.replace("/h", "/other"), "a database of its own"),
        (format!("{own}?sslmode=require"), "the server has no TLS"),
    ] {
        let (error, text) = refused(url).await;
        assert!(matches!(error, Error::Misconfigured { .. }), "{text}");
        assert!(text.contains(fix), "{text}");
    }
    // The mode of the server is not that of the history.
    let history = history_at(&own);
    assert_eq!(history.record(&[life("1", now)]).await, Ok(1));
    server.sql("h", "SET GLOBAL read_only = 1");
    server.sql("mysql", "CREATE USER writer@'127.0.0.1'");
    server.sql("mysql", "GRANT ALL ON h.* TO writer@'127.0.0.1'");
    let writer = history_at(&as_user("writer"));
    let error = writer.record(&[life("2", now)]).await.unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert_eq!(count(&writer).await, 1);
    server.sql("h", "SET GLOBAL read_only = 0");
    assert_eq!(writer.record(&[life("2", now)]).await, Ok(1));
    server.sql("h", "INSERT INTO delayq_history VALUES (9)");
    let (error, _) = refused(own.clone()).await;
    assert!(
        matches!(error, Error::Incompatible { found: 9, .. }),
        "{error}"
    );
    server.sql("h", "SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    let (_, text) = refused(own).await;
    assert!(
        text.contains("set innodb_flush_log_at_trx_commit = 1"),
        "{text}"
    );
}

#[tokio::test]
async fn a_connection_is_encrypted_as_its_url_says() {
    let own = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (right, other) = (own("127.0.0.1"), own("127.0.0.1"));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (cert, key) = (right.cert.pem(), right.signing_key.serialize_pem());
    let (cert, key) = (file("cert.pem", &cert), file("key.pem", &key));
    let wrong = file("other.pem", &other.cert.pem());
    // The server may be another user.
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), all).unwrap();
    let (ssl_cert, ssl_key) = (format!("ssl-cert={cert}"), format!("ssl-key={key}"));
    let server = MariadbServer::start(&[&ssl_cert, &ssl_key]);
    server.create_database("h");
    server.sql("mysql", "CREATE USER safe@'127.0.0.1' REQUIRE SSL");
    server.sql("mysql", "GRANT ALL ON h.* TO safe@'127.0.0.1'");
    let url = server.url_of("h").replace("delayq@", "safe@");
    let open = |options: String| {
        let history = history_at(&format!("{url}{options}"));
        async move { history.status().await }
    };
    for options in ["", "?sslmode=prefer", "?sslmode=require"] {
        open(options.to_owned()).await.unwrap();
    }
    open(format!("?sslrootcert={cert}")).await.unwrap();
    for refused in [
        "?sslmode=disable".to_owned(),
        "?sslmode=verify-full".to_owned(),
        format!("?sslrootcert={wrong}"),
        "?sslrootcert=absent.pem".to_owned(),
    ] {
        let error = open(refused.clone()).await.unwrap_err();
        assert!(!error.is_transient(), "{refused}: {error}");
    }
}

#[tokio::test]
async fn a_search_reads_few_lives_before_the_server_has_statistics() {
    let server = MariadbServer::start(&["innodb-stats-auto-recalc=0"]);
    server.create_database("h");
    let history = history_at(&server.url_of("h"));
    let now = SystemClock.now();
    history.record(&[life("first", now)]).await.unwrap();
    let fill = format!(
        "INSERT INTO lives (ended_at, submitted_at, due_at, fence, message_bytes, type, attempts, \
         outcome, id, grp) SELECT {} - seq, 1, 1, 1, 0, 1, 1, 0, CONCAT('order-', seq), \
         CONCAT('t', seq % 1000) FROM seq_1_to_20000",
        now.as_millis()
    );
    server.sql("h", &fill);
    let reads = || {
        let reads = "SELECT SUM(variable_value) FROM information_schema.global_status \
            WHERE variable_name LIKE 'HANDLER_READ%' AND variable_name NOT LIKE '%RND_NEXT'";
        server.sql("h", reads).parse::<f64>().unwrap()
    };
    let changes: [fn(&mut HistoryQuery); 5] = [
        |_| {},
        |query| query.id = Some(TaskId::new("order-777").unwrap()),
        |query| query.group = Some("t5".to_owned()),
        |query| query.task_type = Some(TaskType::new("a").unwrap()),
        |query| query.until = Some(SystemClock.now().minus(millis(10))),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut query = HistoryQuery::default();
        change(&mut query);
        let before = reads();
        let page = history.search(&query).await.unwrap();
        let read = reads() - before;
        assert!(
            !page.lives.is_empty() && read < 1_000.0,
            "search {n}: {read} rows"
        );
        query.after = page.next;
        let before = reads();
        history.search(&query).await.unwrap();
        assert!(reads() - before < 1_000.0, "second page of search {n}");
    }
    let before = reads();
    history.status().await.unwrap();
    assert!(reads() - before < 1_000.0, "status");
}

#[tokio::test]
async fn processes_that_begin_together_make_the_tables_and_the_months_once() {
    let url = database("crowd");
    let now = SystemClock.now();
    let process = |n: u32| {
        let url = url.clone();
        async move {
            let lives = [life("all", now), life(&n.to_string(), now)];
            history_at(&url).record(&lives).await
        }
    };
    let all: Vec<_> = (0..8).map(|n| tokio::spawn(process(n))).collect();
    let mut added = 0;
    for one in all {
        added += one.await.unwrap().unwrap();
    }
    assert_eq!(added, 9);
}

#[tokio::test]
async fn the_view_has_the_columns_of_a_table_of_tasks() {
    let history = history_at(&database("view"));
    let mut one = life("1", Timestamp::from_millis(4_102_444_800_123));
    (one.attempts, one.group, one.outcome) = (3, Some("\u{e9}".to_owned()), LifeOutcome::Dead);
    one.submitted_at = Timestamp::from_millis(86_400_000);
    history.record(&[one]).await.unwrap();
    let row = sql("view", "SELECT * FROM tasks");
    let expected = "1\ta\t\u{e9}\tNULL\tNULL\t2100-01-01 00:00:00.123000\t2\tNULL\tdead\t\
        1970-01-02 00:00:00.000000\tdefault";
    assert_eq!(row, expected);
}
