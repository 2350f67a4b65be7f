//! Notes of settlements beside processes of an earlier release, which know nothing of them.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, Settlement};
use delayq_core::{ClaimedTask, Operate, Store, TaskInfo};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::aio::MultiplexedConnection;

use super::{accept, claim, id, job, key, open, raw, task_type, whole};

/// What an earlier release does with the trail of a task whose attempt failed, or whose lock
/// expired (without an error); returns the error that it shows.
const EARLIER: &str = r"
local trail = redis.call('HGET', KEYS[1], ARGV[1])
local head, error = string.match(trail, '^(1 %d+ %d+ %d+ %d+ %d+ [^\n]*\n)([-+].*)$')
local last, log = error, ''
local at, later = nil, string.find(error, '\30', 1, true)
while later do
  at, later = later, string.find(error, '\30', later + 1, true)
end
if at and string.find(error, '^%d+ %d+ %d+ ', at + 1) then
  last, log = string.sub(error, 1, at - 1), string.sub(error, at + 1)
end
log = '1767225600000 1 0 ' .. ARGV[2] .. '\31' .. '17 - -\n' .. log
local stop = 0
for _ = 1, 5 do
  stop = string.find(log, '\n', stop + 1, true) or #log
end
local shown = ARGV[2] ~= '' and '+' .. ARGV[2] or last
redis.call('HSET', KEYS[1], ARGV[1], head .. shown .. '\30' .. string.sub(log, 1, stop))
return last
";

async fn earlier(connection: &mut MultiplexedConnection, error: &str) -> String {
    let mut eval = redis::cmd("EVAL");
    eval.arg(EARLIER).arg(1).arg(key("trail"));
    eval.arg("1").arg(error);
    eval.query_async(connection).await.unwrap()
}

async fn retry(store: &RedisStore, task: ClaimedTask, note: Option<&str>) {
    let (error, succeeded) = ("no van".to_owned(), Vec::new());
    let end = AttemptEnd::Retry {
        after: Duration::ZERO,
        error,
        succeeded,
    };
    let mut settlement = Settlement::new(task.lock, end);
    settlement.note = note.map(str::to_owned);
    store.settle(&whole(), vec![settlement]).await.unwrap();
}

async fn find(store: &RedisStore) -> TaskInfo {
    store.find(&task_type(), &id("1")).await.unwrap().unwrap()
}

async fn run_one(store: &RedisStore) -> ClaimedTask {
    claim(store).await.unwrap().tasks.remove(0)
}

#[tokio::test]
async fn a_process_of_an_earlier_release_shows_the_error_alone_and_keeps_the_note_for_some_errors()
{
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("1")).await;
    let task = run_one(&store).await;
    retry(&store, task, Some("pri=7")).await;
    let mut connection = raw(&server).await;
    assert_eq!(earlier(&mut connection, "").await, "+no van");
    for error in ["a", "b"] {
        earlier(&mut connection, error).await;
        let info = find(&store).await;
        assert_eq!(info.history.note.as_deref(), Some("pri=7"), "{error}");
        assert_eq!(info.history.last_error.as_deref(), Some(error));
    }
    assert_eq!(earlier(&mut connection, "c").await, "+b");
    let info = find(&store).await;
    assert_eq!((info.history.note, info.errors.len()), (None, 5));
    let task = run_one(&store).await;
    assert_eq!(task.history.last_error.as_deref(), Some("c"));
    retry(&store, task, Some("pri=8")).await;
    let info = find(&store).await;
    assert_eq!(info.history.note.as_deref(), Some("pri=8"));
    let errors: Vec<_> = info.errors.iter().map(|error| &*error.error).collect();
    assert_eq!(errors, ["no van", "c", "b", "a", ""]);
}

/// It has no error that the note could stand behind.
#[tokio::test]
async fn a_process_of_an_earlier_release_takes_a_note_for_no_error() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("1")).await;
    let (after, succeeded) = (Duration::ZERO, Vec::new());
    let end = AttemptEnd::Release { after, succeeded };
    let lock = run_one(&store).await.lock;
    let settlement = Settlement::new(lock, end).with_note("pri=7");
    store.settle(&whole(), vec![settlement]).await.unwrap();
    assert_eq!(find(&store).await.history.note.as_deref(), Some("pri=7"));
    let mut connection = raw(&server).await;
    assert!(earlier(&mut connection, "").await.starts_with('-'));
    let info = find(&store).await;
    assert_eq!((info.history.last_error, info.errors.len()), (None, 1));
    let task = run_one(&store).await;
    retry(&store, task, Some("pri=8")).await;
    let history = find(&store).await.history;
    assert_eq!(history.note.as_deref(), Some("pri=8"));
    assert_eq!(history.last_error.as_deref(), Some("no van"));
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
}
