//! The page on backups: its commands run as they stand there, on real servers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use delayq_plugin::store::StoreOptions;
use delayq_plugin::{DelayQueueJob, hours};
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::redis_server::free_port;
use serde_json::Value;
use tempfile::TempDir;

use crate::stage::json;

const PAGE: &str = include_str!("../../../../docs/guide/backup.md");

/// The shell blocks below a heading, in order.
fn blocks(heading: &str) -> Vec<&'static str> {
    let (_, part) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let part = part.split("\n## ").next().unwrap();
    let blocks = part.split("```sh\n").skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

/// A folder in which blocks run, with variables.
struct Desk {
    folder: TempDir,
    variables: Vec<(String, String)>,
    /// What the page has, and what is run instead.
    instead: Vec<(String, String)>,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A server that runs as somebody else writes here.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        Self {
            folder,
            variables: Vec::new(),
            instead: Vec::new(),
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    fn instead(&mut self, part: &str, other: &str) {
        self.instead.push((part.to_owned(), other.to_owned()));
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn run(&self, block: &str) {
        let instead = self.instead.iter();
        let block = instead.fold(block.to_owned(), |text, (part, other)| {
            text.replace(part, other)
        });
        let programs = Path::new(env!("CARGO_BIN_EXE_delayq")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{path}", self.path("bin"), programs.display());
        let output = Command::new("bash")
            .args(["-ec", &block])
            .current_dir(self.folder.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("PATH", path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}: {said}");
    }
}

/// Sends with the program, as after the copy.
fn send(url: &str, id: &str) {
    let words = ["send", "order.cancel", "{}", "--id", id, "--after", "1h"];
    json(url, 0, &[&words[..], &["--create"]].concat());
}

fn ids(url: &str) -> Vec<String> {
    let list = json(url, 0, &["list", "order.cancel"]);
    let id = |task: &Value| task["id"].as_str().unwrap().to_owned();
    let mut ids: Vec<_> = list["tasks"].as_array().unwrap().iter().map(id).collect();
    ids.sort();
    ids
}

/// What happens between the copy and the restore.
fn go_on(url: &str) {
    json(url, 0, &["cancel", "order.cancel", "ended"]);
    send(url, "later");
    assert_eq!(ids(url), ["later", "stays"]);
}

/// The store is as it was at the copy, and starts nothing until it is resumed.
fn is_restored(desk: &mut Desk, url: &str) {
    desk.set("URL", url);
    let hold = blocks("Hold the workers first");
    desk.run(hold[0]);
    assert_eq!(ids(url), ["ended", "stays"]);
    let paused = |url: &str| !json(url, 0, &["stats", "order.cancel"])["paused_until"].is_null();
    assert!(paused(url));
    send(url, "meanwhile");
    desk.run(hold[1]);
    assert!(!paused(url));
}

#[test]
fn a_file_is_copied_in_use_and_restored() {
    let mut desk = Desk::new();
    let url = format!("sqlite:{}", desk.path("tasks.sqlite"));
    let new = format!("{url}?create=true");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // It is open all the while.
    let open = || async {
        let tasks = delayq_plugin::TaskSubmitService::connect(&new, StoreOptions::default());
        tasks.await.unwrap()
    };
    let tasks = runtime.block_on(open());
    for id in ["stays", "ended"] {
        let job = DelayQueueJob::raw("order.cancel", "{}").id(id);
        runtime.block_on(tasks.send(job.after(hours(1)))).unwrap();
    }
    let page = blocks("SQLite");
    desk.run(page[0]);
    go_on(&url);
    runtime.block_on(tasks.close());
    desk.run(page[1]);
    is_restored(&mut desk, &url);
}

/// Puts a program in front of those of the system.
fn program(desk: &Desk, name: &str, text: &str) {
    let folder = desk.folder.path().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// What runs Redis starts it again whenever it ends, as the units of systemd do.
fn supervisor(port: &str, place: &str) -> String {
    format!(
        "#!/bin/bash\n\
         if [ \"$1\" = stop ]; then\n\
             touch {place}/stopped\n\
             redis-cli -p {port} SHUTDOWN NOSAVE\n\
             while redis-cli -p {port} PING | grep -q PONG; do sleep 0.1; done\n\
             exit\n\
         fi\n\
         rm -f {place}/stopped\n\
         run() {{\n\
             while [ ! -e {place}/stopped ]; do\n\
                 redis-server --port {port} --bind 127.0.0.1 --dir {place} --appendonly yes\n\
             done\n\
         }}\n\
         run >/dev/null 2>&1 </dev/null &\n\
         until redis-cli -p {port} PING | grep -q PONG; do sleep 0.1; done\n"
    )
}

#[test]
fn a_redis_server_is_restored_from_a_snapshot_and_from_its_log() {
    let mut desk = Desk::new();
    let (port, other) = (free_port().to_string(), free_port().to_string());
    let place = desk.path("redis");
    std::fs::create_dir(&place).unwrap();
    desk.instead("6379", &port);
    desk.instead("6399", &other);
    desk.instead("/var/lib/redis", &place);
    // It runs as whoever runs the test.
    desk.instead("chown -R redis:redis", "ls");
    program(&desk, "systemctl", &supervisor(&port, &place));
    let url = format!("redis://127.0.0.1:{port}/");
    let _stopped = [Stopped::new(&port, &place), Stopped::new(&other, &place)];
    desk.run("systemctl start redis-server");
    send(&url, "stays");
    send(&url, "ended");
    let page = blocks("Redis");
    desk.run(page[0]);
    go_on(&url);
    desk.run(page[1]);
    assert_eq!(ids(&url), ["later", "stays"], "nothing is restored yet");
    desk.run(page[2]);
    is_restored(&mut desk, &url);
    // The same from the append-only files that it has written since.
    desk.run(page[3]);
    let before = ids(&url);
    send(&url, "later");
    desk.run("rm -rf restored; mkdir restored; mv backup-aof restored/appendonlydir");
    desk.run(page[2]);
    assert_eq!(ids(&url), before);
}

/// A Redis server of the page, which ends with the test.
struct Stopped {
    port: String,
    file: PathBuf,
}

impl Stopped {
    fn new(port: &str, place: &str) -> Self {
        let file = Path::new(place).join("stopped");
        let port = port.to_owned();
        Self { port, file }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.file, "");
        let mut end = Command::new("redis-cli");
        let _ = end.args(["-p", &self.port, "SHUTDOWN", "NOSAVE"]).output();
    }
}

/// A server works for each namespace of its stores, so each is held.
#[test]
fn every_namespace_of_a_server_is_held() {
    let mut desk = Desk::new();
    let url = format!("sqlite:{}", desk.path("tasks.sqlite"));
    desk.set("URL", &url);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for namespace in ["default", "shop"] {
        let options = StoreOptions {
            namespace: delayq_plugin::Namespace::new(namespace).unwrap(),
            ..StoreOptions::default()
        };
        runtime.block_on(async {
            let new = format!("{url}?create=true");
            let tasks = delayq_plugin::TaskSubmitService::connect(&new, options);
            let tasks = tasks.await.unwrap();
            let job = DelayQueueJob::raw("order.cancel", "{}").id("a");
            tasks.send(job.after(hours(1))).await.unwrap();
            tasks.close().await;
        });
    }
    desk.run(blocks("A server")[0]);
    for namespace in ["default", "shop"] {
        let stats = json(
            &url,
            0,
            &["--namespace", namespace, "stats", "order.cancel"],
        );
        assert!(!stats["paused_until"].is_null(), "{namespace}: {stats}");
    }
}

#[test]
fn a_database_is_restored_from_a_dump_and_at_a_moment() {
    let archive = tempfile::tempdir().unwrap();
    std::fs::set_permissions(archive.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let place = archive.path().display().to_string();
    let command = format!("archive_command=cp %p {place}/%f");
    let server = PostgresServer::start(&["archive_mode=on", &command]);
    let mut desk = Desk::new();
    let url = server.url();
    let page = blocks("PostgreSQL");
    desk.set("DATABASE", &url);
    desk.set("RESTORED", &server.url_of("restored"));
    desk.run(&format!("delayq --url '{url}' migrate"));
    desk.run(page[2]);
    send(&url, "stays");
    send(&url, "ended");
    desk.run(page[0]);
    let moment = server.sql("postgres", "select clock_timestamp()");
    go_on(&url);
    desk.run(page[1]);
    is_restored(&mut desk, &server.url_of("restored"));

    server.sql("postgres", "select pg_switch_wal()");
    let archived = "select coalesce(last_archived_wal, '') from pg_stat_archiver";
    let last = server.sql(
        "postgres",
        "select pg_walfile_name(pg_current_wal_lsn() - 1)",
    );
    while server.sql("postgres", archived) < last {
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    let port = free_port().to_string();
    desk.instead("/archive", &place);
    desk.instead("2026-01-01 12:00:00+00", &moment);
    // As the server of the copy has it, or as a test must.
    let options = "-c max_connections=200 -c unix_socket_directories= \
                   -c dynamic_shared_memory_type=mmap";
    desk.instead("-p 5433", &format!("-p {port} {options}"));
    desk.instead("pg_ctl", &own_pg_ctl(&desk));
    let restored = server.url().replace(&server.port().to_string(), &port);
    desk.set("RESTORED", &restored);
    let _ended = Ended(desk.folder.path().join("base/postmaster.pid"));
    desk.run(page[3]);
    is_restored(&mut desk, &restored);
}

/// A PostgreSQL server of the page, which ends with the test.
struct Ended(PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        if let Some(id) = text.lines().next() {
            let _ = Command::new("kill").args(["-QUIT", id]).status();
        }
    }
}

/// The program that starts a server, as somebody who may.
fn own_pg_ctl(desk: &Desk) -> String {
    let text = "#!/bin/bash\n\
         found=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)\n\
         PATH=\"$found:$PATH\"\n\
         [ \"$(id -u)\" = 0 ] || exec pg_ctl \"$@\"\n\
         chown -R postgres base\n\
         setpriv --reuid=postgres --regid=postgres --clear-groups \"$(which pg_ctl)\" \"$@\" && exit\n\
         cat base.log >&2; exit 1\n";
    program(desk, "own_pg_ctl", text);
    "own_pg_ctl".to_owned()
}

/// After a restore of the hot store from a copy older than its first cold store.
#[test]
fn a_pair_is_marked_again_after_an_older_copy_was_restored() {
    let mut desk = Desk::new();
    let (hot, cold) = (
        format!("sqlite:{}", desk.path("tasks.sqlite")),
        format!("sqlite:{}", desk.path("cold.sqlite")),
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let create = |url: &str| format!("{url}?create=true");
    runtime.block_on(async {
        let new = create(&hot);
        let tasks = delayq_plugin::TaskSubmitService::connect(&new, StoreOptions::default());
        let tasks = tasks.await.unwrap();
        let job = DelayQueueJob::raw("order.cancel", "{}").id("stays");
        tasks.send(job.after(hours(1))).await.unwrap();
        tasks.close().await;
    });
    let sqlite = blocks("SQLite");
    desk.run(sqlite[0]);
    runtime.block_on(async {
        let store = delayq_plugin::ColdStore::new(create(&cold));
        let store = store.open(&hot, StoreOptions::default()).await.unwrap();
        let tasks = delayq_plugin::TaskSubmitService::new(store);
        let job = DelayQueueJob::raw("order.cancel", "{}").id("far");
        tasks.send(job.after(hours(48))).await.unwrap();
        tasks.close().await;
    });
    desk.run(sqlite[1]);
    let both =
        |code: i32, words: &[&str]| json(&hot, code, &[&["--cold-url", &cold], words].concat());
    both(2, &["types"]);
    desk.set("HOT", &hot);
    desk.set("COLD", &cold);
    let page = blocks("A hot and a cold store");
    // Nobody is there to be asked.
    let asked = both(1, &["pair"]);
    assert!(asked.is_null(), "{asked}");
    desk.run(page[0]);
    let list = both(0, &["list", "order.cancel"]);
    assert_eq!(list["tasks"].as_array().unwrap().len(), 2, "{list}");
    let again = both(0, &["pair", "--yes"]);
    assert_eq!(again["is_marked"], false, "{again}");
    desk.run(&format!(
        "! delayq --url '{cold}' --cold-url '{hot}' pair --yes"
    ));
}
