//! Limits, as a client of gRPC meets them.

use delayq_core::memory::MemoryStore;
use delayq_core::store::SubmitOutcome;
use delayq_core::{NewTask, TaskId, TaskState, TaskType};
use delayq_plugin::{Error, When};
use delayq_remote::RemoteStore;

use super::*;

/// A server whose namespace `shop` may have two tasks.
async fn full_at_two() -> (Site, Namespace) {
    let shop = Namespace::new("shop").unwrap();
    let mut limited = NamespaceConfig::default();
    limited.limits.max_pending = Some(2);
    let config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        namespaces: [(shop.to_string(), limited)].into(),
        ..Config::default()
    };
    let server = Server::open(config).await.unwrap();
    let store = Arc::new(MemoryStore::default());
    server.app.spaces.offer(shop.clone(), store).await;
    (Site::of(server).await, shop)
}

#[tokio::test]
async fn of_many_tasks_those_are_taken_that_there_is_room_for() {
    let (site, shop) = full_at_two().await;
    let options = remote_options(&StoreOptions::default());
    let store = RemoteStore::connect(&site.url(&shop), options)
        .await
        .unwrap();
    let task = |id: &str| {
        let mail = TaskType::new("mail").unwrap();
        let mut task = NewTask::new(mail, TaskId::new(id).unwrap(), b"x".to_vec());
        task.when = When::After(std::time::Duration::from_hours(1));
        task
    };
    let first = store.submit(vec![task("a")]).await;
    assert!(first[0].is_ok(), "{first:?}");
    let results = store.submit(["b", "c", "a"].map(task).into()).await;
    assert!(
        matches!(results[0], Ok(SubmitOutcome::Accepted { .. })),
        "{results:?}"
    );
    assert!(matches!(results[1], Err(Error::Full { .. })), "{results:?}");
    let known = SubmitOutcome::AlreadyExists {
        state: TaskState::Scheduled,
    };
    assert_eq!(results[2], Ok(known));
}
