//! A peer that goes away without a word: a firewall that drops packets, a machine that lost its
//! power.

use std::fmt::Debug;
use std::time::Duration;

use delayq_core::store::{AttemptEnd, CancelOutcome, Claimed, SettleOutcome, Settlement};
use delayq_core::{Error, Lock, Operate, Result, Store, TaskId, TaskState, Timestamp, millis};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::{PATIENCE, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{
    accept, claim, id, impatient, job, key, open, options, raw, request, run, submit, task_type,
    whole,
};

/// Passes connections on to a server, until it is told to silence those that it has, and those
/// that are made while a call gets lost. Later ones pass.
struct Gate {
    url: String,
    /// What befalls connections now.
    silence: watch::Sender<Option<Silence>>,
}

/// What happens to connections that stay open.
#[derive(Clone, Copy)]
enum Silence {
    /// Nothing moves on them any more.
    Full,
    /// Requests reach the server, and no answer comes back.
    Answers,
}

impl Gate {
    async fn to(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (silence, port) = (watch::Sender::new(None), server.port());
        let falls = silence.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, port, falls.subscribe()));
            }
        });
        Self { url, silence }
    }

    /// The error of a call that gets lost. The store may just be making a connection, on a busy
    /// machine: so new ones are silent, too, until the call has ended.
    async fn loses<T: Debug>(
        &self,
        silence: Silence,
        call: impl Future<Output = Result<T>>,
    ) -> Error {
        self.silence.send_replace(Some(silence));
        let lost = call.await.unwrap_err();
        self.silence.send_replace(None);
        lost
    }
}

/// Passes on what comes next from either side. Returns whether a side has ended.
async fn pass_some(client: &mut TcpStream, server: &mut TcpStream) -> bool {
    let (mut asked, mut told) = ([0; 4096], [0; 4096]);
    tokio::select! {
        read = client.read(&mut asked) => {
            let asked = &asked[..read.unwrap_or(0)];
            asked.is_empty() || server.write_all(asked).await.is_err()
        }
        read = server.read(&mut told) => {
            let told = &told[..read.unwrap_or(0)];
            told.is_empty() || client.write_all(told).await.is_err()
        }
    }
}

async fn pass(mut client: TcpStream, port: u16, mut falls: watch::Receiver<Option<Silence>>) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let silence = loop {
        if let Some(silence) = *falls.borrow_and_update() {
            break silence;
        }
        tokio::select! {
            ended = pass_some(&mut client, &mut server) => if ended { return },
            _ = falls.changed() => {}
        }
    };
    if matches!(silence, Silence::Answers) {
        let (mut requests, _answers) = client.split();
        // It ends with either connection.
        let _ = copy(&mut requests, &mut server).await;
    } else {
        // Both ends stay open, without a reader.
        std::future::pending::<()>().await;
    }
}

#[tokio::test]
async fn a_connection_on_which_nothing_comes_back_is_given_up_for_a_new_one() {
    let server = RedisServer::start(Persistence::None, &[]);
    let gate = Gate::to(&server).await;
    let store = RedisStore::connect(&gate.url, impatient()).await.unwrap();
    accept(&store, job("1")).await;
    for round in 0..3 {
        let lost = if round == 1 {
            gate.loses(Silence::Full, claim(&store)).await
        } else {
            gate.loses(Silence::Full, submit(&store, job("2"))).await
        };
        // Unavailable: the silence fell on a connection that was still being made.
        let is_lost = lost.is_indeterminate() || matches!(lost, Error::Unavailable { .. });
        assert!(is_lost, "{lost}");
        let answered = async {
            // One that was sent in the last moment of its time, as it waited for the connection.
            let mut unsure = 0;
            loop {
                match submit(&store, job("2").keep()).await {
                    Ok(_) => return,
                    Err(Error::Unavailable { .. }) => {}
                    Err(Error::Indeterminate { .. }) if unsure == 0 => unsure += 1,
                    Err(error) => panic!("the old connection is used again: {error}"),
                }
            }
        };
        let answered = tokio::time::timeout(PATIENCE, answered).await;
        answered.expect("a new connection is made");
    }
}

async fn settle(store: &RedisStore, lock: &Lock, end: AttemptEnd) {
    let lock = lock.clone();
    let settled = store
        .settle(&whole(), vec![Settlement::new(lock, end)])
        .await;
    assert_eq!(settled.unwrap(), [SettleOutcome::Settled]);
}

/// Until `claim` is answered: the calls before it may find the connection gone.
async fn claim_at_last(store: &RedisStore) -> Claimed {
    let answered = async {
        loop {
            if let Ok(claimed) = claim(store).await {
                return claimed;
            }
        }
    };
    let answered = tokio::time::timeout(PATIENCE, answered).await;
    answered.expect("a new connection is made")
}

#[tokio::test]
async fn what_a_claim_took_whose_answer_was_lost_is_claimed_again_at_once_with_no_attempt_spent() {
    let server = RedisServer::start(Persistence::None, &[]);
    let gate = Gate::to(&server).await;
    let store = RedisStore::connect(&gate.url, impatient()).await.unwrap();
    let other = RedisStore::connect(&server.url(), options()).await.unwrap();
    for n in 0..40 {
        accept(&store, job(&n.to_string())).await;
    }
    let due = claim(&store).await.unwrap();
    assert_eq!(due.tasks.len(), 40);
    // One with a history, which is due at another time than its record says, among the others.
    // Those that were accepted in one millisecond come in the order of their ids, so that its place
    // among them says nothing.
    let mut retried = due.tasks.iter().map(|task| &task.lock);
    let retried = retried.find(|lock| lock.id.as_str() == "7").unwrap();
    let again = AttemptEnd::Retry {
        after: Duration::ZERO,
        error: "again".to_owned(),
        succeeded: Vec::new(),
    };
    settle(&store, retried, again).await;
    let due_again = other
        .find(&task_type(), &retried.id)
        .await
        .unwrap()
        .unwrap();
    for n in 40..80 {
        accept(&store, job(&n.to_string())).await;
    }
    let lost = gate.loses(Silence::Answers, claim(&store)).await;
    assert!(lost.is_indeterminate(), "{lost}");
    let running = other.stats(&task_type()).await.unwrap().running;
    assert_eq!(running, 80, "it was applied");
    // What somebody else's claim took is not touched.
    accept(&other, job("theirs")).await;
    let theirs = claim(&other).await.unwrap();
    assert_eq!(theirs.tasks.len(), 1);
    let claimed = claim_at_last(&store).await;
    let mut attempts: Vec<_> = claimed
        .tasks
        .iter()
        .map(|task| (task.lock.id.as_str().parse::<u32>().unwrap(), task.attempt))
        .collect();
    attempts.sort_unstable();
    let expected: Vec<_> = [(7, 2)]
        .into_iter()
        .chain((40..80).map(|n| (n, 1)))
        .collect();
    assert_eq!(attempts, expected);
    for task in &claimed.tasks {
        assert_eq!(task.history.lock_expiries, 0);
        if task.lock.id == retried.id {
            assert_eq!(task.due_at, due_again.at);
        } else {
            assert_eq!(task.due_at, task.submitted_at);
        }
        settle(&store, &task.lock, AttemptEnd::Done).await;
    }
    settle(&other, &theirs.tasks[0].lock, AttemptEnd::Done).await;
    let audit = other.audit(&task_type(), false).await.unwrap();
    assert_eq!(audit.problems, []);
}

/// What waits, and when it is due.
async fn scheduled(store: &RedisStore) -> Vec<(TaskId, Timestamp)> {
    let state = TaskState::Scheduled;
    let page = store.list(&task_type(), state, None, 99).await.unwrap();
    page.tasks.into_iter().map(|t| (t.id, t.at)).collect()
}

#[tokio::test]
async fn a_lost_claim_gives_back_what_it_took_but_for_what_was_cancelled_and_nothing_else() {
    let server = RedisServer::start(Persistence::None, &[]);
    let gate = Gate::to(&server).await;
    let store = RedisStore::connect(&gate.url, impatient()).await.unwrap();
    let other = RedisStore::connect(&server.url(), options()).await.unwrap();
    for n in 0..5 {
        accept(&store, job(&n.to_string()).after(millis(n))).await;
    }
    until("the last one is due", || async {
        let stats = other.stats(&task_type()).await.unwrap();
        (stats.due == 5).then_some(())
    })
    .await;
    let were_due = scheduled(&other).await;
    let lost = gate.loses(Silence::Answers, claim(&store)).await;
    assert!(lost.is_indeterminate(), "{lost}");
    accept(&other, job("theirs")).await;
    let mut theirs = claim(&other).await.unwrap().tasks.remove(0).lock;
    // As if it had been locked in the same moment, right behind those of the lost claim.
    let mut redis = raw(&server).await;
    let locks = format!("HVALS {}", key("locks"));
    let locks: Vec<String> = run(&mut redis, &locks).await;
    let fence = |lock: &String| lock.split(' ').next().unwrap().parse::<u64>().unwrap();
    let mut fences: Vec<u64> = locks.iter().map(fence).collect();
    fences.sort_unstable();
    theirs.fence = fences[4] + 1;
    let mut lock = redis::cmd("HSET");
    lock.arg(key("locks")).arg("theirs");
    lock.arg(format!("{} 1 0", theirs.fence));
    lock.exec_async(&mut redis).await.unwrap();
    let running = key("running");
    let ends: String = run(&mut redis, &format!("ZSCORE {running} 0")).await;
    run::<u64>(&mut redis, &format!("ZADD {running} {ends} theirs")).await;
    let cancelled = other.cancel(&task_type(), &id("2")).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Running));
    let (mut ids, mut one) = (Vec::new(), request());
    one.limit = 1;
    while ids.len() < 4 {
        // The calls before it may find the connection gone.
        let Ok(claimed) = store.claim(&whole(), &one).await else {
            continue;
        };
        let task = &claimed.tasks[0];
        assert_eq!((task.attempt, task.history.lock_expiries), (1, 0));
        ids.push(task.lock.id.to_string());
        let are_due = scheduled(&other).await;
        assert!(are_due.iter().all(|task| were_due.contains(task)));
        let stats = other.stats(&task_type()).await.unwrap();
        assert_eq!(stats.running, 2 + ids.len() as u64);
        let audit = other.audit(&task_type(), false).await.unwrap();
        assert_eq!(audit.problems, []);
    }
    assert_eq!(ids, ["0", "1", "3", "4"]);
    settle(&other, &theirs, AttemptEnd::Done).await;
    // Also when it took one alone.
    accept(&other, job("alone")).await;
    let lost = gate.loses(Silence::Answers, claim(&store)).await;
    assert!(lost.is_indeterminate(), "{lost}");
    let claimed = claim_at_last(&store).await;
    assert_eq!(claimed.tasks[0].lock.id, id("alone"));
    assert_eq!(claimed.tasks[0].attempt, 1);
}

/// Found in review: until the pause was over nothing was given back, and each task had lost an
/// attempt.
#[tokio::test]
async fn what_a_lost_claim_took_is_given_back_though_its_type_is_paused_meanwhile() {
    let server = RedisServer::start(Persistence::None, &[]);
    let gate = Gate::to(&server).await;
    let store = RedisStore::connect(&gate.url, impatient()).await.unwrap();
    let other = RedisStore::connect(&server.url(), options()).await.unwrap();
    accept(&store, job("1")).await;
    let lost = gate.loses(Silence::Answers, claim(&store)).await;
    assert!(lost.is_indeterminate(), "{lost}");
    other.pause(&task_type(), None).await.unwrap();
    let paused = claim_at_last(&store).await;
    assert_eq!(
        (&*paused.tasks, &*paused.ended, paused.next_in),
        (&[][..], &[][..], None)
    );
    let stats = other.stats(&task_type()).await.unwrap();
    assert_eq!((stats.due, stats.running), (1, 0));
    other.resume(&task_type()).await.unwrap();
    let task = claim(&store).await.unwrap().tasks.remove(0);
    assert_eq!((task.attempt, task.history.lock_expiries), (1, 0));
    assert!(task.lock.fence > paused.high_water && paused.high_water > 0);
    settle(&store, &task.lock, AttemptEnd::Done).await;
}

#[tokio::test]
async fn a_claim_that_was_given_up_takes_nothing_when_the_server_is_back() {
    let mut server = RedisServer::start(Persistence::Always, &[]);
    let store = open(&server).await;
    accept(&store, job("1")).await;
    server.kill();
    // It waits for the server to come back, and nobody waits for it any more.
    let (request, task_type, whole) = (request(), task_type(), whole());
    let claim = || timeout(Duration::from_millis(100), store.claim(&whole, &request));
    // The first ones may be sent on the connection that is gone, and fail with it.
    while claim().await.is_ok() {}
    server.restart();
    // Behind it on the same connection.
    for _ in 0..2 {
        let stats = store.stats(&task_type).await.unwrap();
        assert_eq!((stats.due, stats.running), (1, 0));
    }
}
