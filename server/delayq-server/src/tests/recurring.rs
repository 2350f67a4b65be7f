//! Recurring tasks that are declared at both doors that offer them.

use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::recurrence::cancel_untried;
use delayq_plugin::{DelayQueueJob, TaskInfo, TaskState, TaskType};
use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;
use delayq_service::recurring::RecurringTask;
use delayq_tests::rig::until;
use serde_json::{Value, json};

use super::house::{Answer, Door, House};

const HOURLY: &str = "0 * * * *";

async fn set(house: &House, door: Door, task_type: &str, every: &str, text: &str) -> Answer {
    if door == Door::Http {
        let form = json!({"type": task_type, "every": every, "message": text});
        return house.v1("PUT", "recurring/report", &form.to_string()).await;
    }
    let recurring = pb::RecurringTask {
        id: "report".to_owned(),
        task_type: task_type.to_owned(),
        every: every.to_owned(),
        body: Some(pb::recurring_task::Body::Text(text.to_owned())),
        ..Default::default()
    };
    let request = pb::SetRecurringRequest {
        namespace: house.namespace.to_owned(),
        recurring: Some(recurring),
    };
    house.grpc("SetRecurring", &request).await
}

/// Pauses, resumes or removes it.
async fn change(house: &House, door: Door, verb: &str) -> u16 {
    if door == Door::Http {
        let (method, path) = match verb {
            "Remove" => ("DELETE", "recurring/report".to_owned()),
            verb => ("POST", format!("recurring/report/{}", verb.to_lowercase())),
        };
        return house.v1(method, &path, "").await.status;
    }
    // The requests of all three have the same fields.
    let request = pb::PauseRecurringRequest {
        namespace: house.namespace.to_owned(),
        id: "report".to_owned(),
    };
    house
        .grpc(&format!("{verb}Recurring"), &request)
        .await
        .status
}

/// The waiting tasks of a type.
async fn waiting(house: &House, task_type: &str) -> Vec<TaskInfo> {
    let tasks = &house.space().await.tasks;
    let page = tasks.list(task_type, TaskState::Scheduled, None, 100).await;
    page.unwrap().tasks
}

#[tokio::test]
async fn one_occurrence_waits_and_follows_each_change_of_the_declaration() {
    for (namespace, door) in [
        ("walk-cron-http", Door::Http),
        ("walk-cron-grpc", Door::Grpc),
    ] {
        let house = House::open(namespace, NamespaceLimits::default()).await;
        let one = async |text: &str| {
            let mut waiting = waiting(&house, "daily").await;
            assert_eq!(waiting.len(), 1, "{door:?}: {waiting:?}");
            let one = waiting.remove(0);
            assert_eq!(one.message.as_deref(), Some(text.as_bytes()), "{door:?}");
            assert!(one.id.as_str().starts_with("report@"), "{one:?}");
            one.id
        };
        for _ in 0..2 {
            assert_eq!(set(&house, door, "daily", HOURLY, "a").await.status, 200);
        }
        let first = one("a").await;
        assert_eq!(set(&house, door, "daily", HOURLY, "b").await.status, 200);
        assert_eq!(one("b").await, first);
        let rarely = set(&house, door, "daily", "0 0 29 2 *", "b").await;
        assert_eq!(rarely.status, 200);
        assert_ne!(one("b").await, first);
        assert_eq!(set(&house, door, "daily", HOURLY, "b").await.status, 200);
        assert_eq!(one("b").await, first, "although it was cancelled");
        for (verb, count) in [("Pause", 0), ("Pause", 0), ("Resume", 1), ("Resume", 1)] {
            assert_eq!(change(&house, door, verb).await, 200, "{door:?} {verb}");
            assert_eq!(
                waiting(&house, "daily").await.len(),
                count,
                "{door:?} {verb}"
            );
        }
        assert_eq!(set(&house, door, "other", HOURLY, "b").await.status, 200);
        assert_eq!(waiting(&house, "daily").await.len(), 0);
        assert_eq!(waiting(&house, "other").await.len(), 1);
        assert_eq!(change(&house, door, "Remove").await / 100, 2);
        assert_eq!(waiting(&house, "other").await.len(), 0);
        for verb in ["Remove", "Pause", "Resume"] {
            assert_eq!(change(&house, door, verb).await, 404, "{door:?} {verb}");
        }
        let verbs: Vec<_> = house.log().await.into_iter().map(|one| one.0).collect();
        let set = "set-recurring";
        let (pause, resume) = ("pause-recurring", "resume-recurring");
        let wanted = [set, set, set, set, pause, resume, set, "remove-recurring"];
        assert_eq!(verbs, wanted, "{door:?}");
    }
}

/// As after a crash between the two steps of a change.
#[tokio::test]
async fn a_change_that_stopped_half_way_is_completed_by_its_repeat() {
    let house = House::open("walk-cron-half", NamespaceLimits::default()).await;
    let space = house.space().await;
    let store = async |text: &str, is_paused| {
        let known = space.recurring.all().await.unwrap();
        let known = known.get("report").cloned();
        let daily = TaskType::new("daily").unwrap();
        let mut task = RecurringTask::new(daily, HOURLY.to_owned(), text.as_bytes());
        task.is_paused = is_paused;
        let task = task.changing(known.as_deref(), space.tasks.clock().now());
        assert!(space.recurring.write("report", &task).await.unwrap());
        let mut late = task;
        late.is_paused = !is_paused;
        assert!(!space.recurring.write("report", &late).await.unwrap());
    };
    // So many wait before it that no scan comes to it.
    let early = (0..10_300).map(|at| DelayQueueJob::raw("daily", "x").id(format!("{at}")));
    let sent = space
        .tasks
        .send_all(early.map(|job| job.after(Duration::from_secs(1))).collect());
    assert!(sent.await.iter().all(Result::is_ok));
    assert_eq!(
        set(&house, Door::Http, "daily", HOURLY, "a").await.status,
        200
    );
    let old = space.recurring.all().await.unwrap()["report"].clone();
    let next = async || {
        let at = old.next_at(space.tasks.clock().now()).unwrap();
        let id = format!("report@{}", at.to_string().replace(".000Z", "Z"));
        let found = space.tasks.find("daily", &id).await.unwrap()?;
        found
            .message
            .filter(|_| found.state == TaskState::Scheduled)
    };
    assert_eq!(next().await.as_deref(), Some(b"a".as_slice()));
    store("b", false).await;
    assert_eq!(
        set(&house, Door::Http, "daily", HOURLY, "b").await.status,
        200
    );
    assert_eq!(next().await.as_deref(), Some(b"b".as_slice()));
    // A server that hears late of the first declaration's end.
    let recurring = old.recurring("report").unwrap();
    let late = cancel_untried(&space.tasks, &recurring, old.since(), None);
    assert_eq!(late.await.unwrap(), 0);
    store("b", true).await;
    assert_eq!(change(&house, Door::Http, "Pause").await, 200);
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn the_next_occurrence_comes_once_the_one_before_has_started_and_none_after_a_pause() {
    let house = House::open("walk-cron-run", NamespaceLimits::default()).await;
    let space = house.space().await;
    let running = Arc::clone(&space);
    let running = tokio::spawn(async move { running.recurring.run().await });
    assert_eq!(set(&house, Door::Http, "tick", "1s", "x").await.status, 200);
    let mut last = None;
    for _ in 0..3 {
        let pulled = house.claim_of("tick").await.remove(0);
        let id = pulled.task.lock.id.clone();
        assert!(last < Some(id.clone()), "{last:?} {id}");
        last = Some(id);
        let done = delayq_plugin::store::AttemptEnd::Done;
        let end = space.pull.end(pulled.bucket, pulled.task.lock, done);
        end.await.unwrap();
    }
    // Nobody claims: they do not pile up.
    until("an occurrence that is late", async || {
        let waiting = waiting(&house, "tick").await;
        assert!(waiting.len() <= 1, "{waiting:?}");
        let late = space.tasks.clock().now().since(waiting.first()?.at);
        (late.as_millis() > 1_500).then_some(())
    })
    .await;
    assert_eq!(change(&house, Door::Http, "Pause").await, 200);
    assert_eq!(waiting(&house, "tick").await.len(), 0);
    running.abort();
}

#[tokio::test]
async fn recurring_tasks_are_listed_page_by_page_as_far_as_the_token_goes() {
    let mut house = House::open("walk-cron-list", NamespaceLimits::default()).await;
    for (id, task_type) in [
        ("a", "mail.a"),
        ("b", "sms"),
        ("c", "mail.c"),
        ("d", "mail.d"),
    ] {
        let form = json!({
            "type": task_type, "every": "0 9 * * *", "zone": "Europe/Berlin",
            "json": {"n": 1}, "group": "tenant-7",
        });
        let path = format!("recurring/{id}");
        let answer = house.v1("PUT", &path, &form.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["zone"], "Europe/Berlin");
        assert!(answer.json()["next_at"].is_i64(), "{answer:?}");
    }
    let scopes = [Scope::Read, Scope::Operate];
    let narrow = house
        .server
        .new_token("n", &scopes, house.namespace, &["mail.*"]);
    house.token = narrow.await;
    let ids = |page: &Value| -> Vec<String> {
        let list = page["recurring"].as_array().unwrap().iter();
        list.map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = house.v1("GET", "recurring?limit=2", "").await.json();
    assert_eq!(ids(&first), ["a", "c"]);
    let next = first["next"].as_str().unwrap();
    let path = format!("recurring?limit=2&cursor={next}");
    let second = house.v1("GET", &path, "").await.json();
    assert_eq!(
        (ids(&second), &second["next"]),
        (vec!["d".to_owned()], &Value::Null)
    );
    let request = pb::ListRecurringRequest {
        namespace: house.namespace.to_owned(),
        ..Default::default()
    };
    let all: pb::ListRecurringResponse = house.grpc("ListRecurring", &request).await.message();
    assert_eq!(all.recurring.len(), 3);
    for (method, path) in [
        ("GET", "recurring/b"),
        ("DELETE", "recurring/b"),
        ("POST", "recurring/b/pause"),
    ] {
        assert_eq!(
            house.v1(method, path, "").await.status,
            403,
            "{method} {path}"
        );
    }
    // Neither is a foreign one taken over, nor is one of a foreign type declared.
    for (path, task_type) in [("recurring/b", "mail.b"), ("recurring/e", "sms")] {
        let form = json!({"type": task_type, "every": "1h"}).to_string();
        assert_eq!(house.v1("PUT", path, &form).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn a_declaration_that_cannot_be_is_refused_with_what_to_write() {
    let house = House::open("walk-cron-bad", NamespaceLimits::default()).await;
    for (id, form, word) in [
        ("a", json!({"type": "t", "every": "soon"}), "soon"),
        ("a", json!({"type": "t", "every": "0 0 31 2 *"}), "never"),
        (
            "a",
            json!({"type": "t", "every": "0 9 * * *", "zone": "Mars/One"}),
            "Mars/One",
        ),
        (
            "a",
            json!({"type": "t", "every": "15m", "zone": "UTC"}),
            "zone",
        ),
        (
            "a",
            json!({"type": "t", "every": "1h", "json": 1, "message": "x"}),
            "one of",
        ),
        (
            "a",
            json!({"type": "t", "every": "1h", "headers": {"delayq-target": "x"}}),
            "delayq-target",
        ),
        ("a", json!({"type": "t", "every": "1h", "evry": 1}), "evry"),
        ("a@b", json!({"type": "t", "every": "1h"}), "A-Z"),
        (
            "a",
            json!({"type": "t", "every": "1h", "message": "x".repeat(33_000)}),
            "32768",
        ),
    ] {
        let path = format!("recurring/{id}");
        let refused = house.v1("PUT", &path, &form.to_string()).await;
        assert!([400, 413].contains(&refused.status), "{refused:?}");
        assert!(refused.text.contains(word), "{word}: {refused:?}");
    }
    let long = "a".repeat(65);
    let form = json!({"type": "t", "every": "1h"}).to_string();
    let refused = house.v1("PUT", &format!("recurring/{long}"), &form).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let listed = house.v1("GET", "recurring", "").await.json();
    assert_eq!(listed["recurring"], json!([]));
    assert_eq!(house.tasks().await, 0);
}
