//! Batches at both doors that offer them.

use delayq_plugin::{CancelOutcome, TaskState};
use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;
use delayq_tests::rig::until;
use serde_json::json;

use super::house::{Answer, Door, House, task_of_grpc};

/// Sends the batch `import` of two tasks, the second with an id of its own.
async fn send(house: &House, door: Door) -> Answer {
    let own = door.task_type();
    if door == Door::Http {
        let batch = json!({
            "tasks": [{"type": own, "json": 1}, {"type": own, "id": "own", "delay": "1h"}],
            "then": {"type": "report", "message": "x"},
        });
        return house.v1("PUT", "batches/import", &batch.to_string()).await;
    }
    let task = |task_type: &str, id: &str| {
        let mut task = task_of_grpc("any");
        task_type.clone_into(&mut task.task_type);
        id.clone_into(&mut task.id);
        task
    };
    let mut due = task(own, "");
    due.when = None;
    let mut then = task("report", "");
    then.when = None;
    let request = pb::SendBatchRequest {
        namespace: house.namespace.to_owned(),
        name: "import".to_owned(),
        tasks: vec![due, task(own, "own")],
        then: Some(then),
        wait_for_dead: false,
    };
    house.grpc("SendBatch", &request).await
}

/// Sends a batch of this form over HTTP.
async fn put(house: &House, name: &str, batch: serde_json::Value) -> Answer {
    let path = format!("batches/{name}");
    house.v1("PUT", &path, &batch.to_string()).await
}

async fn progress(house: &House, door: Door) -> (u16, String, u64) {
    if door == Door::Http {
        let answer = house.v1("GET", "batches/import", "").await;
        let said = answer.json();
        let state = said["state"].as_str().unwrap_or_default().to_owned();
        return (
            answer.status,
            state,
            said["counts"]["done"].as_u64().unwrap_or(0),
        );
    }
    let request = pb::GetBatchRequest {
        namespace: house.namespace.to_owned(),
        name: "import".to_owned(),
    };
    let answer = house.grpc("GetBatch", &request).await;
    if answer.status != 200 {
        return (answer.status, String::new(), 0);
    }
    let said: pb::GetBatchResponse = answer.message();
    let state = said.state().as_str_name().to_lowercase();
    let state = state.trim_start_matches("batch_state_").to_owned();
    (200, state, said.counts.unwrap_or_default().done)
}

async fn cancel(house: &House, door: Door) -> u16 {
    if door == Door::Http {
        return house.v1("DELETE", "batches/import", "").await.status;
    }
    let request = pb::CancelBatchRequest {
        namespace: house.namespace.to_owned(),
        name: "import".to_owned(),
    };
    house.grpc("CancelBatch", &request).await.status
}

#[tokio::test]
async fn what_follows_a_batch_comes_once_all_of_its_tasks_have_ended() {
    for (namespace, door) in [
        ("walk-batch-http", Door::Http),
        ("walk-batch-grpc", Door::Grpc),
    ] {
        let house = House::open(namespace, NamespaceLimits::default()).await;
        let space = house.space().await;
        let pushing = std::sync::Arc::clone(&space);
        let pushing = tokio::spawn(async move { pushing.push.run().await });
        assert_eq!(progress(&house, door).await.0, 404);
        for _ in 0..2 {
            let sent = send(&house, door).await;
            assert!([200, 201].contains(&sent.status), "{door:?}: {sent:?}");
        }
        let first = house.claim_of(door.task_type()).await.remove(0);
        assert_eq!(first.task.lock.id.as_str(), "import/0");
        let done = delayq_plugin::store::AttemptEnd::Done;
        let end = space.pull.end(first.bucket, first.task.lock, done);
        end.await.unwrap();
        let seen = progress(&house, door).await;
        assert_eq!(seen, (200, "waiting".to_owned(), 1), "{door:?}");
        let cancelled = space.tasks.cancel(door.task_type(), "own").await;
        assert_eq!(cancelled.unwrap(), CancelOutcome::Cancelled);
        let report = house.claim_of("report").await.remove(0);
        let counts = &report.task.headers["delayq-batch"];
        assert!(counts.contains("\"cancelled\":1"), "{counts}");
        until("the end of the batch", async || {
            let (_, state, _) = progress(&house, door).await;
            (state == "over").then_some(())
        })
        .await;
        pushing.abort();
    }
}

#[tokio::test]
async fn a_batch_takes_the_right_to_each_of_its_types_and_its_cancel_too() {
    let doors = [
        ("walk-batch-right-http", Door::Http),
        ("walk-batch-right-grpc", Door::Grpc),
    ];
    for (namespace, door) in doors {
        let mut house = House::open(namespace, NamespaceLimits::default()).await;
        let (admin, own) = (house.token.clone(), door.task_type());
        let scopes = [Scope::Submit, Scope::Read];
        let types = [own];
        let narrow = house.server.new_token("n", &scopes, namespace, &types);
        house.token = narrow.await;
        assert_eq!(send(&house, door).await.status, 403, "{door:?}");
        assert_eq!(house.tasks().await, 0);
        let narrow = std::mem::replace(&mut house.token, admin);
        assert!(send(&house, door).await.status < 300);
        let admin = std::mem::replace(&mut house.token, narrow);
        assert_eq!(progress(&house, door).await.0, 403, "{door:?}");
        assert_eq!(cancel(&house, door).await, 403, "{door:?}");
        house.token = admin;
        assert_eq!(cancel(&house, door).await, 200, "{door:?}");
        let tasks = &house.space().await.tasks;
        let found = tasks.find(own, "own").await.unwrap().unwrap();
        assert_eq!(found.state, TaskState::Cancelled);
    }
}

#[tokio::test]
async fn a_bad_batch_is_refused_whole_with_the_place_of_its_mistake() {
    let limits = NamespaceLimits {
        max_message_bytes: Some(8),
        ..NamespaceLimits::default()
    };
    let house = House::open("walk-batch-bad", limits).await;
    let then = json!({"type": "report"});
    let long = json!({"type": "a", "message": "123456789"});
    for (batch, status, word) in [
        (
            json!({"tasks": [{"json": 1}], "then": then}),
            400,
            "tasks[0]",
        ),
        (
            json!({"tasks": [], "then": {"type": "r", "id": "x"}}),
            400,
            "id",
        ),
        (json!({"tasks": []}), 400, "then"),
        (
            json!({"tasks": [{"type": "a"}], "then": {"type": "r", "group": " "}}),
            400,
            "group",
        ),
        (json!({"tasks": [long], "then": then}), 413, "8"),
        (
            json!({"tasks": [{"type": "a", "id": "b", "throttle": "1m"}], "then": then}),
            400,
            "throttle",
        ),
        (
            json!({"tasks": [{"type": "a", "headers": {"delayq-target": "x"}}], "then": then}),
            400,
            "delayq-target",
        ),
    ] {
        let refused = put(&house, "bad", batch).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.text.contains(word), "{refused:?}");
    }
    assert_eq!(house.tasks().await, 0);
}

#[tokio::test]
async fn a_full_namespace_takes_a_batch_again_that_it_has() {
    let limits = NamespaceLimits {
        max_pending: Some(3),
        ..NamespaceLimits::default()
    };
    let house = House::open("walk-batch-full", limits).await;
    let then = json!({"type": "report"});
    let three = json!([{"type": "a"}, {"type": "a"}, {"type": "a"}]);
    let batch = json!({"tasks": &three, "then": &then});
    assert_eq!(put(&house, "import", batch.clone()).await.status, 201);
    let other = put(&house, "other", batch.clone()).await;
    assert_eq!(other.status, 429, "{other:?}");
    assert_eq!(put(&house, "import", batch).await.status, 201);
    let another = json!({"tasks": [], "then": {"type": "else"}});
    let conflict = put(&house, "import", another).await;
    assert_eq!(conflict.status, 409, "{conflict:?}");
    let empty = json!({"tasks": [], "then": then});
    assert_eq!(put(&house, "empty", empty).await.status, 201);
    let over = async || {
        let empty = house.v1("GET", "batches/empty", "").await.json();
        (empty["state"] == "over").then_some(())
    };
    let space = house.space().await;
    let pushing = tokio::spawn(async move { space.push.run().await });
    until("its end", over).await;
    pushing.abort();
    let full = put(&house, "empty", json!({"tasks": three, "then": then}));
    assert_eq!(full.await.status, 429, "a name that has ended is no way in");
}
