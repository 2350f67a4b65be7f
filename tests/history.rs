//! History: what became of every task, against the log of the workers themselves.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests: a panic is a failure"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_core::Bucket;
use delayq_core::history::{EndPosition, WaitingEnd};
use delayq_core::store::{ClaimRequest, Layer, StoreOptions};
#[cfg(feature = "soak")]
use delayq_core::{
    NewTask,
    store::{AttemptEnd, Durability, Settlement},
};
use delayq_plugin::history::{
    FOREVER, Forget, HistoryQuery, HistoryRetention, HistoryStore, KeptMessage, Life, LifeOutcome,
    concern_of_records,
};
use delayq_plugin::store::TypeSettings;
use delayq_plugin::{
    Clock, DelayQueueJob, DelayQueuePlugin, Error, Namespace, PastError, Result, RetryPolicy,
    Store, SystemClock, TaskContext, TaskError, TaskId, TaskResult, TaskSubmitService, TaskType,
    TaskWorker, Timestamp, TypePattern, WorkerOptions, async_trait, days, hours, millis, minutes,
    open_store, seconds,
};
use delayq_tests::mariadb_server::MariadbServer;
use delayq_tests::postgres_server::PostgresServer;
#[cfg(feature = "soak")]
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;
use tempfile::TempDir;

const TYPE: &str = "order.cancel";
const TIMEOUT: Duration = seconds(5);

/// What the workers say that they did: by id, the starts, and the last error.
type Log = Arc<Mutex<BTreeMap<String, (u32, Option<String>)>>>;

/// Does what the id says, and writes it down.
struct Obedient(Log);

#[async_trait]
impl TaskWorker for Obedient {
    async fn invoke(&self, _: &str, cx: &TaskContext) -> TaskResult {
        let id = cx.id().to_string();
        let first = cx.attempt() == 1;
        let error = match id.split('-').next() {
            Some("dead") => Some((true, format!("no such order: {id}"))),
            Some("retry") if first => Some((false, format!("busy: {id}"))),
            _ => None,
        };
        let mut log = self.0.lock().unwrap();
        let (starts, last) = log.entry(id).or_default();
        *starts += 1;
        match error {
            None => Ok(()),
            Some((is_final, text)) => {
                *last = Some(text.clone());
                Err(if is_final {
                    TaskError::dead(text)
                } else {
                    TaskError::retry(text)
                })
            }
        }
    }
}

/// A plugin whose workers obey, and write into this log.
async fn start(store: Arc<dyn Store>, history: &str, log: &Log) -> DelayQueuePlugin {
    let options = WorkerOptions {
        retry: RetryPolicy {
            base: millis(1),
            ..RetryPolicy::DEFAULT
        },
        ..WorkerOptions::DEFAULT
    };
    let plugin = DelayQueuePlugin::builder()
        .store(store)
        .history(history)
        .without_registered_workers()
        .worker(TYPE, options, Obedient(Arc::clone(log)))
        .start();
    plugin.await.unwrap()
}

/// How the tasks of one round end, by the word that their ids begin with.
const KINDS: [(&str, LifeOutcome); 5] = [
    ("ok", LifeOutcome::Done),
    ("retry", LifeOutcome::Done),
    ("dead", LifeOutcome::Dead),
    ("cancel", LifeOutcome::Cancelled),
    ("expire", LifeOutcome::Expired),
];

/// Sends tasks of every kind. Returns the ends that they are meant to have.
async fn send(tasks: &TaskSubmitService, round: u32) -> BTreeMap<String, LifeOutcome> {
    let mut meant = BTreeMap::new();
    for n in 0..8 {
        for (kind, outcome) in KINDS {
            let id = format!("{kind}-{round}-{n}");
            let group = format!("tenant-{n}");
            let job = DelayQueueJob::raw(TYPE, id.as_str())
                .id(id.as_str())
                .group(group);
            let job = match kind {
                "cancel" => job.after(hours(1)),
                "expire" => {
                    let soon = SystemClock.now().plus(millis(1));
                    job.after(millis(30)).expires_at(soon)
                }
                _ => job,
            };
            tasks.send(job).await.unwrap();
            if kind == "cancel" {
                let _ = tasks.cancel(TYPE, &id).await.unwrap();
            }
            meant.insert(id, outcome);
        }
    }
    meant
}

/// All lives in a history.
async fn all(history: &HistoryStore) -> Vec<Life> {
    let (mut lives, mut query) = (Vec::new(), HistoryQuery::default());
    query.limit = 7;
    loop {
        let page = history.search(&query).await.unwrap();
        lives.extend(page.lives);
        query.after = page.next;
        if page.next.is_none() {
            return lives;
        }
    }
}

/// Returns once this many records are in the history, and none waits in the store.
async fn shipped(store: &dyn Store, history: &HistoryStore, count: usize) -> Vec<Life> {
    until("everything in the history", || async {
        let waiting = store.ends_status().await.unwrap().waiting;
        let lives = match history.search(&HistoryQuery::default()).await {
            Ok(_) if waiting == 0 => all(history).await,
            _ => return None,
        };
        (lives.len() >= count).then_some(lives)
    })
    .await
}

/// The history has each end once, as the workers and the sender know it.
fn compare(lives: &[Life], meant: &BTreeMap<String, LifeOutcome>, log: &Log) {
    let log = log.lock().unwrap();
    assert_eq!(lives.len(), meant.len(), "one life each");
    for (id, outcome) in meant {
        let mut found = lives.iter().filter(|life| life.id.as_str() == id);
        let life = found.next().unwrap_or_else(|| panic!("{id} is missing"));
        assert!(found.next().is_none(), "{id} is there twice");
        let (starts, error) = log.get(id).cloned().unwrap_or_default();
        assert_eq!(
            (life.outcome, life.attempts),
            (*outcome, starts),
            "{life:?}"
        );
        assert_eq!(life.error, error, "{id}");
        assert_eq!(life.fence > 0, starts > 0);
        let tenant = id.rsplit('-').next().unwrap();
        assert_eq!(life.group.as_deref(), Some(&*format!("tenant-{tenant}")));
        assert!(life.submitted_at <= life.ended_at && life.message.is_none());
    }
    let newest_first = lives
        .windows(2)
        .all(|two| two[0].ended_at >= two[1].ended_at);
    assert!(newest_first);
}

fn history_at(url: &str) -> HistoryStore {
    HistoryStore::at(url, Namespace::default(), TIMEOUT).unwrap()
}

async fn store_at(url: &str) -> Arc<dyn Store> {
    open_store(url, StoreOptions::default()).await.unwrap()
}

fn file(folder: &TempDir, name: &str) -> String {
    format!("sqlite:{}", folder.path().join(name).display())
}

/// A database of its own on the shared server.
fn database() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("history_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let server = PostgresServer::shared();
    server.create_database(&name);
    server.url_of(&name)
}

/// The same on the shared server of MariaDB.
fn mariadb() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("history_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let server = MariadbServer::shared();
    server.create_database(&name);
    server.url_of(&name)
}

async fn equals_the_log(store: &str, history: &str) {
    let store = store_at(store).await;
    let log = Log::default();
    let plugin = start(Arc::clone(&store), history, &log).await;
    let tasks = plugin.submit_service();
    let meant = send(&tasks, 0).await;
    let kept = history_at(history);
    let lives = shipped(&*store, &kept, meant.len()).await;
    compare(&lives, &meant, &log);
    let fate = tasks.history().unwrap();
    let fate = fate.what_became_of(TYPE, "retry-0-3").await.unwrap();
    assert_eq!(fate.lives.len(), 1);
    assert_eq!(fate.lives[0].attempts, 2);
    let health = plugin.health().await.history.unwrap();
    assert_eq!(
        (health.shipped, health.waiting.lost),
        (meant.len() as u64, 0)
    );
    plugin.shutdown(TIMEOUT).await;
}

#[tokio::test]
async fn the_history_equals_the_log_of_the_workers_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    equals_the_log(&file(&folder, "tasks"), &file(&folder, "history")).await;
}

#[tokio::test]
async fn the_history_equals_the_log_of_the_workers_on_postgres() {
    // Both in one database, in schemas of their own.
    let database = database();
    equals_the_log(&database, &database).await;
}

#[tokio::test]
async fn the_history_equals_the_log_of_the_workers_on_mariadb() {
    let folder = tempfile::tempdir().unwrap();
    equals_the_log(&file(&folder, "tasks"), &mariadb()).await;
}

#[tokio::test]
async fn while_the_history_is_away_nothing_is_lost_and_nothing_is_there_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = PostgresServer::start(&[]);
    let store = store_at(&file(&folder, "tasks")).await;
    let url = server.url();
    let log = Log::default();
    let plugin = start(Arc::clone(&store), &url, &log).await;
    // A second instance ships beside it.
    let other = start(store_at(&file(&folder, "tasks")).await, &url, &log).await;
    let tasks = plugin.submit_service();
    let mut meant = send(&tasks, 0).await;
    shipped(&*store, &history_at(&url), meant.len()).await;
    server.kill();
    meant.extend(send(&tasks, 1).await);
    let half = meant.len() as u64 / 2;
    until("ends that wait", || async {
        let waiting = store.ends_status().await.unwrap().waiting;
        (waiting == half).then_some(())
    })
    .await;
    until("the concern", || async {
        let health = plugin.health().await;
        let told = health
            .concerns
            .iter()
            .any(|one| one.found.contains("behind"));
        (told && health.is_ok()).then_some(())
    })
    .await;
    server.restart();
    let lives = shipped(&*store, &history_at(&url), meant.len()).await;
    compare(&lives, &meant, &log);
    assert_eq!(store.ends_status().await.unwrap().lost, 0);
    plugin.shutdown(TIMEOUT).await;
    other.shutdown(TIMEOUT).await;
}

/// A store whose records are not removed the first times: as if the process that had shipped them
/// died before.
#[derive(Debug)]
struct Forgetful {
    inner: Arc<dyn Store>,
    left: AtomicUsize,
}

impl Layer for Forgetful {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
            return Err(Error::unavailable("here", "killed"));
        }
        self.inner.remove_ends(positions).await
    }
}

#[tokio::test]
async fn a_crash_between_the_record_and_the_removal_stores_each_life_once() {
    let folder = tempfile::tempdir().unwrap();
    let inner = store_at(&file(&folder, "tasks")).await;
    let left = AtomicUsize::new(2);
    let store: Arc<dyn Store> = Arc::new(Forgetful { inner, left });
    let history = file(&folder, "history");
    let log = Log::default();
    let plugin = start(Arc::clone(&store), &history, &log).await;
    let meant = send(&plugin.submit_service(), 0).await;
    let lives = shipped(&*store, &history_at(&history), meant.len()).await;
    compare(&lives, &meant, &log);
    plugin.shutdown(TIMEOUT).await;
}

#[tokio::test]
async fn a_store_that_records_no_ends_is_refused_with_what_to_do() {
    let url = "sqlite:never-made";
    let store = Arc::new(delayq_tests::sharded_memory::ShardedMemory::new(
        Arc::new(SystemClock),
        2,
    ));
    let plugin = DelayQueuePlugin::builder()
        .store(store)
        .history(url)
        .without_registered_workers()
        .worker(TYPE, WorkerOptions::DEFAULT, Obedient(Log::default()))
        .start();
    let error = plugin.await.unwrap_err().to_string();
    assert!(error.contains("leave `history` out"), "{error}");
    for bad in ["history", "sqlite:", "oracle://u:secret@h/d", "postgres://"] {
        let refused = HistoryStore::at(bad, Namespace::default(), TIMEOUT).unwrap_err();
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}

/// A life that ended at this time.
fn life(id: &str, outcome: LifeOutcome, ended_at: Timestamp) -> Life {
    let (task_type, id) = (TaskType::new(TYPE).unwrap(), TaskId::new(id).unwrap());
    let mut life = Life::new(task_type, id, outcome, ended_at);
    life.submitted_at = ended_at.minus(hours(1));
    life.due_at = ended_at.minus(seconds(100));
    life.started_at = Some(ended_at.minus(seconds(40)));
    life.run_ms = Some(40_000);
    (life.fence, life.attempts) = (9, 1);
    life
}

async fn keeps_each_life_once(url: &str) {
    let (history, now) = (history_at(url), SystemClock.now());
    let names = HistoryStore::at(url, Namespace::new("names").unwrap(), TIMEOUT).unwrap();
    let alike = [
        ("A", "t"),
        ("a", "T"),
        ("a~", "t "),
        ("a!", "\u{e9}"),
        ("aa", "e\u{301}"),
    ];
    let lives = alike.map(|(id, group)| {
        let mut life = life(id, LifeOutcome::Done, now.minus(hours(3)));
        life.group = Some(group.to_owned());
        life
    });
    assert_eq!(
        names.record(&lives).await,
        Ok(5),
        "names differ by any byte"
    );
    for life in &lives {
        let found = names.lives(&life.task_type, &life.id).await;
        assert_eq!(found, Ok(vec![life.clone()]));
        let same = |query: &mut HistoryQuery| query.group.clone_from(&life.group);
        assert_eq!(ids(&names, same).await, [life.id.as_str()]);
    }
    let first = life("1", LifeOutcome::Done, now);
    let mut later = first.clone();
    later.fence += 1;
    let mut discarded = first.clone();
    discarded.outcome = LifeOutcome::Discarded;
    let lives = [first.clone(), later, discarded];
    assert_eq!(history.record(&lives).await, Ok(3));
    assert_eq!(history.record(&lives).await, Ok(0));
    assert_eq!(history.record(&lives[..1]).await, Ok(0));
    assert_eq!(all(&history).await.len(), 3);
    let mut full = life("2", LifeOutcome::Dead, now.minus(hours(2)));
    (full.group, full.project) = (Some("tenant \u{1F600}".to_owned()), Some("shop".to_owned()));
    (full.holder, full.error) = (
        Some("host".to_owned()),
        Some("a 'quoted' % error".to_owned()),
    );
    let mut past = PastError::new(now, 1, "a");
    past.started_at = Some(now.minus(hours(3)));
    full.errors = vec![past];
    (full.message, full.message_bytes) = (Some(vec![0, 255, 7]), 9);
    assert_eq!(history.record(&[full.clone()]).await, Ok(1));
    let found = history.lives(&full.task_type, &full.id).await;
    assert_eq!(found, Ok(vec![full]));
    let other = HistoryStore::at(url, Namespace::new("other").unwrap(), TIMEOUT).unwrap();
    assert_eq!(other.record(&[first]).await, Ok(1));
    assert_eq!(all(&other).await.len(), 1);
    let status = history.status().await.unwrap();
    let oldest = Some(now.minus(hours(2)));
    assert_eq!((status.oldest, status.newest), (oldest, Some(now)));
}

#[tokio::test]
async fn a_life_is_stored_once_and_read_as_it_was_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    keeps_each_life_once(&file(&folder, "history")).await;
}

#[tokio::test]
async fn a_life_is_stored_once_and_read_as_it_was_on_postgres() {
    keeps_each_life_once(&database()).await;
}

#[tokio::test]
async fn a_life_is_stored_once_and_read_as_it_was_on_mariadb() {
    keeps_each_life_once(&mariadb()).await;
}

async fn ids(history: &HistoryStore, change: impl FnOnce(&mut HistoryQuery)) -> Vec<String> {
    let mut query = HistoryQuery::default();
    change(&mut query);
    let page = history.search(&query).await.unwrap();
    page.lives.iter().map(|life| life.id.to_string()).collect()
}

async fn is_searched(url: &str) {
    let (history, now) = (history_at(url), SystemClock.now());
    let mut lives = Vec::new();
    for (n, outcome) in LifeOutcome::ALL.into_iter().enumerate() {
        let ago = days(20) * u32::try_from(n).unwrap();
        lives.push(life(&n.to_string(), outcome, now.minus(ago)));
    }
    lives[1].error = Some("no such order: 100% gone".to_owned());
    (lives[2].group, lives[2].project) = (Some("t".to_owned()), Some("p".to_owned()));
    lives[3].started_at = Some(lives[3].due_at);
    lives[4].run_ms = Some(10);
    assert_eq!(history.record(&lives).await, Ok(5));
    assert_eq!(ids(&history, |_| {}).await, ["0", "1", "2", "3", "4"]);
    assert_eq!(ids(&history, |query| query.limit = 2).await, ["0", "1"]);
    assert_eq!(all(&history).await, lives);
    let group = |query: &mut HistoryQuery| query.group = Some("t".to_owned());
    assert_eq!(ids(&history, group).await, ["2"]);
    let project = |query: &mut HistoryQuery| query.project = Some("p".to_owned());
    assert_eq!(ids(&history, project).await, ["2"]);
    let error = |query: &mut HistoryQuery| query.error = Some("100% g".to_owned());
    assert_eq!(ids(&history, error).await, ["1"]);
    let nothing = |query: &mut HistoryQuery| query.error = Some("%".repeat(2));
    assert_eq!(ids(&history, nothing).await, [""; 0]);
    let outcomes = |query: &mut HistoryQuery| {
        query.outcomes = vec![LifeOutcome::Dead, LifeOutcome::Cancelled];
    };
    assert_eq!(ids(&history, outcomes).await, ["1", "3"]);
    let late = |query: &mut HistoryQuery| query.late_by = Some(seconds(59));
    assert_eq!(ids(&history, late).await, ["0", "1", "2", "4"]);
    let long = |query: &mut HistoryQuery| query.longer_than = Some(seconds(39));
    assert_eq!(ids(&history, long).await, ["0", "1", "2", "3"]);
    let span = |query: &mut HistoryQuery| {
        (query.since, query.until) = (Some(now.minus(days(60))), Some(now.minus(days(19))));
    };
    assert_eq!(ids(&history, span).await, ["1", "2", "3"]);
    let of_type = |query: &mut HistoryQuery| query.task_type = Some(TaskType::new("x").unwrap());
    assert_eq!(ids(&history, of_type).await, [""; 0]);
    let mut empty = HistoryQuery::default();
    empty.group = Some(" ".to_owned());
    assert!(history.search(&empty).await.is_err());
}

#[tokio::test]
async fn lives_are_found_by_every_condition_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    is_searched(&file(&folder, "history")).await;
}

#[tokio::test]
async fn lives_are_found_by_every_condition_on_postgres() {
    is_searched(&database()).await;
}

#[tokio::test]
async fn lives_are_found_by_every_condition_on_mariadb() {
    is_searched(&mariadb()).await;
}

async fn forgets(url: &str) {
    let (history, now) = (history_at(url), SystemClock.now());
    let mut lives = Vec::new();
    for n in 0..6 {
        let ago = days(50) * u32::try_from(n).unwrap();
        lives.push(life(&n.to_string(), LifeOutcome::Done, now.minus(ago)));
    }
    (lives[0].group, lives[1].group) = (Some("t".to_owned()), Some("t".to_owned()));
    lives[5].task_type = TaskType::new("long").unwrap();
    assert_eq!(history.record(&lives).await, Ok(6));
    let task_type = TaskType::new(TYPE).unwrap();
    let id = |n: &str| TaskId::new(n).unwrap();
    let other = Some(TaskType::new("other").unwrap());
    let none = history.forget(&Forget::id(id("2"), other)).await;
    assert_eq!(none, Ok(0));
    assert_eq!(history.forget(&Forget::id(id("2"), None)).await, Ok(1));
    let group = Forget::group("t", Some(task_type.clone()));
    assert_eq!(history.forget(&group).await, Ok(2));
    assert_eq!(ids(&history, |_| {}).await, ["3", "4", "5"]);
    // A type of its own is kept shorter than all the others.
    let all = HistoryRetention::of_all(Some(days(1_000)));
    let pattern = TypePattern::Exact(task_type);
    let keep = all.clone().of_types(pattern.clone(), days(170));
    assert_eq!(history.expire(&keep, now).await.unwrap().lives, 1);
    assert_eq!(ids(&history, |_| {}).await, ["3", "5"]);
    // An instance without the type keeps it as long; one with the type takes that back.
    let shorter = HistoryRetention::of_all(Some(days(100)));
    let hour = minutes(60);
    let held = history.expire(&shorter, now.plus(hour)).await.unwrap();
    assert_eq!(held.kept_for, days(1_000), "another instance says so");
    assert_eq!(ids(&history, |_| {}).await, ["3", "5"]);
    history.expire(&all, now.plus(2 * hour)).await.unwrap();
    let held = history
        .expire(&shorter, now.plus(days(1) + hour))
        .await
        .unwrap();
    assert_eq!(held.kept_for, days(1_000), "it said so within a day");
    let now = now.plus(days(1) + 3 * hour);
    let expired = history.expire(&shorter, now).await.unwrap();
    assert_eq!(expired.kept_for, days(100));
    assert_eq!(ids(&history, |_| {}).await, ["3"]);
    // A type that is never removed keeps its month.
    let ever = shorter.clone().of_types(pattern.clone(), FOREVER);
    let mut after = now.plus(days(4_000));
    history.expire(&ever, after).await.unwrap();
    assert_eq!(ids(&history, |_| {}).await, ["3"]);
    // Who says nothing of it, or said less within a day, takes that back for nobody.
    let less = shorter.clone().of_types(pattern, days(1));
    after = after.plus(hour);
    history.expire(&less, after).await.unwrap();
    history.expire(&shorter, after.plus(days(7))).await.unwrap();
    assert_eq!(ids(&history, |_| {}).await, ["3"]);
    history.expire(&less, after.plus(days(7))).await.unwrap();
    assert_eq!(ids(&history, |_| {}).await, [""; 0]);
    // A month that was dropped is made again.
    assert_eq!(history.record(&lives[3..4]).await, Ok(1));
}

#[tokio::test]
async fn lives_are_forgotten_when_that_is_asked_for_or_their_time_is_over_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    forgets(&file(&folder, "history")).await;
}

#[tokio::test]
async fn lives_are_forgotten_when_that_is_asked_for_or_their_time_is_over_on_postgres() {
    forgets(&database()).await;
}

#[tokio::test]
async fn lives_are_forgotten_when_that_is_asked_for_or_their_time_is_over_on_mariadb() {
    forgets(&mariadb()).await;
}

#[tokio::test]
async fn the_view_has_the_columns_of_a_table_of_tasks() {
    let server = PostgresServer::start(&[]);
    let history = history_at(&server.url());
    let mut one = life("1", LifeOutcome::Dead, SystemClock.now());
    (one.attempts, one.group) = (3, Some("t".to_owned()));
    history.record(&[one]).await.unwrap();
    let rows = "SELECT task_id, task_type, group_name, project, payload, retry_count, \
        retry_interval, task_status, trigger_at > created_at FROM delayq_history.tasks";
    let row = server.sql("postgres", rows);
    assert_eq!(row.trim(), "1|order.cancel|t|||2||dead|t");
}

#[tokio::test]
async fn an_end_in_a_transaction_is_recorded_with_it() {
    let server = PostgresServer::start(&[]);
    let store = store_at(&server.url()).await;
    let task_type = TaskType::new(TYPE).unwrap();
    store.register_type(&task_type).await.unwrap();
    let settings = TypeSettings::default().history(Some(KeptMessage::Nothing));
    store.configure_type(&task_type, &settings).await.unwrap();
    let tasks = TaskSubmitService::new(Arc::clone(&store));
    let job = DelayQueueJob::raw(TYPE, "m").id("1");
    tasks.send(job).await.unwrap();
    let request = ClaimRequest::new(1, hours(1), SystemClock.now());
    let claimed = until("the task", || async {
        let bucket = Bucket::whole(task_type.clone());
        store.claim(&bucket, &request).await.unwrap().tasks.pop()
    });
    let fence = claimed.await.lock.fence;
    let ask = format!(r#"{{"type": "{TYPE}", "id": "1", "fence": {fence}}}"#);
    let call = format!("SELECT delayq.done_within_v1('{ask}')");
    server.sql("postgres", &format!("BEGIN; {call}; ROLLBACK"));
    assert_eq!(store.ends(9).await, Ok(Vec::new()));
    for _ in 0..2 {
        server.sql("postgres", &call);
    }
    let ends = store.ends(9).await.unwrap();
    assert_eq!(ends.len(), 1);
    let life = &ends[0].life;
    assert_eq!(
        (life.outcome, life.fence, life.attempts),
        (LifeOutcome::Done, fence, 1)
    );
    store.close().await;
}

#[tokio::test]
async fn forgetting_a_person_covers_what_waits_to_be_shipped() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_at(&file(&folder, "tasks")).await;
    let task_type = TaskType::new(TYPE).unwrap();
    store.register_type(&task_type).await.unwrap();
    let settings = TypeSettings::default().history(Some(KeptMessage::Whole));
    store.configure_type(&task_type, &settings).await.unwrap();
    let kept = Arc::new(history_at(&file(&folder, "history")));
    let tasks = TaskSubmitService::new(Arc::clone(&store)).with_history(Arc::clone(&kept));
    for n in ["1", "2"] {
        let job = DelayQueueJob::raw(TYPE, "secret")
            .id(n)
            .group(format!("tenant-{n}"));
        tasks.send(job.after(hours(1))).await.unwrap();
        let _ = tasks.cancel(TYPE, n).await.unwrap();
    }
    let history = tasks.history().unwrap();
    let fate = history.what_became_of(TYPE, "1").await.unwrap();
    assert_eq!(
        fate.lives[0].message.as_deref(),
        Some(&b"secret"[..]),
        "not shipped yet"
    );
    let whom = Forget::group("tenant-1", None);
    assert_eq!(history.forget(&whom).await.unwrap().lives, 1);
    assert_eq!(ids(&kept, |_| {}).await, ["2"]);
    assert_eq!(store.ends_status().await.unwrap().waiting, 0);
}

/// A process has taken records when somebody forgets a person, and records them after that.
async fn forgets_what_another_shipper_has_taken(url: &str) {
    let (history, now) = (history_at(url), SystemClock.now());
    let mut lives = Vec::new();
    for n in 0..4 {
        let mut life = life(&n.to_string(), LifeOutcome::Done, now.minus(seconds(n)));
        life.group = Some(format!("tenant-{}", n % 2));
        lives.push(life);
    }
    let whom = Forget::group("tenant-0", None);
    assert_eq!(history.forget(&whom).await, Ok(0));
    let whom = Forget::id(
        TaskId::new("1").unwrap(),
        Some(TaskType::new(TYPE).unwrap()),
    );
    assert_eq!(history.forget(&whom).await, Ok(0));
    let other = history_at(url);
    assert_eq!(other.record(&lives).await, Ok(1));
    assert_eq!(other.record(&lives).await, Ok(0));
    assert_eq!(ids(&history, |_| {}).await, ["3"]);
    // Another namespace has its own, and what ends later is another life.
    let elsewhere = other.of(Namespace::new("elsewhere").unwrap());
    assert_eq!(elsewhere.record(&lives).await, Ok(4));
    let later = life("1", LifeOutcome::Done, SystemClock.now().plus(seconds(5)));
    assert_eq!(other.record(&[later]).await, Ok(1));
    // Nor are the notes kept for ever.
    let keep = HistoryRetention::of_all(None);
    let later = SystemClock.now().plus(days(8));
    history.expire(&keep, later).await.unwrap();
    assert_eq!(other.record(&lives).await, Ok(3));
}

#[tokio::test]
async fn a_late_record_removes_only_what_its_batch_may_have_on_postgres() {
    let server = PostgresServer::start(&[]);
    let (history, now) = (history_at(&server.url()), SystemClock.now());
    let grouped = |n: usize, ago: Duration| {
        let mut life = life(&n.to_string(), LifeOutcome::Done, now.minus(ago));
        life.group = Some("tenant-7".to_owned());
        life
    };
    // More than three steps of a removal.
    let many: Vec<_> = (0..15_001).map(|n| grouped(n, days(40))).collect();
    for lives in many.chunks(1_000) {
        assert_eq!(history.record(lives).await, Ok(lives.len() as u64));
    }
    let whom = Forget::group("tenant-7", None);
    assert_eq!(history.forget(&whom).await, Ok(15_001));
    // A life of before, as a removal that goes on has left it.
    let old = life("old", LifeOutcome::Done, now.minus(days(40)));
    assert_eq!(history.record(&[old]).await, Ok(1));
    let sql = "UPDATE delayq_history.lives SET grp = 'tenant-7' WHERE id = 'old'";
    server.sql("postgres", sql);
    let late = [grouped(1, seconds(9)), grouped(2, days(3))];
    assert_eq!(history.record(&late).await, Ok(0));
    assert_eq!(ids(&history, |_| {}).await, ["old"]);
}

#[tokio::test]
async fn what_is_forgotten_does_not_come_back_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    forgets_what_another_shipper_has_taken(&file(&folder, "history")).await;
}

#[tokio::test]
async fn what_is_forgotten_does_not_come_back_on_postgres() {
    forgets_what_another_shipper_has_taken(&database()).await;
}

#[tokio::test]
async fn what_is_forgotten_does_not_come_back_on_mariadb() {
    forgets_what_another_shipper_has_taken(&mariadb()).await;
}

async fn keeps_two_retentions(url: &str) {
    let (short, now) = (history_at(url), SystemClock.now());
    let long = short.of(Namespace::new("long").unwrap());
    let lives: Vec<_> = [1, 100]
        .map(|ago| life(&ago.to_string(), LifeOutcome::Done, now.minus(days(ago))))
        .into();
    for history in [&short, &long] {
        assert_eq!(history.record(&lives).await, Ok(2));
    }
    let (ten, year) = (Some(days(10)), Some(days(365)));
    long.expire(&HistoryRetention::of_all(year), now)
        .await
        .unwrap();
    let expired = short.expire(&HistoryRetention::of_all(ten), now).await;
    assert_eq!(expired.unwrap().lives, 1);
    assert_eq!(ids(&short, |_| {}).await, ["1"]);
    assert_eq!(ids(&long, |_| {}).await, ["1", "100"]);
    // A retention that is gone keeps what is there.
    let after = now.plus(days(400));
    long.expire(&HistoryRetention::of_all(None), now)
        .await
        .unwrap();
    short
        .expire(&HistoryRetention::of_all(ten), after)
        .await
        .unwrap();
    assert_eq!(ids(&short, |_| {}).await, [""; 0]);
    assert_eq!(all(&long).await.len(), 2);
    // What a namespace that nobody runs any more has said goes on to count.
    assert_eq!(short.record(&lives).await, Ok(2));
    let after = after.plus(days(2));
    long.expire(&HistoryRetention::of_all(None), after)
        .await
        .unwrap();
    assert_eq!(ids(&short, |_| {}).await, [""; 0]);
    assert_eq!(all(&long).await.len(), 2);
}

#[tokio::test]
async fn namespaces_keep_their_lives_for_different_times_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    keeps_two_retentions(&file(&folder, "history")).await;
}

#[tokio::test]
async fn namespaces_keep_their_lives_for_different_times_on_postgres() {
    keeps_two_retentions(&database()).await;
}

#[tokio::test]
async fn namespaces_keep_their_lives_for_different_times_on_mariadb() {
    keeps_two_retentions(&mariadb()).await;
}

async fn bounds_a_page(url: &str) {
    let (history, now) = (history_at(url), SystemClock.now());
    let mut lives = Vec::new();
    for n in 0..24 {
        let mut life = life(&n.to_string(), LifeOutcome::Done, now.minus(hours(n)));
        life.message = Some(vec![b'x'; 1 << 20]);
        lives.push(life);
    }
    for step in lives.chunks(4) {
        assert_eq!(history.record(step).await, Ok(4));
    }
    let (mut found, mut query) = (Vec::new(), HistoryQuery::default());
    loop {
        let page = history.search(&query).await.unwrap();
        assert!((1..=9).contains(&page.lives.len()), "{}", page.lives.len());
        found.extend(page.lives);
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(found, lives);
}

#[tokio::test]
async fn a_page_of_large_messages_is_short_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    bounds_a_page(&file(&folder, "history")).await;
}

#[tokio::test]
async fn a_page_of_large_messages_is_short_on_postgres() {
    bounds_a_page(&database()).await;
}

#[tokio::test]
async fn a_page_of_large_messages_is_short_on_mariadb() {
    bounds_a_page(&mariadb()).await;
}

/// A history whose tables are taken back to version 1 is opened: it has the form of this release,
/// and all that it had. In version 1 a namespace without a number kept its lives for ever.
async fn opens_version_1(url: &str, back: impl FnOnce(), version: impl Fn() -> String) {
    let now = SystemClock.now();
    let lives: Vec<_> = [1, 100]
        .map(|ago| life(&ago.to_string(), LifeOutcome::Done, now.minus(days(ago))))
        .into();
    let ever = Namespace::new("ever").unwrap();
    let history = history_at(url);
    for (one, kept) in [
        (&history, Some(days(1_000))),
        (&history.of(ever.clone()), None),
    ] {
        assert_eq!(one.record(&lives).await, Ok(2));
        one.expire(&HistoryRetention::of_all(kept), now)
            .await
            .unwrap();
    }
    history.close().await;
    back();
    assert_eq!(version(), "1");
    let history = history_at(url);
    let ever = history.of(ever);
    assert_eq!(all(&history).await, lives);
    assert_eq!(version(), "2");
    let newer = life("0", LifeOutcome::Dead, now);
    let new = history.of(Namespace::new("new").unwrap());
    for one in [&history, &ever, &new] {
        assert_eq!(one.record(std::slice::from_ref(&newer)).await, Ok(1));
    }
    // Nobody has said yet how long, and the type is kept longer than all others.
    let keep = HistoryRetention::of_all(Some(days(10)));
    let pattern = TypePattern::Exact(TaskType::new(TYPE).unwrap());
    let long = keep.clone().of_types(pattern, days(99));
    assert_eq!(history.expire(&long, now).await.unwrap().lives, 1);
    assert_eq!(ids(&history, |_| {}).await, ["0", "1"]);
    let status = history.status().await.unwrap();
    assert_eq!(status.types.len(), 1, "{status:?}");
    assert_eq!(ids(&ever, |_| {}).await, ["0", "1", "100"], "for ever");
    // Nothing is left to be done.
    let again = history_at(url);
    assert_eq!(ids(&again, |_| {}).await, ["0", "1"]);
    assert_eq!(version(), "2");
}

#[tokio::test]
async fn tables_of_version_1_become_those_of_version_2_with_their_rows_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file_of = || rusqlite::Connection::open(folder.path().join("history")).unwrap();
    let back = || {
        let tables = "DROP TABLE namespaces; ALTER TABLE types DROP COLUMN keep_ms; \
            ALTER TABLE types DROP COLUMN kept_at; PRAGMA user_version = 1";
        file_of().execute_batch(tables).unwrap();
    };
    let version = || {
        let version = file_of().query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        version.unwrap().to_string()
    };
    opens_version_1(&file(&folder, "history"), back, version).await;
}

#[tokio::test]
async fn tables_of_version_1_become_those_of_version_2_with_their_rows_on_postgres() {
    let server = PostgresServer::start(&[]);
    let back = || {
        let tables = "SET search_path = delayq_history; \
            ALTER TABLE types DROP COLUMN keep_ms, DROP COLUMN kept_at; \
            ALTER TABLE namespaces DROP COLUMN kept_at, ALTER keep_ms DROP NOT NULL, \
            ALTER keep_ms DROP DEFAULT; \
            UPDATE namespaces SET keep_ms = NULL WHERE name = 'ever'; \
            UPDATE meta SET version = 1";
        server.sql("postgres", tables);
    };
    let version = || {
        let version = server.sql("postgres", "SELECT version FROM delayq_history.meta");
        version.trim().to_owned()
    };
    opens_version_1(&server.url(), back, version).await;
}

#[tokio::test]
async fn tables_of_version_1_become_those_of_version_2_with_their_rows_on_mariadb() {
    let server = MariadbServer::shared();
    server.create_database("version_1");
    let back = || {
        let tables = "ALTER TABLE types DROP COLUMN keep_ms, DROP COLUMN kept_at; \
            ALTER TABLE namespaces DROP COLUMN kept_at, MODIFY keep_ms BIGINT; \
            UPDATE namespaces SET keep_ms = NULL WHERE name = 'ever'; \
            UPDATE delayq_history SET version = 1";
        server.sql("version_1", tables);
    };
    let version = || server.sql("version_1", "SELECT MAX(version) FROM delayq_history");
    opens_version_1(&server.url_of("version_1"), back, version).await;
}

/// The number of lives in the history of a server.
async fn left(client: &tokio_postgres::Client) -> i64 {
    let count = "SELECT count(*) FROM delayq_history.lives";
    client.query_one(count, &[]).await.unwrap().get(0)
}

/// Two processes remove the same lives, in steps, and find the same ones first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_removals_at_the_same_time_end_once_all_is_gone_on_postgres() {
    const LIVES: u64 = 24_000;
    let server = PostgresServer::start(&[]);
    let url = server.url();
    let (history, now) = (history_at(&url), SystemClock.now());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let pattern = TypePattern::Exact(TaskType::new(TYPE).unwrap());
    let keep = HistoryRetention::of_all(None).of_types(pattern, days(10));
    let whom = Forget::group("tenant-7", None);
    for is_forget in [false, true] {
        let many: Vec<_> = (0..LIVES)
            .map(|n| {
                let mut life = life(&n.to_string(), LifeOutcome::Done, now.minus(days(20)));
                life.group = Some("tenant-7".to_owned());
                life
            })
            .collect();
        // Lives of before are removed by their record, so another group is forgotten first.
        for lives in many.chunks(4_000) {
            assert_eq!(history.record(lives).await, Ok(lives.len() as u64));
        }
        let remove = async || {
            let own = history_at(&url);
            let gone = if is_forget {
                own.forget(&whom).await.unwrap()
            } else {
                own.expire(&keep, now).await.unwrap().lives
            };
            (gone, left(&client).await)
        };
        // Both have found their first lives, and wait for these.
        let mut holder = hold_all(&url).await;
        let release = async {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            until("two that wait", || async {
                let waiting: i64 = client.query_one(waiting, &[]).await.unwrap().get(0);
                (waiting == 2).then_some(())
            })
            .await;
            holder.take();
        };
        let (one, other, ()) = tokio::join!(remove(), remove(), release);
        assert_eq!((one.1, other.1), (0, 0), "forget: {is_forget}");
        assert_eq!(one.0 + other.0, LIVES, "forget: {is_forget}");
    }
}

/// A transaction that has a lock on every life, until this is dropped.
async fn hold_all(url: &str) -> Option<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let hold = "BEGIN; SELECT 1 FROM delayq_history.lives FOR UPDATE";
    client.batch_execute(hold).await.unwrap();
    Some(client)
}

/// A store that shows a record that no database takes among others.
#[derive(Debug)]
struct Odd {
    inner: Arc<dyn Store>,
}

impl Layer for Odd {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        let mut ends = self.inner.ends(limit).await?;
        let odd = ends
            .iter_mut()
            .filter(|end| end.life.id.as_str() == "ok-0-3");
        // Of another character each, so that no compression makes it small.
        let long = |end: &mut WaitingEnd| {
            let text = (0..30_000_u32).filter_map(|n| char::from_u32(0x4e00 + n * 7 % 20_000));
            end.life.group = Some(text.collect());
        };
        odd.for_each(long);
        Ok(ends)
    }
}

#[tokio::test]
async fn a_record_that_the_history_refuses_keeps_no_other_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = PostgresServer::start(&[]);
    let inner = store_at(&file(&folder, "tasks")).await;
    let store: Arc<dyn Store> = Arc::new(Odd { inner });
    let log = Log::default();
    let plugin = start(Arc::clone(&store), &server.url(), &log).await;
    let meant = send(&plugin.submit_service(), 0).await;
    let lives = shipped(&*store, &history_at(&server.url()), meant.len() - 1).await;
    assert!(lives.iter().all(|life| life.id.as_str() != "ok-0-3"));
    let refused = until("the refusal", || async {
        let health = plugin.health().await;
        health.history.filter(|history| history.refused > 0)
    });
    assert_eq!(refused.await.refused, 1);
    let concerns = plugin.health().await.concerns;
    assert!(concerns.iter().any(|one| one.found.contains("dropped")));
    plugin.shutdown(TIMEOUT).await;
}

#[tokio::test]
async fn records_that_nobody_ships_are_a_concern() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_at(&file(&folder, "tasks")).await;
    let task_type = TaskType::new(TYPE).unwrap();
    store.register_type(&task_type).await.unwrap();
    let settings = TypeSettings::default().history(Some(KeptMessage::Nothing));
    store.configure_type(&task_type, &settings).await.unwrap();
    let tasks = TaskSubmitService::new(Arc::clone(&store));
    tasks
        .send(DelayQueueJob::raw(TYPE, "m").id("1").after(hours(1)))
        .await
        .unwrap();
    let _ = tasks.cancel(TYPE, "1").await.unwrap();
    let waiting = store.ends_status().await.unwrap();
    let now = SystemClock.now();
    assert_eq!(concern_of_records(&waiting, now), None);
    let concern = concern_of_records(&waiting, now.plus(hours(1))).unwrap();
    assert!(concern.fix.contains("--history off"), "{}", concern.fix);
}

#[tokio::test]
async fn a_search_takes_no_longer_than_a_call_may_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = file(&folder, "history");
    let (history, now) = (history_at(&url), SystemClock.now());
    let lives: Vec<_> = (0..20_000)
        .map(|n| life(&n.to_string(), LifeOutcome::Done, now))
        .collect();
    assert_eq!(history.record(&lives).await, Ok(20_000));
    let hurried = HistoryStore::at(&url, Namespace::default(), millis(1)).unwrap();
    let mut query = HistoryQuery::default();
    query.error = Some("no such order".to_owned());
    let error = hurried.search(&query).await.unwrap_err();
    assert!(error.to_string().contains("name a type"), "{error}");
    query.id = Some(TaskId::new("7").unwrap());
    query.task_type = Some(TaskType::new(TYPE).unwrap());
    assert_eq!(hurried.search(&query).await.unwrap().lives, []);
    query.error = Some("a\0".to_owned());
    let error = history.search(&query).await.unwrap_err();
    assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
}

#[tokio::test]
async fn a_month_that_a_crash_has_left_is_dropped_and_a_forgetful_server_refused() {
    let server = PostgresServer::start(&[]);
    let (history, now) = (history_at(&server.url()), SystemClock.now());
    let one = life("1", LifeOutcome::Done, now);
    assert_eq!(history.record(&[one]).await, Ok(1));
    let tables = "SELECT count(*) FROM pg_class WHERE relname IN ('lives_2020_01', 'lives_mine')";
    for name in ["lives_2020_01", "lives_mine"] {
        let left = format!("CREATE TABLE delayq_history.{name} (LIKE delayq_history.lives)");
        server.sql("postgres", &left);
    }
    let keep = HistoryRetention::of_all(Some(days(30)));
    assert_eq!(history.expire(&keep, now).await.unwrap().lives, 0);
    assert_eq!(server.sql("postgres", tables).trim(), "1");
    server.sql("postgres", "ALTER SYSTEM SET synchronous_commit = off");
    server.sql("postgres", "SELECT pg_reload_conf()");
    let error = until("the refusal", || async {
        history_at(&server.url()).status().await.err()
    });
    let error = error.await;
    assert!(error.to_string().contains("synchronous_commit"), "{error}");
}

/// The ends of six minutes at 1,000 a second.
#[cfg(feature = "soak")]
const OUTAGE: usize = 360_000;

/// Sends tasks that are due, claims and ends them.
#[cfg(feature = "soak")]
async fn end_many(store: &dyn Store, round: &str, count: usize) {
    let task_type = TaskType::new(TYPE).unwrap();
    let bucket = Bucket::whole(task_type.clone());
    let (mut sent, mut ended) = (0, 0);
    while ended < count {
        let numbers = sent..count.min(sent + 1_000);
        sent = numbers.end;
        let task = |number| {
            let id = TaskId::new(format!("{round}-{number}")).unwrap();
            NewTask::new(task_type.clone(), id, b"paid".to_vec())
        };
        for outcome in store.submit(numbers.map(task).collect()).await {
            outcome.unwrap();
        }
        while ended < sent {
            let request = ClaimRequest::new(128, hours(1), SystemClock.now());
            let claimed = store.claim(&bucket, &request).await.unwrap();
            ended += claimed.tasks.len();
            let locks = claimed.tasks.into_iter().map(|task| task.lock);
            let settle = locks.map(|lock| Settlement::new(lock, AttemptEnd::Done));
            store.settle(&bucket, settle.collect()).await.unwrap();
        }
    }
}

/// Lives in the history, and lost records, once none waits and there are so many of them.
#[cfg(feature = "soak")]
async fn stored(store: &dyn Store, server: &PostgresServer, least: u64) -> (u64, u64) {
    let started = std::time::Instant::now();
    loop {
        let status = store.ends_status().await.unwrap();
        let lives = server.sql("postgres", "SELECT count(*) FROM delayq_history.lives");
        let count = lives.trim().parse().unwrap();
        if status.waiting == 0 && count + status.lost >= least {
            return (count, status.lost);
        }
        let waited = started.elapsed();
        assert!(waited < minutes(20), "{status:?}, {count} are there");
        tokio::time::sleep(seconds(1)).await;
    }
}

/// The history is away while many tasks end: within the bound none is lost, beyond it each one
/// that is dropped is counted.
#[cfg(feature = "soak")]
#[tokio::test(flavor = "multi_thread")]
async fn what_ends_in_a_long_outage_is_in_the_history_afterwards_or_counted() {
    let redis = RedisServer::start(Persistence::None, &[]);
    for (buffer, count) in [(2 << 30, OUTAGE), (8 << 20, OUTAGE / 6)] {
        let mut server = PostgresServer::start(&[]);
        let options = StoreOptions {
            namespace: Namespace::new(format!("of-{count}")).unwrap(),
            durability: Durability::Memory,
            history_buffer: Some(buffer),
            ..StoreOptions::default()
        };
        let namespace = options.namespace.clone();
        let store = open_store(&redis.url(), options).await.unwrap();
        let settings = TypeSettings::default().history(Some(KeptMessage::Nothing));
        let task_type = TaskType::new(TYPE).unwrap();
        store.configure_type(&task_type, &settings).await.unwrap();
        let kept = HistoryStore::at(&server.url(), namespace.clone(), TIMEOUT).unwrap();
        // Makes the tables.
        kept.status().await.unwrap();
        let service = TaskSubmitService::new(Arc::clone(&store)).with_history(Arc::new(kept));
        let history = service.history().unwrap();
        let shipping = tokio::spawn(history.clone().ship(HistoryRetention::default()));
        end_many(&*store, "before", 1_000).await;
        assert_eq!(stored(&*store, &server, 1_000).await, (1_000, 0));
        let started = std::time::Instant::now();
        server.kill();
        end_many(&*store, "away", count).await;
        let waiting = store.ends_status().await.unwrap();
        assert_eq!(waiting.waiting + waiting.lost, count as u64);
        eprintln!("{waiting:?} after {:?}", started.elapsed());
        let started = std::time::Instant::now();
        server.restart();
        let all = 1_000 + count as u64;
        let (there, lost) = stored(&*store, &server, all).await;
        eprintln!("{there} stored, {lost} lost, after {:?}", started.elapsed());
        assert_eq!((there + lost, lost), (all, waiting.lost));
        assert_eq!(lost > 0, buffer < 1 << 30, "{lost} are lost");
        shipping.abort();
    }
}
