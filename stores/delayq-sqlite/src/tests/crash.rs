//! Processes that are killed at any moment (SIGKILL): everything that was answered is there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use delayq_core::state::TaskState;

use super::*;

/// Runs a test of this file again in a process of its own, on the file of `place`.
fn start(place: &Place, name: &str) -> Child {
    let name = format!("tests::crash::{name}");
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env("DELAYQ_TEST_FILE", place.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The file of a process that [`start`] made; none in the test run itself.
fn given_file() -> Option<PathBuf> {
    std::env::var_os("DELAYQ_TEST_FILE").map(PathBuf::from)
}

async fn open_given(path: PathBuf) -> Arc<SqliteStore> {
    let options = StoreOptions::default();
    SqliteStore::open(path, Arc::new(SystemClock), options)
        .await
        .unwrap()
}

/// Reads what a process answered until it has said `lines` such lines, then kills it.
fn kill_after(mut child: Child, lines: usize) -> Vec<String> {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut said = Vec::new();
    for line in output.lines() {
        let line = line.unwrap();
        if let Some(id) = line.strip_prefix("answered ") {
            said.push(id.to_owned());
        }
        if said.len() == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    said
}

fn say(id: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "answered {id}").unwrap();
    out.flush().unwrap();
}

/// The killed process: submits from many callers, and prints what was accepted.
#[tokio::test]
async fn a_submitter() {
    let Some(path) = given_file() else {
        return;
    };
    let store = open_given(path).await;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..16 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            for n in 0..1_000_000 {
                let id = format!("{caller}-{n}");
                accept(&store, &id).await;
                say(&id);
            }
        });
    }
    callers.join_all().await;
}

#[tokio::test]
async fn what_was_accepted_survives_a_kill() {
    let place = Place::new();
    for lines in [1, 100, 1_000] {
        let accepted = kill_after(start(&place, "a_submitter"), lines);
        assert!(accepted.len() >= lines);
        let store = place.open().await;
        for id in &accepted {
            let info = find(&store, id).await;
            assert_eq!(
                info.map(|info| info.state),
                Some(TaskState::Scheduled),
                "{id}"
            );
        }
        is_sound(&store).await;
        store
            .purge(&usual_type(), TaskState::Scheduled)
            .await
            .unwrap();
    }
}

/// The other killed process: claims and settles, and prints what is done.
#[tokio::test]
async fn a_worker() {
    let Some(path) = given_file() else {
        return;
    };
    let store = open_given(path).await;
    loop {
        let claimed = claim(&store).await.unwrap();
        store.settle(&bucket(), done(&claimed)).await.unwrap();
        ids(&claimed).into_iter().for_each(say);
        if claimed.tasks.is_empty() {
            return;
        }
    }
}

#[tokio::test]
async fn every_task_ends_once_though_workers_are_killed() {
    const TASKS: usize = 5_000;
    let place = Place::new();
    let store = place.open().await;
    let tasks = (0..TASKS).map(|n| task(&n.to_string())).collect();
    assert!(store.submit(tasks).await.iter().all(Result::is_ok));
    let (first, second) = (start(&place, "a_worker"), start(&place, "a_worker"));
    let first = kill_after(first, 500);
    let second = kill_after(second, 1_000);
    for id in first.iter().chain(&second) {
        let info = find(&store, id).await;
        assert_eq!(info.map(|info| info.state), Some(TaskState::Done), "{id}");
    }
    is_sound(&store).await;
    let (mut ends, mut left) = (first.len() + second.len(), Vec::new());
    loop {
        let claimed = claim(&store).await.unwrap();
        if claimed.tasks.is_empty() {
            break;
        }
        left.extend(ids(&claimed).into_iter().map(ToOwned::to_owned));
        store.settle(&bucket(), done(&claimed)).await.unwrap();
    }
    ends += left.len();
    let held = store.stats(&usual_type()).await.unwrap().running;
    // Each killed process held at most what it had claimed last, or had settled it without saying
    // so.
    assert!(
        ends + 2 * 10 >= TASKS && held <= 2 * 10,
        "{ends} ended, {held} held"
    );
    let again = left
        .iter()
        .filter(|id| first.contains(id) || second.contains(id));
    assert_eq!(again.count(), 0, "nothing that was done starts again");
}
