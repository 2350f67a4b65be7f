//! Each program on a database of its own, on a real server.

use std::process::Command;

// One server fixture for all tests, without the rest of their dependencies.
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
#[path = "../../../tests/src/postgres_server.rs"]
mod postgres_server;
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
#[path = "../../../tests/src/program_folders.rs"]
mod program_folders;
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
#[path = "../../../tests/src/unprivileged.rs"]
mod unprivileged;
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
#[path = "../../../tests/src/watched_process.rs"]
mod watched_process;

use postgres_server::PostgresServer;

fn run(name: &str, program: &str) {
    let server = PostgresServer::shared();
    server.create_database(name);
    server.sql(
        name,
        "CREATE TABLE orders (id text PRIMARY KEY); CREATE TABLE payments (id text)",
    );
    let run = Command::new(program).arg(server.url_of(name)).output();
    let run = run.expect("it can be started");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let failed = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{said}{failed}");
    assert!(said.contains("current transaction is aborted"), "{said}");
    let count = |what: &str| server.sql(name, &format!("SELECT string_agg(id, ' ') FROM {what}"));
    for table in ["orders", "payments", "delayq.tasks"] {
        assert_eq!(count(table), "o-1", "{table}");
    }
}

macro_rules! programs {
    ($($name:ident)+) => {$(
        #[test]
        fn $name() {
            run(stringify!($name), env!(concat!("CARGO_BIN_EXE_", stringify!($name))));
        }
    )+};
}

programs!(on_diesel on_diesel_async on_sea_orm on_sqlx_0_8 on_sqlx_0_9 on_tokio_postgres);
