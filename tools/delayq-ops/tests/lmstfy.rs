//! The move of a running lmstfy, out of a real Redis that is filled as lmstfy does it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use delayq_ops::{LMSTFY_TRIES, LmstfyImport, lmstfy_type};
use delayq_plugin::store::{AttemptEnd, Bucket, ClaimRequest, Settlement, StoreOptions};
use delayq_plugin::{
    Clock, Namespace, SystemClock, TaskInfo, TaskState, TaskSubmitService, open_store,
};
use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::{Connection, cmd};
use tempfile::TempDir;

const DIGITS: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const NAMESPACE: &str = "shop";
const QUEUE: &str = "cancel";
const TYPE: &str = "shop:cancel";
const READY: &str = "q/shop/cancel";
const DEAD: &str = "d/shop/cancel";
const TIMER: &str = "timer_set";

/// A job that a consumer of lmstfy holds.
struct Held {
    id: String,
    tries: u16,
}

/// What a server of lmstfy does to its Redis.
struct Lmstfy {
    redis: Connection,
    made: u128,
}

/// A length of two bytes, and the text.
fn packed(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    [&length.to_le_bytes()[..], text.as_bytes()].concat()
}

fn listed(tries: u16, id: &str) -> Vec<u8> {
    [&tries.to_le_bytes()[..], &packed(id)].concat()
}

fn timed(tries: u16, id: &str) -> Vec<u8> {
    [packed(NAMESPACE), packed(QUEUE), listed(tries, id)].concat()
}

fn data(id: &str) -> String {
    format!("j/{NAMESPACE}/{QUEUE}/{id}")
}

fn now() -> i64 {
    SystemClock.now().as_millis() / 1_000
}

impl Lmstfy {
    fn on(server: &RedisServer) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let redis = client.get_connection().unwrap();
        Self { redis, made: 0 }
    }

    /// An id with the time, something of its own, and the delay in seconds.
    fn id(&mut self, delay: u32) -> String {
        self.made += 1;
        let ms = u128::try_from(SystemClock.now().as_millis()).unwrap();
        let number = (ms << 80) | (self.made << 32) | u128::from(delay.swap_bytes());
        let digit = |nth: u32| char::from(DIGITS[(number >> (5 * nth)) as usize % 32]);
        let id: String = (0..26).rev().map(digit).collect();
        format!("1{id}")
    }

    fn publish(&mut self, delay: u32, ttl: u64, tries: u16) -> String {
        let id = self.id(delay);
        let mut set = cmd("SET");
        set.arg(data(&id)).arg(format!("job {id}")).arg("NX");
        if ttl > 0 {
            set.arg("EX").arg(ttl);
        }
        set.exec(&mut self.redis).unwrap();
        if delay == 0 {
            self.run("LPUSH", READY, &[&listed(tries, &id)]);
        } else {
            let score = (now() + i64::from(delay)).to_string();
            self.run("ZADD", TIMER, &[score.as_bytes(), &timed(tries, &id)]);
        }
        id
    }

    /// A job whose data is this.
    fn publish_data(&mut self, with: &[u8]) -> String {
        let id = self.publish(0, 0, 1);
        self.run("SET", &data(&id), &[with]);
        id
    }

    fn run(&mut self, command: &str, key: &str, arguments: &[&[u8]]) {
        let mut command = cmd(command);
        command.arg(key).arg(arguments);
        command.exec(&mut self.redis).unwrap();
    }

    fn consume(&mut self, ttr: i64) -> Option<Held> {
        let member: Option<Vec<u8>> = cmd("RPOP").arg(READY).query(&mut self.redis).unwrap();
        let member = member?;
        let tries = u16::from_le_bytes([member[0], member[1]]) - 1;
        let id = String::from_utf8(member[4..].to_vec()).unwrap();
        let score = (now() + ttr).to_string();
        self.run("ZADD", TIMER, &[score.as_bytes(), &timed(tries, &id)]);
        Some(Held { id, tries })
    }

    fn acknowledge(&mut self, held: &Held) {
        self.run("DEL", &data(&held.id), &[]);
    }

    /// What its timer does when the time of a consumer is over.
    fn time_is_up(&mut self, held: &Held) {
        let there: bool = cmd("EXISTS")
            .arg(data(&held.id))
            .query(&mut self.redis)
            .unwrap();
        if there && held.tries > 0 {
            self.run("LPUSH", READY, &[&listed(held.tries, &held.id)]);
        } else if there {
            self.run("PERSIST", &data(&held.id), &[]);
            self.run("LPUSH", DEAD, &[&listed(1, &held.id)]);
        }
        self.run("ZREM", TIMER, &[&timed(held.tries, &held.id)]);
    }

    fn keys(&mut self) -> BTreeSet<String> {
        cmd("KEYS").arg("*").query(&mut self.redis).unwrap()
    }
}

/// A store of each kind.
async fn stores(server: &RedisServer) -> (TempDir, Vec<TaskSubmitService>) {
    let folder = TempDir::new().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("a.sqlite").display());
    let mut stores = Vec::new();
    for url in [sqlite, server.url()] {
        let options = StoreOptions {
            namespace: Namespace::new("moved").unwrap(),
            ..StoreOptions::default()
        };
        let store = open_store(&url, options).await.unwrap();
        stores.push(TaskSubmitService::new(store));
    }
    (folder, stores)
}

async fn scheduled(tasks: &TaskSubmitService) -> BTreeMap<String, TaskInfo> {
    let (mut found, mut cursor) = (BTreeMap::new(), None);
    loop {
        let page = tasks.list(TYPE, TaskState::Scheduled, cursor.as_ref(), 100);
        let page = page.await.unwrap();
        found.extend(
            page.tasks
                .into_iter()
                .map(|task| (task.id.to_string(), task)),
        );
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

/// Drops a future when it has been polled so often, which is a kill as its store and its Redis see
/// it; what it returned if it ended before.
async fn killed_after<T>(polls: u32, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

#[tokio::test]
async fn each_state_of_a_job_is_moved_as_it_is_and_what_a_consumer_holds_is_left() {
    let [old, new] = [(); 2].map(|()| RedisServer::start(Persistence::EverySecond, &[]));
    let (_folder, stores) = stores(&new).await;
    for tasks in stores {
        let mut lmstfy = Lmstfy::on(&old);
        // The first in is the first out.
        let [dies, acknowledged, held, stopped] = [1, 1, 3, 1].map(|tries| {
            let id = lmstfy.publish(0, 0, tries);
            let held = lmstfy.consume(600).unwrap();
            assert_eq!(held.id, id);
            held
        });
        lmstfy.time_is_up(&dies);
        lmstfy.acknowledge(&acknowledged);
        lmstfy.time_is_up(&acknowledged);
        // Its server was stopped before it was dead.
        let score = (now() - 60).to_string();
        let member = timed(stopped.tries, &stopped.id);
        lmstfy.run("ZADD", TIMER, &[score.as_bytes(), &member]);
        let ready = lmstfy.publish(0, 0, 5);
        let delayed = lmstfy.publish(3_600, 7_200, 2);
        let expired = lmstfy.publish(0, 1_000, 1);
        lmstfy.run("DEL", &data(&expired), &[]);
        let attributes = [
            &b"\x0a\x02hi\x12\x06\x0a\x01a\x12\x01b"[..],
            br#"{"body":"aGk=","attributes":{"a":"b"}}"#,
        ];
        let attributes = attributes.map(|with| lmstfy.publish_data(with));

        let import = LmstfyImport::connect(&tasks, &old.url(), false)
            .await
            .unwrap();
        let report = import.run(false, &mut |_| {}).await.unwrap();
        assert_eq!(
            (
                report.moved,
                report.expired,
                report.taken_left,
                report.dead_left_out
            ),
            (4, 1, 1, 2),
            "{report:?}"
        );
        let import = LmstfyImport::connect(&tasks, &old.url(), true)
            .await
            .unwrap();
        let report = import.run(false, &mut |_| {}).await.unwrap();
        assert_eq!((report.moved, report.taken_left), (2, 1), "{report:?}");

        let found = scheduled(&tasks).await;
        let tries = |id: &str| found[id].headers[LMSTFY_TRIES].clone();
        assert_eq!(found.len(), 6);
        assert_eq!((tries(&ready), tries(&delayed)), ("5".into(), "2".into()));
        assert_eq!(
            (tries(&dies.id), tries(&stopped.id)),
            ("1".into(), "1".into())
        );
        let message = found[&ready].message.clone().unwrap();
        assert_eq!(message, format!("job {ready}").into_bytes());
        for id in &attributes {
            assert_eq!(found[id].message.as_deref(), Some(&b"hi"[..]));
            assert_eq!(found[id].headers["lmstfy-attr-a"], "b");
        }
        let wait = found[&delayed].due_at.unwrap().since(SystemClock.now());
        let hour = Duration::from_hours(1);
        assert!(wait <= hour && wait > Duration::from_mins(58));
        assert!(found[&ready].due_at.unwrap() <= SystemClock.now());
        // What the consumer holds is as it was.
        let left = BTreeSet::from([TIMER.to_owned(), data(&held.id)]);
        assert_eq!(lmstfy.keys(), left);
        lmstfy.acknowledge(&held);
        lmstfy.time_is_up(&held);
    }
}

#[tokio::test]
async fn a_move_that_is_killed_anywhere_goes_on_and_every_job_runs_once() {
    let [old, new] = [(); 2].map(|()| RedisServer::start(Persistence::EverySecond, &[]));
    let (_folder, stores) = stores(&new).await;
    for tasks in stores {
        let mut lmstfy = Lmstfy::on(&old);
        let ready: BTreeSet<_> = (0..100).map(|_| lmstfy.publish(0, 0, 3)).collect();
        let delayed: BTreeSet<_> = (0..40).map(|nth| lmstfy.publish(600 + nth, 0, 3)).collect();
        let bucket = Bucket::whole(lmstfy_type(NAMESPACE, QUEUE).unwrap());
        let (mut ran, mut kills) = (Vec::new(), 0);
        let mut run = async || {
            let request = ClaimRequest::new(7, Duration::from_mins(1), SystemClock.now());
            let claimed = tasks.store().claim(&bucket, &request).await.unwrap().tasks;
            let done = claimed.iter().map(|task| task.lock.clone());
            let done = done.map(|lock| Settlement::new(lock, AttemptEnd::Done));
            tasks.store().settle(&bucket, done.collect()).await.unwrap();
            let count = claimed.len();
            ran.extend(claimed.into_iter().map(|task| task.lock.id.to_string()));
            count
        };
        loop {
            let import = LmstfyImport::connect(&tasks, &old.url(), false)
                .await
                .unwrap();
            let moved = killed_after(kills, import.run(false, &mut |_| {})).await;
            if moved.is_some_and(|report| report.unwrap().refused == 0) {
                break;
            }
            kills += 1;
            run().await;
        }
        assert!(kills > 20, "{kills} kills");
        while run().await > 0 {}
        assert_eq!(ran.len(), 100);
        assert_eq!(BTreeSet::from_iter(ran), ready);
        let waiting: BTreeSet<_> = scheduled(&tasks).await.into_keys().collect();
        assert_eq!(waiting, delayed);
        assert_eq!(lmstfy.keys(), BTreeSet::new(), "nothing is left behind");
    }
}

#[tokio::test]
async fn a_move_that_follows_shares_the_jobs_with_the_consumers_until_nothing_is_left() {
    let [old, new] = [(); 2].map(|()| RedisServer::start(Persistence::EverySecond, &[]));
    let (_folder, stores) = stores(&new).await;
    for tasks in stores {
        let mut lmstfy = Lmstfy::on(&old);
        let (mut made, mut acknowledged) = (BTreeSet::new(), BTreeSet::new());
        let mut held: Vec<Held> = Vec::new();
        made.insert(lmstfy.publish(0, 0, 3));
        // Between any two of its steps the old server goes on.
        let mut meanwhile = |_: &_| {
            for one in held.drain(..) {
                if one.tries % 2 == 0 {
                    lmstfy.acknowledge(&one);
                    acknowledged.insert(one.id.clone());
                }
                lmstfy.time_is_up(&one);
            }
            if made.len() < 60 {
                for (delay, tries) in [(0, 3), (0, 2), (1_800, 2)] {
                    made.insert(lmstfy.publish(delay, 0, tries));
                }
                held.extend(lmstfy.consume(1));
                held.extend(lmstfy.consume(600));
            }
        };
        let import = LmstfyImport::connect(&tasks, &old.url(), false)
            .await
            .unwrap();
        let report = import.run(true, &mut meanwhile).await.unwrap();
        assert_eq!(report.taken_left, 0, "{report:?}");
        let moved: BTreeSet<_> = scheduled(&tasks).await.into_keys().collect();
        assert_eq!(report.moved, moved.len() as u64);
        assert!(moved.is_disjoint(&acknowledged));
        let all: BTreeSet<_> = moved.union(&acknowledged).cloned().collect();
        assert_eq!(all, made);
        assert!(acknowledged.len() > 5, "{acknowledged:?}");
        assert_eq!(Lmstfy::on(&old).keys(), BTreeSet::new());
    }
}
