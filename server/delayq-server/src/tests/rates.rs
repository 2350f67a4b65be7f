//! Debounced and throttled tasks, at both doors that offer them.

use std::time::Duration;

use delayq_plugin::{SubmitOutcome, TaskState};
use delayq_proto::{pb, span};
use delayq_service::config::NamespaceLimits;

use super::house::{HOUR, House, task_of_grpc};

fn request(house: &House, task: pb::NewTask) -> pb::SubmitRequest {
    pb::SubmitRequest {
        namespace: house.namespace.to_owned(),
        tasks: vec![task],
    }
}

#[tokio::test]
async fn a_debounced_task_waits_anew_with_each_create_up_to_its_longest_wait() {
    let house = House::open("walk-debounce", NamespaceLimits::default()).await;
    let create = async |path: &str, message: &str| {
        house
            .v1("PUT", &format!("types/http/tasks/{path}"), message)
            .await
    };
    let first = create("doc-7?debounce=1h&max_wait=2h", "one").await;
    assert_eq!(first.json()["outcome"], "accepted", "{first:?}");
    let second = create("doc-7?debounce=90m&max_wait=2h", "two").await;
    assert_eq!(second.json()["outcome"], "replaced", "{second:?}");
    let due = |answer: &super::house::Answer| answer.json()["due_at"].as_i64().unwrap();
    assert!(due(&second) - due(&first) > 20 * 60_000, "{second:?}");
    let found = house.v1("GET", "types/http/tasks/doc-7", "").await.json();
    assert_eq!(found["message"], "two");
    let line = r#"{"id":"doc-7","debounce":"119m","max_wait":"2h","message":"three"}"#;
    let third = house.v1("POST", "types/http/bulk", line).await;
    assert_eq!(third.json()["outcome"], "replaced", "{third:?}");
    for (query, word) in [
        ("debounce=1h", "max_wait"),
        ("max_wait=1h", "debounce"),
        ("debounce=2h&max_wait=1h", "shorter"),
        ("debounce=1h&max_wait=2h&delay=1h", "delay"),
        ("debounce=1h&max_wait=2h&on_conflict=keep", "on_conflict"),
        ("debounce=1h&throttle=1h", "exclude"),
        ("debounce=1h&max_wait=4000d", "10 years"),
        ("throttle=0", "window"),
        ("throttle=1h&at=2030-01-01T00:00:00Z", "at"),
    ] {
        let refused = create(&format!("b?{query}"), "x").await;
        assert_eq!(refused.status, 400, "{query}: {refused:?}");
        let said = refused.json()["detail"].to_string();
        assert!(said.contains(word), "{query}: {said}");
    }
    for option in ["debounce=1h&max_wait=1h", "throttle=1h"] {
        let path = format!("types/http/tasks?{option}");
        let refused = house.v1("POST", &path, "x").await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.text.contains("give the task an id"), "{refused:?}");
    }
    assert_eq!(house.tasks().await, 1);
}

#[tokio::test]
async fn a_throttled_task_is_the_one_of_its_window_at_both_doors() {
    let house = House::open("walk-throttle", NamespaceLimits::default()).await;
    // A window that ends in years does not end within the test.
    let window = 24 * 3_650;
    for (count, outcome) in [(1, "accepted"), (2, "already_exists")] {
        let path = format!("types/http/tasks/doc-7?throttle={window}h");
        let answer = house.v1("PUT", &path, &count.to_string()).await;
        assert_eq!(answer.json()["outcome"], outcome, "{answer:?}");
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        assert!(id.starts_with("doc-7@") && id.ends_with('Z'), "{id}");
    }
    let throttled = |id: &str| {
        let mut task = task_of_grpc("any");
        id.clone_into(&mut task.id);
        task.when = None;
        task.throttle = Some(span(HOUR * window));
        request(&house, task)
    };
    let first = house.outcome(&throttled("doc-7")).await.unwrap();
    assert!(matches!(first, SubmitOutcome::Accepted { .. }), "{first:?}");
    let second = house.outcome(&throttled("doc-7")).await.unwrap();
    let scheduled = SubmitOutcome::AlreadyExists {
        state: TaskState::Scheduled,
    };
    assert_eq!(second, scheduled);
    let mut timed = task_of_grpc("doc-8");
    timed.throttle = Some(span(Duration::from_mins(1)));
    for refused in [throttled(""), request(&house, timed)] {
        let refused = house.outcome(&refused).await.unwrap_err();
        let is_invalid = matches!(refused, delayq_plugin::Error::InvalidInput { .. });
        assert!(is_invalid, "{refused:?}");
    }
    assert_eq!(house.tasks().await, 2);
}
