//! The outbox of a PostgreSQL database, and relays to another store that die at any step.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use delayq_core::job::When;
use delayq_core::memory::MemoryStore;
use delayq_core::operate::{Operate, TypeSettings};
use delayq_core::store::{
    AttemptEnd, CancelOutcome, ClaimRequest, Layer, Settlement, StoreCall, StoreOptions,
};
use delayq_core::{
    Bucket, Clock, Namespace, Result, Store, SystemClock, TaskId, TaskState, TaskType, minutes,
};
use delayq_plugin::{DelayQueueJob, TaskSubmitService};
use delayq_postgres::{Outbox, OutboxRelay, PostgresConfig};
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::sql_session::SqlSession;

const TYPE: &str = "order.cancel";

fn task_type() -> TaskType {
    TaskType::new(TYPE).unwrap()
}

/// A database of its own, whose tasks are in a store that forgets ends at once.
async fn shop(name: &str) -> (&'static PostgresServer, Outbox, Arc<MemoryStore>) {
    let server = PostgresServer::shared();
    server.create_database(name);
    let config = PostgresConfig::parse(&server.url_of(name)).unwrap();
    let outbox = Outbox::open(&config, Namespace::default()).await.unwrap();
    outbox.begin().await.unwrap();
    let options = StoreOptions {
        retention: Duration::ZERO,
        ..StoreOptions::default()
    };
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock), options));
    (server, outbox, store)
}

/// A store whose answers take some steps to arrive, as over a network.
#[derive(Debug)]
struct Distant(Arc<MemoryStore>);

impl Layer for Distant {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn around<T: Send>(
        &self,
        _: StoreCall,
        answer: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = answer.await;
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        answer
    }
}

fn relay(outbox: &Outbox, store: &Arc<MemoryStore>) -> OutboxRelay {
    OutboxRelay::new(outbox.clone(), Arc::new(Distant(Arc::clone(store))))
}

/// Runs the relay, and drops it after so many steps, as the end of a process does. What it has
/// asked for in its last step may be done or not, and it does not learn which.
async fn dies_after(steps: usize, relay: OutboxRelay) {
    let mut run = pin!(relay.run());
    let mut left = steps;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        run.as_mut().poll(context).map(drop)
    })
    .await;
}

/// Claims and ends what is due. Returns the ids.
async fn work(store: &MemoryStore) -> Vec<String> {
    let bucket = Bucket::whole(task_type());
    let request = ClaimRequest::new(128, minutes(5), SystemClock.now());
    let claimed = store.claim(&bucket, &request).await.unwrap();
    let ids = claimed.tasks.iter().map(|task| task.lock.id.to_string());
    let ids = ids.collect();
    let done = |task: delayq_core::ClaimedTask| Settlement::new(task.lock, AttemptEnd::Done);
    let ends = claimed.tasks.into_iter().map(done).collect();
    store.settle(&bucket, ends).await.unwrap();
    ids
}

/// Each task is run and forgotten between any two steps of relays that die.
#[tokio::test]
async fn relays_that_die_at_any_step_apply_each_call_once() {
    let (server, outbox, store) = shop("dying").await;
    server.sql(
        "dying",
        "SELECT delayq.send('order.cancel', 'moved', '0', '{\"delay\": \"1 hour\"}'); \
         SELECT delayq.reschedule('order.cancel', 'moved', '{\"delay_ms\": 0}'); \
         SELECT delayq.update('order.cancel', 'moved', 'new')",
    );
    let mut runs = HashMap::new();
    let mut deaths = 0_u32;
    for round in 0..3 {
        let sends = format!(
            "SELECT delayq.send('order.cancel', '{round}-' || n, '') FROM generate_series(1, 80) n; \
             SELECT delayq.send('order.cancel', 'far-{round}-' || n, '', '{{\"delay\": \"1 hour\"}}'), \
                 delayq.cancel('order.cancel', 'far-{round}-' || n) FROM generate_series(1, 20) n"
        );
        server.sql("dying", &sends);
        while outbox.status().await.unwrap().waiting > 0 {
            // Two at a time; the lease of a dead one ends for the next.
            server.sql("dying", "UPDATE delayq.relays SET until = 0");
            let (one, other) = (fastrand::usize(1..60), fastrand::usize(1..60));
            tokio::join!(
                dies_after(one, relay(&outbox, &store)),
                dies_after(other, relay(&outbox, &store)),
            );
            deaths += 2;
            for id in work(&store).await {
                *runs.entry(id).or_insert(0) += 1;
            }
        }
    }
    assert!(deaths > 10, "{deaths} relays died");
    for id in work(&store).await {
        *runs.entry(id).or_insert(0) += 1;
    }
    assert_eq!(
        runs.len(),
        241,
        "none is lost, and none that was cancelled runs"
    );
    let twice: Vec<_> = runs.iter().filter(|(_, count)| **count > 1).collect();
    assert_eq!(twice, [], "none runs twice");
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.running), (0, 0));
    assert_eq!(outbox.status().await.unwrap().aside, 0);
}

/// Calls that have to wait, and many calls for one task, hold up nobody else.
#[tokio::test]
async fn a_full_type_and_a_busy_task_do_not_starve_the_others() {
    let (server, outbox, store) = shop("busy").await;
    let mut full = TypeSettings::default();
    full.max_pending = Some(1).into();
    store.configure_type(&task_type(), &full).await.unwrap();
    server.sql(
        "busy",
        "SELECT delayq.send('order.cancel', 'f-' || n, '', '{\"delay\": \"1 hour\"}') \
             FROM generate_series(1, 6000) n; \
         SELECT delayq.send('other', 'x', '0', '{\"delay\": \"1 hour\"}'); \
         SELECT delayq.reschedule('other', 'x', jsonb_build_object('delay_ms', 3600000 + n)) \
             FROM generate_series(1, 300) n; \
         SELECT delayq.update('other', 'x', 'last')",
    );
    let relay = relay(&outbox, &store);
    let (other, id) = (TaskType::new("other").unwrap(), TaskId::new("x").unwrap());
    delayq_tests::rig::until("the calls of the other type", async || {
        relay.relay_waiting().await.unwrap();
        let found = store.find(&other, &id).await.unwrap();
        found.filter(|task| task.message.as_deref() == Some(b"last"))
    })
    .await;
    assert_eq!(outbox.status().await.unwrap().waiting, 5_999);
}

/// The service of an application whose tasks are in another store.
#[tokio::test]
async fn a_service_sends_through_the_outbox_in_a_transaction() {
    let (server, outbox, store) = shop("service").await;
    let tasks = TaskSubmitService::new(Arc::clone(&store) as Arc<dyn Store>);
    let tasks = tasks.with_outbox(outbox.sql_place());
    let url = server.url_of("service");
    let connected = tokio_postgres::connect(&url, tokio_postgres::NoTls);
    let (mut client, connection) = connected.await.unwrap();
    drop(tokio::spawn(connection));
    let job = |id: &str| DelayQueueJob::raw(TYPE, "m").id(id);
    let mut tx = client.transaction().await.unwrap();
    tasks.send(job("lost")).within(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    let receipt = tasks.send(job("kept")).within(&mut tx).await.unwrap();
    assert!(receipt.due_at().is_some());
    tasks.send(job("gone")).within(&mut tx).await.unwrap();
    let cancelled = tasks.cancel(TYPE, "gone").within(&mut tx).await.unwrap();
    assert_eq!(cancelled, CancelOutcome::Relayed);
    assert_eq!(work(&store).await, Vec::<String>::new());
    tx.commit().await.unwrap();
    while outbox.status().await.unwrap().waiting > 0 {
        relay(&outbox, &store).relay_waiting().await.unwrap();
    }
    assert_eq!(work(&store).await, ["kept"]);
}

/// A transaction that has sent a task where it is now ends before the tasks are elsewhere.
#[tokio::test]
async fn an_outbox_begins_and_ends_between_transactions() {
    let (server, outbox, _) = shop("between").await;
    let mut session = SqlSession::open(server, "between");
    session.run("BEGIN; SELECT delayq.send('order.cancel', 'a', '');");
    let end = outbox.end().await.unwrap_err();
    assert!(end.to_string().contains("stays open"), "{end}");
    session.run("ROLLBACK;");
    outbox.end().await.unwrap();
    session.run("BEGIN; SELECT delayq.send('order.cancel', 'a', '');");
    let begin = outbox.begin();
    let committed = async { session.run("COMMIT;") };
    let (begin, _) = tokio::join!(begin, committed);
    let begin = begin.unwrap_err();
    assert!(
        begin.to_string().contains("has tasks in this database"),
        "{begin}"
    );
}

#[tokio::test]
async fn a_call_that_can_never_be_applied_is_set_aside_and_holds_up_no_other() {
    let (server, outbox, store) = shop("aside").await;
    let relay = relay(&outbox, &store);
    let id = TaskId::new("o-1").unwrap();
    server.sql(
        "aside",
        "SELECT delayq.send('order.cancel', 'o-1', 'a', '{\"delay\": \"1 hour\"}'); \
         SELECT delayq.send('order.cancel', 'o-1', 'a', '{\"delay\": \"2 hours\"}'); \
         SELECT delayq.send('order.cancel', 'o-1', 'b'); \
         SELECT delayq.send('order.cancel', 'o-2', 'c', '{\"headers\": {\"a\": \"ü\"}, \
             \"expires_after\": \"1 day\"}')",
    );
    relay.relay_waiting().await.unwrap();
    let status = outbox.status().await.unwrap();
    assert_eq!((status.waiting, status.aside), (0, 1));
    let aside = outbox.aside(10).await.unwrap();
    assert_eq!((aside[0].call, aside[0].id.as_str()), ("send", "o-1"));
    assert!(aside[0].error.contains("scheduled"), "{}", aside[0].error);
    let first = store.find(&task_type(), &id).await.unwrap().unwrap();
    assert!(
        first.at.since(SystemClock.now()) > minutes(50),
        "it is no longer parked"
    );
    assert_eq!(work(&store).await, ["o-2"]);

    // It can be applied once the other task is gone.
    let cancelled = store.cancel(&task_type(), &id).await.unwrap();
    assert_eq!(cancelled, CancelOutcome::Cancelled);
    assert_eq!(outbox.retry_aside(None).await.unwrap(), 1);
    relay.relay_waiting().await.unwrap();
    assert_eq!(work(&store).await, ["o-1"]);

    // A type that is full takes its tasks later.
    let mut full = TypeSettings::default();
    full.max_pending = Some(1).into();
    store.configure_type(&task_type(), &full).await.unwrap();
    server.sql(
        "aside",
        "SELECT delayq.send('order.cancel', 'f-' || n, '', '{\"delay\": \"1 hour\"}') \
         FROM generate_series(1, 2) n; SELECT delayq.send('other', 'x', '')",
    );
    relay.relay_waiting().await.unwrap();
    assert_eq!(outbox.status().await.unwrap().waiting, 1);
    let other = TaskType::new("other").unwrap();
    let found = store
        .find(&other, &TaskId::new("x").unwrap())
        .await
        .unwrap();
    assert_eq!(found.unwrap().state, TaskState::Scheduled);
    assert!(outbox.end().await.is_err(), "it has a call");
    let now = When::After(Duration::ZERO);
    for n in 1..=2 {
        let id = TaskId::new(format!("f-{n}")).unwrap();
        // One of the two is not there yet.
        let _ = store.reschedule(&task_type(), &id, now).await.unwrap();
    }
    work(&store).await;
    server.sql("aside", "UPDATE delayq.outbox SET not_before = 0");
    relay.relay_waiting().await.unwrap();
    outbox.end().await.unwrap();
    server.sql("aside", "SELECT delayq.send('order.cancel', 'here', '')");
    let here = "SELECT delayq.find('order.cancel', 'here') ->> 'state'";
    assert_eq!(server.sql("aside", here), "scheduled");
    let refused = outbox.begin().await.unwrap_err();
    assert!(
        refused.to_string().contains("has tasks in this database"),
        "{refused}"
    );
}
