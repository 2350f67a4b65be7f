//! Very many tasks that are due in the same millisecond.

use std::time::{Duration, Instant};

use delayq_plugin::{
    Clock, DelayQueueJob, DelayQueuePlugin, SystemClock, TaskState, Timestamp, millis, seconds,
};
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::{Starts, serve};

/// The sizes at which Lua's `unpack` and Redis' own limits have been met by others, and one far
/// above.
const SIZES: &[usize] = if cfg!(feature = "soak") {
    &[8_000, 8_001, 100_000]
} else {
    &[8_001]
};
/// Far above what any of them takes, also on a machine with other things to do.
const PATIENCE: Duration = seconds(240);
/// Within what another type's tasks are done while the herd runs, but for a quarter of them: the
/// machine may be busy with other tests. One that waits for the herd would be late each time.
const OTHERS_LATENESS: Duration = seconds(2);

/// Sends a herd that is due at `due_at`.
async fn gather(plugin: &DelayQueuePlugin, task_type: &str, count: usize, due_at: Timestamp) {
    let tasks = plugin.submit_service();
    for from in (0..count).step_by(1_000) {
        let job = |n: usize| {
            DelayQueueJob::raw(task_type, "m")
                .id(n.to_string())
                .at(due_at)
        };
        let jobs = (from..count.min(from + 1_000)).map(job).collect();
        for receipt in tasks.send_all(jobs).await {
            assert_eq!(receipt.unwrap().due_at(), Some(due_at));
        }
    }
}

/// The start of a task of another type, measured again and again until the herd has run.
async fn herd(plugin: &DelayQueuePlugin, starts: &Starts, count: usize) {
    let task_type = format!("herd-{count}");
    // They are gathered before it comes, also on a busy machine.
    let due_at = SystemClock.now().plus(millis(4_000 + count as u64 / 2));
    gather(plugin, &task_type, count, due_at).await;
    let gathered = SystemClock.now();
    assert!(gathered < due_at, "{:?} late", gathered.since(due_at));
    SystemClock
        .sleep_until(SystemClock.elapsed() + due_at.since(gathered))
        .await;
    let began = Instant::now();
    let prefix = format!("{task_type}/");
    let mut late = Vec::new();
    loop {
        let sent = Instant::now();
        other_works(plugin, &format!("{count}-{}", late.len())).await;
        late.push(sent.elapsed());
        let ran = starts_of(starts, &prefix).len();
        if ran == count {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{ran} of {count} started");
    }
    late.sort_unstable();
    println!(
        "{count}: all started after {:?}; {} of another type, the slowest {:?}",
        began.elapsed(),
        late.len(),
        late.last()
    );
    let last = delayq_tests::rig::until("the last one is settled", async || {
        let found = plugin.submit_service().stats(&task_type).await.ok()?;
        (found.scheduled + found.running == 0).then_some(found)
    })
    .await;
    assert_eq!(last.dead, 0);
    let once = starts_of(starts, &prefix).iter().all(|times| *times == 1);
    assert!(once, "each starts once");
    let usual = late[late.len() * 3 / 4];
    assert!(usual <= OTHERS_LATENESS, "another type waited for {late:?}");
    let audit = plugin
        .submit_service()
        .audit(&task_type, false)
        .await
        .unwrap();
    assert_eq!(audit.problems, []);
}

/// How often each task was started whose name begins so.
fn starts_of(starts: &Starts, prefix: &str) -> Vec<u32> {
    let all = starts.lock().unwrap();
    let meant = all.iter().filter(|(name, _)| name.starts_with(prefix));
    meant.map(|(_, times)| *times).collect()
}

async fn other_works(plugin: &DelayQueuePlugin, id: &str) {
    let tasks = plugin.submit_service();
    tasks
        .send(DelayQueueJob::raw("other", "m").id(id))
        .await
        .unwrap();
    delayq_tests::rig::until("the other type's task is done", async || {
        let found = tasks.find("other", id).await.ok()??;
        (found.state == TaskState::Done).then_some(())
    })
    .await;
}

async fn herds(url: &str) {
    let types: Vec<_> = SIZES.iter().map(|count| format!("herd-{count}")).collect();
    let mut served = vec!["other"];
    served.extend(types.iter().map(String::as_str));
    let (plugin, starts) = serve(url, &served).await;
    for &count in SIZES {
        herd(&plugin, &starts, count).await;
    }
    plugin.shutdown(Duration::ZERO).await;
}

/// How long the server has waited for a processor that others had, in microseconds; `None` where
/// the system does not tell.
fn waited(server: &RedisServer) -> Option<u64> {
    let pid = server.pid().unwrap();
    let told = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).ok()?;
    let nanos: u64 = told.split_whitespace().nth(1)?.parse().ok()?;
    Some(nanos / 1_000)
}

/// An entry of the log of slow calls: its number, when, how long, the call, and who called.
type Slow = (u64, u64, u64, Vec<String>, String, String);

/// The calls of scripts that took more than 5 ms, in microseconds each.
fn slow_scripts(server: &RedisServer) -> Vec<u64> {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut log = redis::cmd("SLOWLOG");
    let slow: Vec<Slow> = log.arg("GET").arg(-1).query(&mut connection).unwrap();
    let scripts = slow
        .iter()
        .filter(|(_, _, _, call, ..)| call[0] == "EVALSHA");
    scripts.map(|(_, _, micros, ..)| *micros).collect()
}

#[tokio::test]
async fn a_herd_on_redis_runs_once_starves_nobody_and_no_call_is_slow() {
    let settings = [
        "--slowlog-log-slower-than",
        "5000",
        "--slowlog-max-len",
        "100000",
    ];
    let server = RedisServer::start(Persistence::EverySecond, &settings);
    herds(&server.url()).await;
    let slow = slow_scripts(&server);
    let (total, worst) = (slow.iter().sum::<u64>(), slow.iter().max());
    println!(
        "{} calls took more than 5 ms: {total} us, the longest {worst:?} us",
        slow.len()
    );
    // The log tells the time on the wall: a machine with other things to do makes calls slow. A
    // call that is slow by itself is slow though the server never waits for a processor, and each
    // time.
    if let Some(waited) = waited(&server) {
        println!("the server waited for a processor for {waited} us");
        assert!(total <= waited, "calls are slow by themselves");
    }
    let batches = SIZES.iter().sum::<usize>() * 3 / delayq_plugin::store::MAX_BATCH;
    assert!(
        slow.len() * 2 <= batches,
        "{} of {batches} batches are slow",
        slow.len()
    );
}

#[tokio::test]
async fn a_herd_on_sqlite_runs_once_and_starves_nobody() {
    let folder = tempfile::tempdir().unwrap();
    herds(&format!(
        "sqlite:{}",
        folder.path().join("herd.sqlite").display()
    ))
    .await;
}
