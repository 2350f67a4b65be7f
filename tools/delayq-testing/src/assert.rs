//! Assertions on the state of a task.

use delayq_core::{Store, TaskId, TaskInfo, TaskState, TaskType, Timestamp};

/// Asserts that a task is in `state`, and returns its record.
///
/// # Panics
/// When the task is unknown or in another state, when a name is invalid, or when the store fails.
pub async fn assert_state(
    store: &dyn Store,
    task_type: &str,
    id: &str,
    state: TaskState,
) -> TaskInfo {
    let Some(info) = find(store, task_type, id).await else {
        panic!("task {id} of type {task_type} is not known, expected {state}");
    };
    let found = info.state;
    assert!(
        found == state,
        "task {id} of type {task_type} is {found}, expected {state}"
    );
    info
}

/// Asserts that a task is scheduled, and returns its due time.
///
/// # Panics
/// As with [`assert_state`].
pub async fn assert_scheduled(store: &dyn Store, task_type: &str, id: &str) -> Timestamp {
    assert_state(store, task_type, id, TaskState::Scheduled)
        .await
        .at
}

/// Asserts that a task is not known: it never existed, or its retention is over.
///
/// # Panics
/// When the task is known, when a name is invalid, or when the store fails.
pub async fn assert_not_found(store: &dyn Store, task_type: &str, id: &str) {
    if let Some(info) = find(store, task_type, id).await {
        panic!(
            "task {id} of type {task_type} is {}, expected none",
            info.state
        );
    }
}

async fn find(store: &dyn Store, task_type: &str, id: &str) -> Option<TaskInfo> {
    let (Ok(task_type), Ok(id)) = (TaskType::new(task_type), TaskId::new(id)) else {
        panic!("{task_type} is no task type, or {id} no task id");
    };
    match store.find(&task_type, &id).await {
        Ok(found) => found,
        Err(error) => panic!("find {id} of type {task_type}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::memory::MemoryStore;
    use delayq_core::{Clock, Store};
    use delayq_core::{DelayQueueJob, Limits, SystemClock, minutes};

    use super::*;

    async fn store() -> MemoryStore {
        let store = MemoryStore::default();
        let job = DelayQueueJob::raw("mail.send", "m")
            .id("1")
            .after(minutes(5));
        let task = job.into_task(&Limits::default(), SystemClock.now());
        assert!(store.submit(vec![task.unwrap()]).await[0].is_ok());
        store
    }

    #[tokio::test]
    async fn a_task_is_found_in_its_state() {
        let store = store().await;
        assert!(assert_scheduled(&store, "mail.send", "1").await > SystemClock.now());
        assert_not_found(&store, "mail.send", "2").await;
    }

    #[tokio::test]
    #[should_panic(expected = "task 1 of type mail.send is scheduled, expected done")]
    async fn another_state_panics() {
        assert_state(&store().await, "mail.send", "1", TaskState::Done).await;
    }

    #[tokio::test]
    #[should_panic(expected = "task 2 of type mail.send is not known, expected dead")]
    async fn an_unknown_task_panics() {
        assert_state(&store().await, "mail.send", "2", TaskState::Dead).await;
    }

    #[tokio::test]
    #[should_panic(expected = "task 1 of type mail.send is scheduled, expected none")]
    async fn a_known_task_panics() {
        assert_not_found(&store().await, "mail.send", "1").await;
    }
}
