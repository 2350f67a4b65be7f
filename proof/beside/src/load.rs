//! Clients of the servers: they send, claim, fail and settle, and write down what they saw.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::fleet::{Place, TOKEN};
use crate::http::ask;
use crate::instance::at;
use crate::scene::{Release, now_ms};

/// The types of the load. Their tasks wait for these times at most, in milliseconds.
pub(crate) const TYPES: [(&str, u64); 2] = [("near", 400), ("later", 9_000)];
/// How long a lock lasts, in milliseconds: a claim whose answer is lost holds its tasks as long.
pub(crate) const LOCK_MS: i64 = 4_000;
/// Every so many tasks fail once.
const FAILING: usize = 7;

/// What a client saw.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// A send was accepted: the earliest time when its task may start.
    Accepted { not_before: i64, by: Release },
    /// A claim handed a task out.
    Started { fence: i64, due: i64, by: Release },
    /// A failure was settled.
    Failed { fence: i64 },
    /// An end was settled.
    Done { fence: i64 },
    /// A settlement was refused, as the lock was lost.
    Lost { fence: i64 },
}

/// One thing that was seen of a task.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) at: i64,
    pub(crate) seen: Seen,
}

/// All clients, and what they saw.
#[derive(Debug)]
pub(crate) struct Load {
    shared: Arc<Shared>,
    senders: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    places: Vec<Arc<Place>>,
    entries: Mutex<Vec<Entry>>,
    ids: AtomicUsize,
    sends: AtomicBool,
    works: AtomicBool,
}

impl Shared {
    fn write(&self, id: &str, seen: Seen) {
        let (id, at) = (id.to_owned(), now_ms());
        let entries = self.entries.lock();
        let mut entries = entries.unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry { id, at, seen });
    }

    /// Asks one place after the other until one answers; returns which release did.
    fn ask(&self, first: usize, request: &str, body: &str) -> (Release, u16, Value) {
        for place in self.places.iter().cycle().skip(first % 2) {
            let release = place.release();
            match ask(place.port, TOKEN, request, body) {
                Ok((status, body)) if status < 500 => return (release, status, body),
                // A pause, so that a server has time to come back.
                _ => thread::park_timeout(Duration::from_millis(20)),
            }
        }
        unreachable!("there are places")
    }
}

impl Load {
    /// Starts the clients.
    pub(crate) fn start(places: &[Arc<Place>]) -> Self {
        let shared = Arc::new(Shared {
            places: places.to_vec(),
            entries: Mutex::default(),
            ids: AtomicUsize::new(0),
            sends: AtomicBool::new(true),
            works: AtomicBool::new(true),
        });
        let spawn = |client: fn(&Shared, usize), nth: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || client(&shared, nth))
        };
        let senders = (0..2).map(|nth| spawn(send, nth)).collect();
        let workers = (0..4).map(|nth| spawn(work, nth)).collect();
        Self {
            shared,
            senders,
            workers,
        }
    }

    /// Ends the senders.
    pub(crate) fn send_no_more(&mut self) {
        self.shared.sends.store(false, Ordering::SeqCst);
        for sender in self.senders.drain(..) {
            // One that panicked has told why.
            let _ = sender.join();
        }
    }

    /// What was seen so far.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let entries = self.shared.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all clients.
    pub(crate) fn end(mut self) -> Vec<Entry> {
        self.send_no_more();
        self.shared.works.store(false, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        self.entries()
    }
}

/// Sends tasks until it is told to stop. A send without an answer is repeated with the same id.
fn send(shared: &Shared, nth: usize) {
    while shared.sends.load(Ordering::SeqCst) {
        let number = shared.ids.fetch_add(1, Ordering::SeqCst);
        let (kind, most) = kind(number);
        let delay = u64::try_from(number).unwrap_or_default() * 7_919 % most;
        let id = format!("{kind}-{number}");
        let request = format!("PUT /v1/default/types/{kind}/tasks/{id}?delay={delay}ms");
        let not_before = now_ms() + i64::try_from(delay).unwrap_or_default();
        let (by, status, body) = shared.ask(nth + number, &request, "{}");
        assert!(status < 300, "{request}: {status} {body}");
        shared.write(&id, Seen::Accepted { not_before, by });
        thread::park_timeout(Duration::from_millis(3));
    }
}

/// Claims and settles until it is told to stop.
fn work(shared: &Shared, nth: usize) {
    let mut round = nth;
    while shared.works.load(Ordering::SeqCst) {
        round += 1;
        let (kind, _) = kind(round);
        let claim =
            format!("POST /v1/default/types/{kind}/claim?limit=8&wait=200ms&lock_for={LOCK_MS}ms");
        let Some(place) = shared.places.iter().cycle().nth(round / 2 % 2) else {
            return;
        };
        let by = place.release();
        // A claim is not repeated: another one claims other tasks.
        let Ok((200, answer)) = ask(place.port, TOKEN, &claim, "") else {
            thread::park_timeout(Duration::from_millis(20));
            continue;
        };
        let tasks = at(&answer, "/tasks").as_array().cloned();
        let tasks = tasks.unwrap_or_default();
        for task in &tasks {
            let (id, fence, due) = of_claim(task);
            shared.write(id, Seen::Started { fence, due, by });
        }
        for task in &tasks {
            settle(shared, round, kind, task);
        }
    }
}

/// The types in turn.
fn kind(number: usize) -> (&'static str, u64) {
    let [near, later] = TYPES;
    if number.is_multiple_of(2) {
        near
    } else {
        later
    }
}

fn of_claim(task: &Value) -> (&str, i64, i64) {
    let number = |name| at(task, name).as_i64().unwrap_or_default();
    let id = at(task, "/id").as_str().unwrap_or_default();
    (id, number("/fence"), number("/due_at"))
}

/// Settles a task at any server, until an answer is certain.
fn settle(shared: &Shared, round: usize, kind: &str, task: &Value) {
    let (id, fence, _) = of_claim(task);
    let lock = at(task, "/lock").as_str().unwrap_or_default();
    let number: usize = id.rsplit('-').next().map_or(0, |n| n.parse().unwrap_or(0));
    let fails = number.is_multiple_of(FAILING) && at(task, "/attempt") == 1;
    let how = if fails {
        format!("fail?lock={lock}&retry_after=300ms")
    } else {
        format!("done?lock={lock}")
    };
    let request = format!("POST /v1/default/types/{kind}/tasks/{id}/{how}");
    let (_, status, body) = shared.ask(round, &request, "");
    let seen = match status {
        200 if fails => Seen::Failed { fence },
        200 => Seen::Done { fence },
        409 => Seen::Lost { fence },
        _ => panic!("{request}: {status} {body}"),
    };
    shared.write(id, seen);
}
