//! The programs of the guide to SQL, run as they stand there against a real PostgreSQL. A language
//! whose client is not installed is left out, and said so.

#![cfg(unix)]
#![allow(
    clippy::print_stderr,
    reason = "what is left out is told to whoever runs the tests"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

#[path = "../server/delayq-server/tests/programs/mod.rs"]
mod programs;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use delayq_core::operate::Operate;
use delayq_core::store::{ClaimRequest, StoreOptions};
use delayq_core::{
    Bucket, Clock, Store, SystemClock, TaskId, TaskInfo, TaskState, TaskType, minutes,
};
use delayq_postgres::PostgresStore;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::sql_session::SqlSession;
use tempfile::TempDir;

use programs::{go_variables, installed, succeeds};

const GUIDE: &str = include_str!("../docs/guide/sql.md");

/// The modules that the program in Go is built with.
const GO: &str = "../server/delayq-server/tests/clients/go";

/// What each program prints; the hint, which stands behind it, has its own form in Java.
const SAID: &str = "place 42: accepted
place 43: accepted
pay 42: cancelled
ship 42 by rail: accepted
ship 42 by rail: exists
ship 42 by air: conflict scheduled
DQ001 ";

/// The blocks of the page in a language.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let blocks = GUIDE.split("```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.split_once('\n'));
    blocks.filter_map(move |(fence, text)| (fence == language).then_some(text))
}

/// A database with what the page says, and the only program of the page in a language.
struct Trial {
    server: &'static PostgresServer,
    store: Arc<PostgresStore>,
    database: &'static str,
    folder: TempDir,
}

impl Trial {
    async fn new(language: &'static str, file: &str) -> Self {
        let server = PostgresServer::shared();
        server.create_database(language);
        let url = server.url_of(language);
        let store = PostgresStore::connect(&url, StoreOptions::default());
        let store = store.await.unwrap();
        server.sql(language, blocks("sql").next().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let mut programs = blocks(language);
        std::fs::write(folder.path().join(file), programs.next().unwrap()).unwrap();
        assert_eq!(programs.next(), None, "the page has one program a language");
        Self {
            server,
            store,
            database: language,
            folder,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command in the folder of the program.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("DATABASE_URL", self.server.url_of(self.database));
        command
    }

    /// Runs the program, and checks what it said and what is there afterwards.
    async fn passes(&self, program: &mut Command) {
        let said = succeeds(program);
        assert!(said.starts_with(SAID), "{said}");
        for part in ["unknown option \"dely\"", "this version knows: delay, "] {
            assert!(said.contains(part), "{said}");
        }
        let orders = "SELECT * FROM orders ORDER BY number";
        let orders = self.server.sql(self.database, orders);
        assert_eq!(orders, "42|ships by rail\n43|open");
        assert_eq!(self.state("order.cancel", 42).await, TaskState::Cancelled);
        assert_eq!(self.state("order.cancel", 43).await, TaskState::Scheduled);
        assert!(self.find("order.cancel", 44).await.is_none());
        let ship = self.find("order.ship", 42).await.unwrap();
        let message: serde_json::Value = serde_json::from_slice(&ship.message.unwrap()).unwrap();
        assert_eq!(message, serde_json::json!({"order": 42, "by": "rail"}));
        let [due, submitted] =
            [ship.due_at, ship.submitted_at].map(|time| time.unwrap().as_millis());
        assert_eq!(due - submitted, 3_600_000);
        self.time_out_runs().await;
        self.store.close().await;
    }

    /// The time-out of the order that nobody paid is handed to a worker once it is due.
    async fn time_out_runs(&self) {
        let now = "SELECT delayq.reschedule('order.cancel', 'order-43', '{\"delay_ms\": 0}')";
        self.server.sql(self.database, now);
        let task_type = TaskType::new("order.cancel").unwrap();
        let request = ClaimRequest::new(128, minutes(5), SystemClock.now());
        let bucket = Bucket::whole(task_type.clone());
        let claimed = self.store.claim(&bucket, &request).await.unwrap().tasks;
        let messages: Vec<_> = claimed.iter().map(|task| task.message.as_slice()).collect();
        assert_eq!(messages, [br#"{"order": 43}"#]);
        let report = self.store.audit(&task_type, false).await.unwrap();
        assert_eq!(report.problems, []);
    }

    async fn find(&self, task_type: &str, order: u32) -> Option<TaskInfo> {
        let task_type = TaskType::new(task_type).unwrap();
        let id = TaskId::new(format!("order-{order}")).unwrap();
        self.store.find(&task_type, &id).await.unwrap()
    }

    async fn state(&self, task_type: &str, order: u32) -> TaskState {
        self.find(task_type, order).await.unwrap().state
    }
}

#[tokio::test]
async fn the_python_program_works() {
    let Some(python) = installed("python/bin/python") else {
        return;
    };
    let trial = Trial::new("python", "orders.py").await;
    trial.passes(trial.command(python).arg("orders.py")).await;
}

#[tokio::test]
async fn the_node_program_works() {
    let Some(modules) = installed("node/node_modules") else {
        return;
    };
    let trial = Trial::new("js", "orders.mjs").await;
    let beside = trial.path().join("node_modules");
    std::os::unix::fs::symlink(modules, beside).unwrap();
    trial.passes(trial.command("node").arg("orders.mjs")).await;
}

#[tokio::test]
async fn the_go_program_works() {
    let Some(modules) = installed("go/modules") else {
        return;
    };
    let trial = Trial::new("go", "main.go").await;
    for file in ["go.mod", "go.sum"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(GO).join(file);
        std::fs::copy(from, trial.path().join(file)).unwrap();
    }
    let mut go = trial.command("go");
    go.args(["run", "main.go"])
        .env("HOME", trial.path())
        .env("GOMODCACHE", modules)
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .envs(go_variables());
    trial.passes(&mut go).await;
}

#[tokio::test]
async fn the_java_program_works() {
    let Some(driver) = installed("java/postgresql.jar") else {
        return;
    };
    let trial = Trial::new("java", "Orders.java").await;
    let (port, database) = (trial.server.port(), trial.database);
    let url = format!("jdbc:postgresql://127.0.0.1:{port}/{database}?user=delayq");
    let mut java = trial.command("java");
    java.arg("-cp").arg(driver).arg("Orders.java");
    trial.passes(java.env("DATABASE_URL", url)).await;
}

/// The statements of the page, in its order. Those that show an error are no `sql`.
#[tokio::test]
async fn the_statements_of_the_page_are_taken() {
    let server = PostgresServer::start(&["fsync=off"]);
    let url = server.url();
    let store = PostgresStore::connect(&url, StoreOptions::default());
    let store = store.await.unwrap();
    let mut session = SqlSession::open(&server, "postgres");
    session.run("\\set ON_ERROR_STOP on");
    for block in blocks("sql") {
        session.run(block);
    }
    store.close().await;
}
