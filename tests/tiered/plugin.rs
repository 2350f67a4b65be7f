//! The cold tier as an application and its operator use it.

use std::sync::Arc;

use async_trait::async_trait;
use delayq_plugin::store::StoreOptions;
use delayq_plugin::{
    CancelOutcome, ChangeOutcome, Clock, ColdStore, Config, DelayQueueJob, DelayQueuePlugin,
    DelayQueuePluginBuilder, SystemClock, TaskContext, TaskResult, TaskState, TaskSubmitService,
    TaskWorker, WorkerOptions, days, hours, millis, minutes, open_store, seconds,
};
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::redis_server::{Persistence, RedisServer};
use tokio::sync::mpsc;

/// Tells of each task that it runs.
struct Telling(mpsc::UnboundedSender<String>);

#[async_trait]
impl TaskWorker for Telling {
    async fn invoke(&self, message: &str, _: &TaskContext) -> TaskResult {
        self.0.send(message.to_owned()).unwrap();
        Ok(())
    }
}

fn builder() -> (DelayQueuePluginBuilder, mpsc::UnboundedReceiver<String>) {
    let (tell, told) = mpsc::unbounded_channel();
    let builder = DelayQueuePlugin::builder().without_registered_workers();
    let builder = builder.worker("job", WorkerOptions::DEFAULT, Telling(tell));
    (builder, told)
}

fn job(id: &str) -> DelayQueueJob {
    DelayQueueJob::raw("job", id).id(id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_sends_finds_changes_and_runs_far_tasks() {
    let redis = RedisServer::start(Persistence::EverySecond, &[]);
    let folder = tempfile::tempdir().unwrap();
    let cold = format!("sqlite:{}", folder.path().join("cold.sqlite").display());
    let (one, mut told) = builder();
    let text = format!(
        "url = {:?}\ncold_url = {cold:?}\nhorizon = \"10m\"",
        redis.url()
    );
    let plugin = one
        .config(Config::parse(&text).unwrap())
        .start()
        .await
        .unwrap();
    let tasks = plugin.submit_service();
    for id in ["a", "b", "c"] {
        tasks.send(job(id).after(days(30))).await.unwrap();
    }
    tasks.send(job("near").after(minutes(9))).await.unwrap();
    let hot = open_store(&redis.url(), StoreOptions::default())
        .await
        .unwrap();
    let hot = TaskSubmitService::new(hot);
    assert_eq!(hot.stats("job").await.unwrap().scheduled, 1);
    assert_eq!(tasks.stats("job").await.unwrap().scheduled, 4);
    assert!(
        tasks.store().name().starts_with("tiered("),
        "{}",
        tasks.store().name()
    );
    // An operator's program moves nothing, and sees one store.
    let looking = ColdStore::new(&cold).horizon(minutes(10)).moving_nothing();
    let options = StoreOptions {
        retention: hours(24 * 7),
        ..StoreOptions::default()
    };
    let looking = looking.open_existing(&redis.url(), options).await.unwrap();
    let looking = TaskSubmitService::new(looking);
    let found = looking.find("job", "a").await.unwrap().unwrap();
    assert_eq!(found.state, TaskState::Scheduled);
    assert_eq!(
        looking.cancel("job", "a").await,
        Ok(CancelOutcome::Cancelled)
    );
    assert_eq!(
        tasks.find("job", "a").await.unwrap().unwrap().state,
        TaskState::Cancelled
    );
    // Its instances run what it asks for.
    let asked_at = SystemClock.now();
    match looking.run_now("job", "b").await {
        Ok(ChangeOutcome::Changed { due_at }) => assert!(due_at.since(asked_at) < seconds(30)),
        other => panic!("{other:?}"),
    }
    let ran = tokio::time::timeout(seconds(30), told.recv()).await;
    assert_eq!(ran.unwrap().as_deref(), Some("b"));
    assert!(plugin.health().await.is_ok());
    plugin.shutdown(seconds(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mistake_in_the_settings_of_a_cold_store_fails_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let of = |change: &dyn Fn(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder| {
        change(builder().0.url(url("hot.sqlite")))
    };
    let cold = url("cold.sqlite");
    let same = url("hot.sqlite");
    let twin = url("./hot.sqlite");
    for (one, word) in [
        (
            of(&|one| one.horizon(hours(1))),
            "no effect without a cold store",
        ),
        (
            of(&|one| one.cold_store(&cold).horizon(minutes(4))),
            "at least 5 minutes",
        ),
        (
            of(&|one| one.cold_store(&cold).retention(minutes(2))),
            "retention",
        ),
        (of(&|one| one.cold_store(&same)), "another place"),
        (of(&|one| one.cold_store(&twin)), "another name"),
        (of(&|one| one.cold_store("postgre://h/d")), "store URL"),
    ] {
        let error = one.start().await.err().map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|text| text.contains(word)),
            "{word}: {error:?}"
        );
    }
    let memory = delayq_plugin::store::MemoryStore::default();
    let both = builder().0.store(Arc::new(memory)).cold_store(&cold);
    let error = both.start().await.err().map(|error| error.to_string());
    assert!(error.is_some_and(|text| text.contains("cold_store")));
}

/// Near tasks do without the cold store, and far ones are accepted once it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_starts_while_its_cold_store_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut postgres = PostgresServer::start(&[]);
    let cold = postgres.url();
    postgres.kill();
    let (one, mut told) = builder();
    let one = one.url(format!(
        "sqlite:{}",
        folder.path().join("hot.sqlite").display()
    ));
    let one = one.cold_store(&cold).call_timeout(seconds(2));
    let plugin = one.start().await.unwrap();
    let tasks = plugin.submit_service();
    tasks.send(job("near")).await.unwrap();
    assert_eq!(told.recv().await.as_deref(), Some("near"));
    let refused = tasks.send(job("far").after(days(1))).await.unwrap_err();
    assert!(
        refused.to_string().contains("away at the start"),
        "{refused}"
    );
    assert!(!plugin.health().await.is_ok());
    postgres.restart();
    let end = SystemClock.elapsed() + seconds(30);
    while let Err(error) = tasks.send(job("far").after(days(1))).await {
        assert!(SystemClock.elapsed() < end, "{error}");
        SystemClock
            .sleep_until(SystemClock.elapsed() + millis(20))
            .await;
    }
    let changed = tasks.run_now("job", "far").await;
    assert!(
        matches!(changed, Ok(ChangeOutcome::Changed { .. })),
        "{changed:?}"
    );
    assert_eq!(told.recv().await.as_deref(), Some("far"));
    plugin.shutdown(seconds(5)).await;
}
