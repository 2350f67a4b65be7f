//! The server goes away, hangs, forgets: every call ends by its deadline, with an error that says
//! whether it may have been applied, and work goes on as soon as the server does.

use std::process::Command;
use std::time::{Duration, Instant};

use delayq_core::store::{AttemptEnd, SettleOutcome, Settlement, StoreOptions, SubmitOutcome};
use delayq_core::{Error, Operate, Store};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::{
    accept, claim, id, impatient, job, open, options, raw, run, submit, task, task_type, whole,
};

/// More than any call here may take, which has 1.5 s, also on a busy machine. One without a
/// deadline would never end.
const SOON: Duration = Duration::from_secs(15);

async fn in_time<T>(call: impl Future<Output = T>) -> T {
    let answered = tokio::time::timeout(SOON, call).await;
    answered.expect("it keeps its deadline")
}

#[tokio::test]
async fn a_call_without_a_server_is_unavailable_by_its_deadline() {
    let mut server = RedisServer::start(Persistence::None, &[]);
    let store = RedisStore::connect(&server.url(), impatient())
        .await
        .unwrap();
    server.kill();
    // The first call may be the one that finds the connection broken.
    let first = in_time(submit(&store, job("0"))).await.unwrap_err();
    assert!(first.is_transient(), "{first}");
    let (usual, none) = (task_type(), id("1"));
    let (submitted, claimed, found, checked) = tokio::join!(
        in_time(submit(&store, job("1"))),
        in_time(claim(&store)),
        in_time(store.find(&usual, &none)),
        in_time(store.check()),
    );
    for refused in [
        submitted.unwrap_err(),
        claimed.unwrap_err(),
        found.unwrap_err(),
        checked.unwrap_err(),
    ] {
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    }
}

#[tokio::test]
async fn calls_wait_for_a_server_that_comes_back_and_find_all_that_was_acknowledged() {
    let mut server = RedisServer::start(Persistence::Always, &[]);
    let store = open(&server).await;
    for n in 0..10 {
        accept(&store, job(&n.to_string())).await;
    }
    server.kill();
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { store.find(&task_type(), &id("7")).await })
    };
    tokio::task::spawn_blocking(move || {
        server.restart();
        server
    })
    .await
    .map(|server| async move {
        // The call was on its way before the server came back.
        match waiting.await.unwrap() {
            Ok(found) => assert!(found.is_some()),
            Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error}"),
        }
        assert_eq!(claim(&store).await.unwrap().tasks.len(), 10);
        drop(server);
    })
    .unwrap()
    .await;
}

#[tokio::test]
async fn a_submit_waits_for_a_server_that_comes_back() {
    let mut server = RedisServer::start(Persistence::Always, &[]);
    let store = open(&server).await;
    server.kill();
    // Finds the connection broken, and is given up.
    let (usual, none) = (task_type(), id("none"));
    let found = store.find(&usual, &none);
    let _ = tokio::time::timeout(Duration::from_millis(100), found).await;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { submit(&store, job("1")).await }
    });
    let restarted = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    let outcome = waiting.await.unwrap();
    assert!(
        matches!(outcome, Ok(SubmitOutcome::Accepted { .. })),
        "{outcome:?}"
    );
    drop(restarted.await.unwrap());
}

#[tokio::test]
async fn what_was_acknowledged_while_the_server_died_is_there_when_it_is_back() {
    let mut server = RedisServer::start(Persistence::Always, &[]);
    let store = RedisStore::connect(&server.url(), impatient())
        .await
        .unwrap();
    let mut submitters = Vec::new();
    for n in 0..16 {
        let store = store.clone();
        submitters.push(tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for i in 0.. {
                let name = format!("{n}-{i}");
                match submit(&store, job(&name)).await {
                    Ok(_) => acknowledged.push(name),
                    Err(_) => break,
                }
            }
            acknowledged
        }));
    }
    while store.stats(&task_type()).await.unwrap().scheduled < 200 {}
    server.kill();
    let mut acknowledged = Vec::new();
    for submitter in submitters {
        acknowledged.extend(submitter.await.unwrap());
    }
    server.restart();
    let store = open(&server).await;
    assert!(acknowledged.len() >= 200);
    for name in acknowledged {
        let found = store.find(&task_type(), &id(&name)).await.unwrap();
        assert!(found.is_some(), "{name} is lost");
    }
    assert!(
        store
            .audit(&task_type(), false)
            .await
            .unwrap()
            .problems
            .is_empty()
    );
}

/// Sends a signal to the server; SIGSTOP makes it a peer that says nothing any more.
fn signal(server: &RedisServer, name: &str) {
    let pid = server.pid().unwrap().to_string();
    let sent = Command::new("kill").args([name, &pid]).status().unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn a_server_that_hangs_leaves_writes_indeterminate_and_reads_unavailable() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = RedisStore::connect(&server.url(), impatient())
        .await
        .unwrap();
    accept(&store, job("1")).await;
    let lock = claim(&store).await.unwrap().tasks.pop().unwrap().lock;
    signal(&server, "-STOP");
    let (started, usual, bucket) = (Instant::now(), task_type(), whole());
    let (submitted, claimed, extended, found) = tokio::join!(
        submit(&store, job("2")),
        claim(&store),
        store.extend(&bucket, vec![lock.clone()], Duration::from_mins(1)),
        store.find(&usual, &lock.id),
    );
    for error in [
        submitted.unwrap_err(),
        claimed.unwrap_err(),
        extended.unwrap_err(),
    ] {
        assert!(error.is_indeterminate(), "{error}");
    }
    assert!(matches!(found, Err(Error::Unavailable { .. })), "{found:?}");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    signal(&server, "-CONT");
    // Repeating what may have been applied is safe.
    let outcome = loop {
        match submit(&store, job("2")).await {
            Ok(outcome) => break outcome,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    };
    assert!(matches!(
        outcome,
        SubmitOutcome::Accepted { .. } | SubmitOutcome::AlreadyExists { .. }
    ));
    let end = AttemptEnd::Done;
    let settled = store
        .settle(&whole(), vec![Settlement::new(lock, end)])
        .await;
    assert_eq!(settled, Ok(vec![SettleOutcome::Settled]));
}

#[tokio::test]
async fn flushed_scripts_are_loaded_again_by_every_kind_of_call() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    for round in 0..20 {
        let batch = (0..500)
            .map(|n| task(job(&format!("{round}-{n}"))))
            .collect();
        // The later ones come between the loading of a script and its call.
        let flush_often = async {
            for _ in 0..5 {
                run::<()>(&mut redis, "SCRIPT FLUSH").await;
            }
        };
        let (outcomes, ()) = tokio::join!(store.submit(batch), flush_often);
        for outcome in outcomes {
            assert!(
                matches!(outcome, Ok(SubmitOutcome::Accepted { .. })),
                "{outcome:?}"
            );
        }
        run::<()>(&mut redis, "SCRIPT FLUSH").await;
        let locks: Vec<_> = claim(&store)
            .await
            .unwrap()
            .tasks
            .into_iter()
            .map(|t| t.lock)
            .collect();
        run::<()>(&mut redis, "SCRIPT FLUSH").await;
        let extended = store.extend(&whole(), locks, Duration::from_mins(1)).await;
        assert_eq!(extended.unwrap().len(), 128);
    }
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!(stats.scheduled + stats.running, 10_000);
}

#[tokio::test]
async fn an_emptied_database_has_its_types_listed_again() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("1")).await;
    run::<()>(&mut raw(&server).await, "FLUSHALL").await;
    assert_eq!(store.types().await, Ok(Vec::new()));
    accept(&store, job("1")).await;
    assert_eq!(store.types().await, Ok(vec![task_type()]));
}

#[tokio::test]
async fn a_closed_store_takes_no_more_calls() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("1")).await;
    store.close().await;
    let closed = Error::Closed("the store");
    assert_eq!(submit(&store, job("2")).await, Err(closed.clone()));
    assert_eq!(claim(&store).await, Err(closed));
}

/// Found in review: one damaged name kept every type from being served.
#[tokio::test]
async fn a_damaged_name_in_the_list_of_types_hides_no_other() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("1")).await;
    run::<()>(&mut raw(&server).await, "SADD delayq:{default}:types a/b").await;
    assert_eq!(store.types().await, Ok(vec![task_type()]));
}

#[test]
fn calls_work_from_any_runtime_after_the_one_that_connected_is_gone() {
    let server = RedisServer::start(Persistence::None, &[]);
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    // Without timers and without I/O: the store has its own.
    let store = runtime().block_on(open(&server));
    runtime().block_on(accept(&store, job("1")));
    let claimed = runtime().block_on(claim(&store)).unwrap();
    assert_eq!(claimed.tasks.len(), 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_does_no_harm() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    for n in 0..50 {
        let name = n.to_string();
        tokio::select! {
            biased;
            _ = submit(&store, job(&name)) => {}
            () = tokio::task::yield_now() => {}
        }
        tokio::select! {
            biased;
            _ = claim(&store) => {}
            () = tokio::task::yield_now() => {}
        }
    }
    accept(&store, job("last")).await;
    assert!(
        store
            .audit(&task_type(), false)
            .await
            .unwrap()
            .problems
            .is_empty()
    );
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_waited_for() {
    // Each command of the append-only file takes a fifth of a millisecond to load.
    let mut server = RedisServer::start(Persistence::Always, &["--key-load-delay", "200"]);
    let store = open(&server).await;
    for n in 0..300 {
        accept(&store, job(&n.to_string())).await;
    }
    server.kill();
    let url = server.url();
    let restarted = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    let store = loop {
        match RedisStore::connect(&url, options()).await {
            Ok(store) => break store,
            // Only until its port is open.
            Err(error) => assert!(error.to_string().contains("refused"), "{error}"),
        }
    };
    assert_eq!(store.stats(&task_type()).await.unwrap().scheduled, 300);
    drop(restarted.await.unwrap());
}

#[tokio::test]
async fn a_store_that_cannot_connect_says_where() {
    let mut server = RedisServer::start(Persistence::None, &[]);
    server.kill();
    let url = format!("redis://user:hunter2@127.0.0.1:{}", server.port());
    let error = RedisStore::connect(&url, options()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let message = error.to_string();
    assert!(message.starts_with(&format!(
        "redis://127.0.0.1:{}/0 is unavailable",
        server.port()
    )));
    assert!(!message.contains("hunter2"), "{message}");
    assert!(
        message.contains("is it running at this address?"),
        "{message}"
    );
}

#[tokio::test]
async fn settings_that_can_never_work_are_told_apart_from_a_server_that_is_down() {
    let server = RedisServer::start(Persistence::None, &[]);
    let none = format!("{}/99", server.url());
    let error = RedisStore::connect(&none, options()).await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
    let no_time = StoreOptions {
        call_timeout: Duration::ZERO,
        ..options()
    };
    let error = RedisStore::connect(&server.url(), no_time).await;
    assert!(
        matches!(error, Err(Error::InvalidInput { .. })),
        "{error:?}"
    );
    let tls = server.url().replace("redis:", "rediss:");
    let error = RedisStore::connect(&tls, options()).await.unwrap_err();
    assert!(error.to_string().contains("speak TLS"), "{error}");
}

/// Found in review: no clock goes as far.
#[tokio::test]
async fn a_call_may_be_given_all_the_time_there_is() {
    let server = RedisServer::start(Persistence::None, &[]);
    let patient = StoreOptions {
        call_timeout: Duration::MAX,
        ..options()
    };
    let store = RedisStore::connect(&server.url(), patient).await.unwrap();
    accept(&store, job("1")).await;
    assert_eq!(claim(&store).await.unwrap().tasks.len(), 1);
}
