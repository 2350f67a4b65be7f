//! Damage of each kind: the audit finds it, mends it so that no task is lost, and finds nothing
//! then.

use std::path::PathBuf;
use std::time::Duration;

use delayq_core::store::{AttemptEnd, Settlement};
use delayq_core::{Error, Operate, Store, TaskState, Timestamp};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::soon;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use super::{
    accept, claim, id, job, key, open, options, raw, request, run, submit, task_type, whole,
};

const LONG: Duration = Duration::from_hours(1);

/// A server with a scheduled task `s`, a running one `r`, a dead one `k`, a retried one `t`.
async fn populated(server: &RedisServer) -> std::sync::Arc<RedisStore> {
    let store = open(server).await;
    for name in ["k", "r", "t"] {
        accept(&store, job(name)).await;
    }
    for task in claim(&store).await.unwrap().tasks {
        let error = "no".to_owned();
        let end = match task.lock.id.as_str() {
            "k" => AttemptEnd::Dead {
                error,
                succeeded: Vec::new(),
            },
            "t" => AttemptEnd::Retry {
                after: LONG,
                error,
                succeeded: Vec::new(),
            },
            _ => continue,
        };
        let lock = task.lock;
        store
            .settle(&whole(), vec![Settlement::new(lock, end)])
            .await
            .unwrap();
    }
    accept(&store, job("s").after(LONG)).await;
    store
}

async fn audit(store: &RedisStore, repair: bool) -> Vec<(String, String, bool)> {
    let report = store.audit(&task_type(), repair).await.unwrap();
    let problems = report.problems.into_iter();
    problems.map(|p| (p.id, p.what, p.repaired)).collect()
}

async fn state(store: &RedisStore, name: &str) -> Option<TaskState> {
    let found = store.find(&task_type(), &id(name)).await.unwrap();
    found.map(|task| task.state)
}

/// The damage, with the part of a key instead of the key · the task · what the audit says · its
/// state once mended, where it is known to the store.
const KINDS: &str = "
    ZREM due s              | s | is in no state                           | scheduled
    ZREM running r          | r | is in no state                           | running
    ZREM dead k             | k | is in no state                           | scheduled
    ZADD dead 1 s           | s | is in several states                     | scheduled
    ZADD due 1 r            | r | is in several states                     | running
    ZADD running 1 k        | k | is in several states                     |
    HDEL locks r            | r | runs without a lock                      | scheduled
    HSET locks s 1          | s | has a lock without running               | scheduled
    HSET trail t nonsense   | t | its trail is damaged                     | scheduled
    HSET meta fence 1       | r | its fence is above the largest one given | running
    ZADD due 9999999999999 x     | x | is scheduled without a record       |
    ZADD running 9999999999999 x | x | runs without a record               |
    ZADD dead 1 x           | x | is dead without a record                 |
    HSET locks x 1          | x | has a lock without a record              |
    HSET trail x 1          | x | has a trail without a record             |
    HSET gone x 1           | x | its remembered end is damaged            |
    HSET gone_old x 1       | x | its remembered end is damaged            |
    UNLINK types            | order.cancel | this type has tasks and is not listed |";

#[tokio::test]
async fn each_kind_of_structural_damage_is_found_and_mended() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    for line in KINDS.lines().skip(1) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [damage, name, what, after] = fields[..] else {
            panic!("{line}")
        };
        run::<()>(&mut redis, "FLUSHALL").await;
        let store = populated(&server).await;
        assert_eq!(audit(&store, false).await, []);
        run::<u64>(&mut redis, &with_key(damage)).await;
        let problem = |repaired| (name.to_owned(), what.to_owned(), repaired);
        assert!(
            audit(&store, false).await.contains(&problem(false)),
            "{line}"
        );
        assert!(audit(&store, true).await.contains(&problem(true)), "{line}");
        assert_eq!(audit(&store, false).await, [], "{line}");
        if !after.is_empty() {
            let found = state(&store, name).await.unwrap();
            assert_eq!(found.as_str(), after, "{line}");
        }
        for name in ["s", "r", "k", "t"] {
            assert!(state(&store, name).await.is_some(), "{line} lost {name}");
        }
    }
}

/// A command with the key in the place of its part.
fn with_key(command: &str) -> String {
    if command == "UNLINK types" {
        return "UNLINK delayq:{default}:types".to_owned();
    }
    let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    words[1] = key(&words[1]);
    words.join(" ")
}

/// Replaces `from` in the record of `name`.
async fn edit(redis: &mut MultiplexedConnection, name: &str, from: &str, to: &str) {
    let record: String = run(redis, &format!("HGET {} {name}", key("tasks"))).await;
    assert!(record.contains(from), "{record}");
    let mut command = redis::cmd("HSET");
    command
        .arg(key("tasks"))
        .arg(name)
        .arg(record.replacen(from, to, 1));
    command.exec_async(redis).await.unwrap();
}

/// Passes a connection on to a server. A request to bury a task is held: its release is sent to
/// `held`.
async fn hold_burials(
    mut client: TcpStream,
    port: u16,
    held: mpsc::UnboundedSender<oneshot::Sender<()>>,
) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let ((mut requests, mut answers), (mut from, mut to)) = (client.split(), server.split());
    let pass_requests = async {
        let mut chunk = vec![0; 64 << 10];
        while let Ok(length @ 1..) = requests.read(&mut chunk).await {
            if chunk[..length].windows(9).any(|word| word == b"corrupt: ") {
                let (release, released) = oneshot::channel();
                held.send(release).unwrap();
                released.await.unwrap();
            }
            to.write_all(&chunk[..length]).await.unwrap();
        }
    };
    tokio::join!(pass_requests, copy(&mut from, &mut answers))
        .1
        .unwrap();
}

#[tokio::test]
async fn a_task_that_is_replaced_while_the_audit_looks_at_it_is_not_buried() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, mut redis) = (open(&server).await, raw(&server).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let (sender, mut held) = mpsc::unbounded_channel();
    let port = server.port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(hold_burials(client, port, sender.clone()));
        }
    });
    let there = RedisStore::connect(&url, options()).await.unwrap();
    accept(&here, job("1").after(LONG)).await;
    edit(&mut redis, "1", "message", "massage").await;
    let replace = async {
        let release = soon("a burial", held.recv()).await.unwrap();
        let new = job("1").after(LONG).header("shop", "bonn").replace();
        submit(&here, new).await.unwrap();
        release.send(()).unwrap();
    };
    let (found, ()) = tokio::join!(audit(&there, true), replace);
    let problem = ("1".to_owned(), "its checksum is wrong".to_owned(), false);
    assert_eq!(found, [problem]);
    assert_eq!(state(&here, "1").await, Some(TaskState::Scheduled));
    assert_eq!(audit(&here, false).await, []);
}

#[tokio::test]
async fn a_damaged_record_can_be_looked_at_once_it_is_dead() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("1")).await;
    let mut redis = raw(&server).await;
    edit(&mut redis, "1", "message", "massage").await;
    let error = store.find(&task_type(), &id("1")).await.unwrap_err();
    let key = format!("{}, field 1", key("tasks"));
    assert_eq!(
        error.to_string(),
        format!("{key} is corrupt: its checksum is wrong")
    );
    assert_eq!(claim(&store).await.unwrap().ended.len(), 1);
    let dead = store.find(&task_type(), &id("1")).await.unwrap().unwrap();
    assert_eq!(dead.state, TaskState::Dead);
    assert_eq!(dead.message, Some(b"massage".to_vec()));
    assert_eq!(dead.attempt, 0, "it never started");
    let why = dead.history.last_error.unwrap();
    assert_eq!(why, "corrupt: its checksum is wrong");
    assert_eq!(audit(&store, false).await, []);
    let page = store
        .list(&task_type(), TaskState::Dead, None, 9)
        .await
        .unwrap();
    assert_eq!(page.tasks[0].message, Some(b"massage".to_vec()));
}

/// In a head: what stands there, and what damage leaves of it.
const IN_A_HEAD: [(&str, &str); 5] = [
    ("1{", "x{"),
    ("\"s\":", "\"s\":x"),
    ("\"a\"", "\"b\""),
    ("\"c\":\"", "\"c\":\"x"),
    ("}\n", "}"),
];

#[tokio::test]
async fn a_task_whose_head_is_damaged_is_given_no_new_message() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    for (from, to) in IN_A_HEAD {
        run::<()>(&mut redis, "FLUSHALL").await;
        accept(&store, job("1").after(LONG)).await;
        edit(&mut redis, "1", from, to).await;
        let get = format!("HGET {} 1", key("tasks"));
        let before: String = run(&mut redis, &get).await;
        let refused = store.update(&task_type(), &id("1"), b"new".to_vec()).await;
        let said = refused.unwrap_err().to_string();
        assert!(said.ends_with("its head is damaged"), "{from}: {said}");
        let after: String = run(&mut redis, &get).await;
        assert_eq!(after, before);
    }
}

#[tokio::test]
async fn damage_anywhere_in_a_head_blocks_no_claim() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    for (from, to) in IN_A_HEAD {
        run::<()>(&mut redis, "FLUSHALL").await;
        let store = open(&server).await;
        for name in ["1", "2", "3"] {
            accept(&store, job(name)).await;
        }
        edit(&mut redis, "2", from, to).await;
        let claimed = claim(&store).await.unwrap();
        assert_eq!((claimed.tasks.len(), claimed.ended.len()), (2, 1), "{from}");
        let dead = store
            .list(&task_type(), TaskState::Dead, None, 9)
            .await
            .unwrap();
        assert_eq!(dead.tasks[0].id, id("2"));
    }
}

#[tokio::test]
async fn a_poison_task_that_stands_in_two_places_leaves_both() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (mut redis, store) = (raw(&server).await, open(&server).await);
    accept(&store, job("1")).await;
    assert_eq!(claim(&store).await.unwrap().tasks.len(), 1);
    run::<()>(&mut redis, &format!("ZADD {} 1 1", key("running"))).await;
    run::<()>(&mut redis, &format!("ZADD {} 9999999999999 1", key("due"))).await;
    let mut trail = redis::cmd("HSET");
    trail.arg(key("trail")).arg("1").arg("1 0 2 0 0 0 \n-");
    trail.exec_async(&mut redis).await.unwrap();
    assert_eq!(claim(&store).await.unwrap().ended.len(), 1);
    let left: Option<f64> = run(&mut redis, &format!("ZSCORE {} 1", key("due"))).await;
    assert_eq!(left, None);
    let audit = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(audit.problems, []);
}

#[tokio::test]
async fn a_record_of_a_newer_release_is_left_to_it() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    accept(&store, job("1")).await;
    edit(&mut redis, "1", "1{", "2{").await;
    let expected = Error::Incompatible {
        what: format!("{}, field 1", key("tasks")),
        found: 2,
        supported: 1,
    };
    assert_eq!(
        store.find(&task_type(), &id("1")).await,
        Err(expected.clone())
    );
    assert_eq!(claim(&store).await, Err(expected));
    // It blocks nobody, and is asked for again in a second.
    accept(&store, job("2")).await;
    let claimed = claim(&store).await.unwrap();
    assert_eq!(claimed.tasks.len(), 1);
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.dead), (1, 0));
    let soon = stats.now.plus(Duration::from_secs(2));
    assert!(
        stats
            .next_due
            .is_some_and(|due_at: Timestamp| due_at > stats.now && due_at <= soon)
    );
    assert_eq!(audit(&store, false).await, []);
}

#[tokio::test]
async fn a_record_of_a_newer_release_whose_lock_has_expired_is_put_off_too() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    accept(&store, job("1")).await;
    assert_eq!(claim(&store).await.unwrap().tasks.len(), 1);
    edit(&mut redis, "1", "1{", "2{").await;
    let running = key("running");
    run::<()>(&mut redis, &format!("ZADD {running} 1 1")).await;
    accept(&store, job("2")).await;
    let claimed = claim(&store).await.unwrap();
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (1, 0));
    assert_eq!(claimed.tasks[0].lock.id, id("2"));
    let next_in = claimed.next_in.unwrap();
    assert!(
        next_in > Duration::ZERO && next_in <= Duration::from_secs(1),
        "{next_in:?}"
    );
}

#[tokio::test]
async fn a_record_whose_id_is_none_is_named_although_it_is_whole() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("1").after(LONG)).await;
    let mut redis = raw(&server).await;
    let record: Vec<u8> = run(&mut redis, &format!("HGET {} 1", key("tasks"))).await;
    let mut copy = redis::cmd("HSET");
    copy.arg(key("tasks")).arg("a b").arg(record);
    copy.exec_async(&mut redis).await.unwrap();
    let mut index = redis::cmd("ZADD");
    index.arg(key("due")).arg(9_000_000_000_000_u64).arg("a b");
    index.exec_async(&mut redis).await.unwrap();
    let problem = ("a b".to_owned(), "is not a task id".to_owned(), false);
    assert_eq!(audit(&store, false).await, [problem]);
}

/// The commands of an append-only file: where each begins, and its words.
fn commands(file: &[u8]) -> Vec<(usize, Vec<String>)> {
    let (mut commands, mut at) = (Vec::new(), 0);
    let number = |at: &mut usize| -> usize {
        let line = file[*at..].split(|byte| *byte == b'\r').next().unwrap();
        *at += line.len() + 2;
        std::str::from_utf8(&line[1..]).unwrap().parse().unwrap()
    };
    while at < file.len() {
        let begin = at;
        let words = (0..number(&mut at)).map(|_| {
            let long = number(&mut at);
            let word = String::from_utf8_lossy(&file[at..at + long]).into_owned();
            at += long + 2;
            word
        });
        commands.push((begin, words.collect()));
    }
    commands
}

/// As a power loss may leave one between two parts of the file, while the server is rewriting it.
#[tokio::test]
async fn a_hole_in_the_append_only_file_undoes_what_was_in_it_and_nothing_else() {
    let mut server = RedisServer::start(Persistence::Always, &["--aof-use-rdb-preamble", "no"]);
    let store = open(&server).await;
    for name in ["1", "2", "3"] {
        accept(&store, job(name)).await;
    }
    for (limit, names) in [(2, vec![id("1"), id("2")]), (1, vec![id("3")])] {
        let mut request = request();
        request.limit = limit;
        let claimed = store.claim(&whole(), &request).await.unwrap();
        let ids: Vec<_> = claimed.tasks.into_iter().map(|task| task.lock.id).collect();
        assert_eq!(ids, names);
    }
    server.kill();
    let files = server.folder().join("appendonlydir").read_dir().unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let ends_so = |path: &PathBuf| path.to_string_lossy().ends_with(".incr.aof");
    let path = files.find(ends_so).unwrap();
    let mut file = std::fs::read(&path).unwrap();
    let commands = commands(&file);
    let is_first_claim = |words: &[String]| words[0] == "ZADD" && words[1] == key("running");
    let of_claim = commands.iter().position(|(_, words)| is_first_claim(words));
    let (before, after) = commands.split_at(of_claim.unwrap());
    let begin = before
        .iter()
        .rfind(|(_, words)| words[0] == "MULTI")
        .unwrap();
    let end = after.iter().find(|(_, words)| words[0] == "MULTI").unwrap();
    file.drain(begin.0..end.0);
    std::fs::write(&path, file).unwrap();
    server.restart();
    let store = open(&server).await;
    assert_eq!(state(&store, "3").await, Some(TaskState::Running));
    let claimed = claim(&store).await.unwrap().tasks;
    let ids: Vec<_> = claimed.into_iter().map(|task| task.lock.id).collect();
    assert_eq!(ids, [id("1"), id("2")]);
    assert_eq!(audit(&store, false).await, []);
}
