//! A store for a test, what is planted in it, and the binary that works on it.

use std::path::PathBuf;
use std::process::{Command, Output};

use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, Durability, Figures, InstanceId, InstanceInfo, Settlement,
    Spell, StoreOptions,
};
use delayq_plugin::{
    Clock, DelayQueueJob, SystemClock, TaskSubmitService, TaskType, hours, minutes, open_store,
};
use delayq_tests::redis_server::{Persistence, RedisServer};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A store of its own, which goes with the test.
pub(crate) struct Stage {
    pub(crate) url: String,
    runtime: Runtime,
    folder: TempDir,
    _server: Option<RedisServer>,
}

impl Stage {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("a.sqlite").display());
        let stage = Self {
            url,
            runtime: Runtime::new().expect("a runtime"),
            folder,
            _server: None,
        };
        stage.plant(async |_| ());
        stage
    }

    pub(crate) fn redis() -> Self {
        let server = RedisServer::start(Persistence::EverySecond, &[]);
        Self {
            url: server.url(),
            runtime: Runtime::new().expect("a runtime"),
            folder: tempfile::tempdir().expect("a folder"),
            _server: Some(server),
        }
    }

    /// A file of the test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Works on the store as an application does.
    pub(crate) fn plant<T>(&self, plant: impl AsyncFnOnce(&TaskSubmitService) -> T) -> T {
        self.runtime.block_on(async {
            let options = StoreOptions {
                durability: Durability::Memory,
                ..StoreOptions::default()
            };
            let store = open_store(&self.url, options).await.expect("a store");
            let tasks = TaskSubmitService::new(store);
            let planted = plant(&tasks).await;
            tasks.close().await;
            planted
        })
    }

    /// Tasks of mail.send that have died of these errors, ids d-0, d-1 ..
    pub(crate) fn kill(&self, errors: &[&str]) {
        self.kill_of("mail.send", errors);
    }

    /// The same of another type.
    pub(crate) fn kill_of(&self, name: &str, errors: &[&str]) {
        self.plant(async |tasks| {
            let task_type = TaskType::new(name).unwrap();
            let bucket = Bucket::whole(task_type.clone());
            for (nth, error) in errors.iter().enumerate() {
                let job = DelayQueueJob::raw(name, "{}").id(format!("d-{nth}"));
                tasks.send(job).await.unwrap();
                let request = ClaimRequest::new(1, minutes(1), SystemClock.now());
                let claimed = tasks.store().claim(&bucket, &request).await.unwrap();
                let lock = claimed.tasks[0].lock.clone();
                let (error, succeeded) = ((*error).to_owned(), Vec::new());
                let dead = Settlement::new(lock, AttemptEnd::Dead { error, succeeded });
                tasks.store().settle(&bucket, vec![dead]).await.unwrap();
            }
            let mut figures = Figures::default();
            figures.dead = errors.len() as u64;
            record(tasks, &task_type, figures).await;
        });
    }

    /// An instance that serves mail.send and order.cancel, and did 7 tasks of mail.send right now.
    pub(crate) fn serve(&self) {
        self.plant(async |tasks| {
            let types = ["mail.send", "order.cancel"].map(|name| TaskType::new(name).unwrap());
            let id = InstanceId::generate();
            let instance = InstanceInfo::new(id, "shop-3", 17, SystemClock.now()).serving(&types);
            tasks.store().announce(&instance, hours(1)).await.unwrap();
            let mut figures = Figures::default();
            (figures.started, figures.done, figures.run_ms) = (7, 7, 700);
            figures.lateness.add(3, 7);
            record(tasks, &types[0], figures).await;
        });
    }

    /// The binary, with these words.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        command(&self.url, words)
    }

    /// The JSON of a command that ends with `code`.
    pub(crate) fn json(&self, code: i32, words: &[&str]) -> Value {
        json(&self.url, code, words)
    }

    /// What a command says that ends with `code`, as text.
    pub(crate) fn refusal(&self, code: i32, words: &[&str]) -> String {
        let output = self.command(words).output().expect("the binary runs");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        said
    }

    /// The text of a command that ends well.
    pub(crate) fn text(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Verb, target and end of each action in the log, the oldest first.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = self.json(0, &["log", "--limit", "100"]);
        let mut lines: Vec<_> = log["actions"]
            .as_array()
            .unwrap()
            .iter()
            .map(line)
            .collect();
        lines.reverse();
        lines
    }
}

/// Adds what happened to a type in this minute.
async fn record(tasks: &TaskSubmitService, task_type: &TaskType, figures: Figures) {
    let at = SystemClock.now();
    let minute = [Spell { at, figures }];
    tasks.store().add_figures(task_type, &minute).await.unwrap();
}

fn line(action: &Value) -> String {
    let word = |key: &str| action[key].as_str().unwrap().to_owned();
    format!("{} {} {}", word("verb"), word("target"), word("end"))
}

fn command(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq"));
    command.env_clear().args(["--url", url]).args(words);
    command
}

/// The JSON of a command that ends with `code`.
pub(crate) fn json(url: &str, code: i32, words: &[&str]) -> Value {
    let output: Output = command(url, words)
        .arg("--json")
        .output()
        .expect("the binary runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}
