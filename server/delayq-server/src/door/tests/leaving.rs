//! Clients that go away at every byte of a claim and of its answer.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{Site, answer, config};

const TYPES: &str = "/v1/default/types";
const TYPE: &str = "/v1/default/types/mail";
/// The shortest lock, as the query says it, and in milliseconds.
const LOCK_FOR: &str = "lock_for=1s";
const LOCK_MS: i64 = 1_000;
/// Clients that leave at the same time: few enough for any limit of open files.
const AT_ONCE: usize = 100;

/// Goes away: with a reset, as a process that is killed with bytes unread, or in good order.
fn leave(stream: TcpStream, resets: bool) {
    if resets {
        stream.set_zero_linger().unwrap();
    }
    drop(stream);
}

impl Site {
    /// A claim, as it is sent.
    fn claim(&self, task_type: &str, query: &str, more: &str) -> String {
        let path = format!("{TYPES}/{task_type}/claim?{query}");
        self.head("POST", &path, &format!("{more}content-length: 0\r\n"))
    }

    /// Creates tasks of a type, numbered from 0, each with this message.
    async fn creates(&self, task_type: &str, tasks: usize, message: &[u8]) {
        let mut sends = self.connect().await;
        for task in 0..tasks {
            let path = format!("{TYPES}/{task_type}/tasks/{task}");
            let length = format!("content-length: {}\r\n", message.len());
            let head = self.head("PUT", &path, &length);
            sends.write_all(head.as_bytes()).await.unwrap();
            sends.write_all(message).await.unwrap();
            let put = answer(&mut sends).await;
            assert!(put.starts_with("HTTP/1.1 201"), "{put}");
        }
    }

    /// The tasks of a claim by a client that stays.
    async fn claimed(&self, task_type: &str, query: &str) -> Vec<Value> {
        let mut stays = self.connect().await;
        let claim = self.claim(task_type, query, "");
        stays.write_all(claim.as_bytes()).await.unwrap();
        let waits = tokio::time::timeout(Duration::from_secs(30), answer(&mut stays));
        let said = waits.await.expect("no task comes");
        let (_, body) = said.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        body["tasks"].as_array().unwrap().clone()
    }

    /// Ends an attempt; there is nothing left of its task.
    async fn ends(&self, task_type: &str, task: &Value) {
        let (id, lock) = (task["id"].as_str().unwrap(), task["lock"].as_str().unwrap());
        let path = format!("{TYPES}/{task_type}/tasks/{id}/done?lock={lock}");
        let done = self.ask("POST", &path).await;
        assert!(done.starts_with("HTTP/1.1 200"), "{task_type}: {done}");
    }
}

/// The lock of an attempt that nobody has ended held to its end: no claim came in between.
fn assert_second(task: &Value, place: &str) {
    assert_eq!(task["attempt"], 2, "{place}: {task}");
    let number = |name: &str| task[name].as_i64().unwrap();
    let claimed_at = number("lock_until") - LOCK_MS;
    let after = claimed_at - number("submitted_at");
    assert!(after >= LOCK_MS, "{place}: again after {after} ms: {task}");
}

#[tokio::test]
async fn a_client_killed_at_any_byte_of_its_claim_costs_no_attempt_and_delays_no_task() {
    let site = Site::open(config()).await;
    let claim = site.claim("mail", "wait=30s", "");
    // Either way of leaving at every other pair of bytes; in the soak both at each.
    let ways = [false, true].into_iter();
    let ways = ways.flat_map(|resets| (0..=claim.len()).map(move |bytes| (bytes, resets)));
    let is_tried = |bytes: usize, resets: bool| resets == (bytes / 2).is_multiple_of(2);
    let tried = ways.filter(|(bytes, resets)| cfg!(feature = "soak") || is_tried(*bytes, *resets));
    for (bytes, resets) in tried {
        let mut leaving = site.connect().await;
        let sent = &claim.as_bytes()[..bytes];
        leaving.write_all(sent).await.unwrap();
        // A whole request waits by the time that the next one is answered, or is not read yet.
        let id = format!("{TYPE}/tasks/t{bytes}-{resets}");
        if bytes % 2 == 0 {
            leave(leaving, resets);
            site.ask("PUT", &id).await;
        } else {
            let soon = format!("{id}?delay=20");
            let leave = async { leave(leaving, resets) };
            tokio::join!(site.ask("PUT", &soon), leave);
        }
        let mut stays = site.connect().await;
        stays.write_all(claim.as_bytes()).await.unwrap();
        let claimed = answer(&mut stays).await;
        let named = format!("\"id\":\"t{bytes}-{resets}\"");
        assert!(claimed.contains(&named), "{bytes}: {claimed}");
        assert!(claimed.contains("\"attempt\":1,"), "{bytes}: {claimed}");
    }
}

/// A claim in one of the forms of its answer, cut after some bytes of it.
#[derive(Clone, Copy, Debug)]
struct Cut {
    is_raw: bool,
    bytes: usize,
    resets: bool,
}

impl Cut {
    /// A type of its own; the names are of one length, so that the answers are, too.
    fn task_type(self) -> String {
        let [form, way] = [self.is_raw, self.resets].map(u8::from);
        format!("cut-{form}-{:04}-{way}", self.bytes)
    }

    /// The claim, as it is sent.
    fn claim(self, site: &Site) -> String {
        let raw = "accept: application/octet-stream\r\n";
        let accept = if self.is_raw { raw } else { "" };
        site.claim(&self.task_type(), LOCK_FOR, accept)
    }

    /// A client that waits until the answer is there, reads so much of it, and is gone.
    async fn happens(self, site: &Site) {
        let task_type = self.task_type();
        site.creates(&task_type, 1, b"hello").await;
        let mut leaving = site.connect().await;
        leaving
            .write_all(self.claim(site).as_bytes())
            .await
            .unwrap();
        leaving.readable().await.unwrap();
        let mut read = vec![0; self.bytes];
        leaving.read_exact(&mut read).await.unwrap();
        assert!(b"HTTP/1.1 200 OK\r\n".starts_with(&read[..read.len().min(17)]));
        leave(leaving, self.resets);
        // Whoever waits gets the task when the lock ends: not before, not later, and once.
        let given = site
            .claimed(&task_type, "wait=30s&limit=9&lock_for=1s")
            .await;
        assert_eq!(given.len(), 1, "{self:?}: {given:?}");
        assert_second(&given[0], &format!("{self:?}"));
        site.ends(&task_type, &given[0]).await;
        assert!(site.claimed(&task_type, "").await.is_empty(), "{self:?}");
    }
}

#[tokio::test]
async fn an_answer_cut_at_any_byte_leaves_its_task_to_the_lock_and_the_next_client() {
    let site = Site::open(config()).await;
    let mut cuts = Vec::new();
    for is_raw in [false, true] {
        let whole = Cut {
            is_raw,
            bytes: 9_999,
            resets: false,
        };
        site.creates(&whole.task_type(), 1, b"hello").await;
        let mut stays = site.connect().await;
        stays
            .write_all(whole.claim(&site).as_bytes())
            .await
            .unwrap();
        let said = answer(&mut stays).await;
        let head = said.find("\r\n\r\n").unwrap() + 4;
        for bytes in 0..=said.len() {
            // Both ways around the boundaries, else one of them.
            let is_bound = [0, 1, head - 1, head, said.len() - 1, said.len()].contains(&bytes);
            let ways = [true, false]
                .into_iter()
                .filter(|way| is_bound || *way == (bytes % 2 == 0));
            cuts.extend(ways.map(|resets| Cut {
                is_raw,
                bytes,
                resets,
            }));
        }
    }
    assert!(cuts.len() > 600, "{}", cuts.len());
    let all = stream::iter(cuts).for_each_concurrent(AT_ONCE, |cut| cut.happens(&site));
    all.await;
}

/// An answer of more bytes than the buffers of both ends take: most of it is in the server yet.
#[tokio::test]
async fn a_client_killed_while_its_answer_is_being_written_loses_none_of_its_tasks() {
    const TASKS: usize = 32;
    let site = Site::open(config()).await;
    let message = vec![b'x'; 250 << 10];
    let cuts = [(0, true), (1, false), (400, true), (1 << 20, false)];
    let killed = cuts.map(|(bytes, resets)| {
        let (site, message) = (&site, &message);
        async move {
            let task_type = format!("large{bytes}");
            site.creates(&task_type, TASKS, message).await;
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(4_096).unwrap();
            let mut leaving = socket.connect(site.address).await.unwrap();
            let claim = site.claim(&task_type, &format!("limit={TASKS}&{LOCK_FOR}"), "");
            leaving.write_all(claim.as_bytes()).await.unwrap();
            leaving.readable().await.unwrap();
            leaving.read_exact(&mut vec![0; bytes]).await.unwrap();
            leave(leaving, resets);
            let mut given = std::collections::BTreeSet::new();
            while given.len() < TASKS {
                let query = format!("wait=30s&limit={TASKS}&{LOCK_FOR}");
                for task in site.claimed(&task_type, &query).await {
                    assert_second(&task, &task_type);
                    assert!(
                        given.insert(task["id"].to_string()),
                        "twice: {}",
                        task["id"]
                    );
                    site.ends(&task_type, &task).await;
                }
            }
            assert!(site.claimed(&task_type, "").await.is_empty());
        }
    });
    join_all(killed).await;
}
