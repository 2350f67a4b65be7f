//! Tasks that follow an attempt, at both doors that offer them.

use delayq_plugin::{DelayQueueJob, TaskState};
use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;
use delayq_service::pull::{LockText, Pulled};
use serde_json::{Value, json};

use super::house::{Answer, Door, House, task_of_grpc};

/// An attempt of the task `first` of a door, which is due now.
async fn attempt(house: &House, door: Door) -> Pulled {
    let job = DelayQueueJob::raw(door.task_type(), "x").id("first");
    house.space().await.tasks.send(job).await.unwrap();
    house.claim_of(door.task_type()).await.remove(0)
}

/// Two follow-ups of a type, one of them with the id `own`.
fn then(task_type: &str) -> Value {
    json!([
        {"type": task_type, "json": {"a": 1}, "delay": "1h"},
        {"type": task_type, "id": "own", "message": "x", "delay": "1h"},
    ])
}

fn then_of_grpc(task_type: &str) -> Vec<pb::NewTask> {
    ["", "own"]
        .map(|id| {
            let mut task = task_of_grpc("any");
            task_type.clone_into(&mut task.task_type);
            id.clone_into(&mut task.id);
            task
        })
        .into()
}

/// Ends an attempt as done, with two follow-ups of a type.
async fn done(house: &House, door: Door, pulled: &Pulled, task_type: &str) -> Answer {
    let (bucket, lock) = (&pulled.bucket, &pulled.task.lock);
    if door == Door::Grpc {
        let done = pb::attempt_end::Done {
            then: then_of_grpc(task_type),
        };
        let settlement = pb::Settlement {
            lock: Some(lock.clone().into()),
            end: Some(pb::AttemptEnd {
                end: Some(pb::attempt_end::End::Done(done)),
            }),
            note: None,
        };
        let request = pb::SettleRequest {
            namespace: house.namespace.to_owned(),
            bucket: Some(bucket.into()),
            settlements: vec![settlement],
        };
        let mut answer = house.grpc("Settle", &request).await;
        if answer.status == 200 {
            let outcomes = answer.message::<pb::SettleResponse>().outcomes;
            let lost = i32::from(pb::SettleOutcome::LockLost);
            answer.status = if outcomes == [lost] { 409 } else { 200 };
        }
        return answer;
    }
    let lock = LockText::new(bucket, lock.fence, 1);
    let path = format!("types/http/tasks/first/done-then?lock={lock}");
    let form = json!({"reply": {"sum": 7}, "then": then(task_type)});
    house.v1("POST", &path, &form.to_string()).await
}

/// The ids of the tasks of a type that wait.
async fn waiting(house: &House, task_type: &str) -> Vec<String> {
    let tasks = &house.space().await.tasks;
    let page = tasks.list(task_type, TaskState::Scheduled, None, 100).await;
    let page = page.unwrap().tasks.into_iter();
    page.map(|task| task.id.to_string()).collect()
}

#[tokio::test]
async fn a_done_attempt_leaves_its_follow_ups_behind_once() {
    for (namespace, door) in [
        ("walk-then-http", Door::Http),
        ("walk-then-grpc", Door::Grpc),
    ] {
        let house = House::open(namespace, NamespaceLimits::default()).await;
        let tasks = house.space().await.tasks.clone();
        let first = attempt(&house, door).await;
        // As after a crash between the follow-ups and the end: the task runs again.
        let given_back = delayq_plugin::store::AttemptEnd::Release {
            after: std::time::Duration::ZERO,
            succeeded: Vec::new(),
        };
        let pull = &house.space().await.pull;
        let end = pull.end(first.bucket.clone(), first.task.lock.clone(), given_back);
        end.await.unwrap();
        let stale = done(&house, door, &first, "next").await;
        assert_eq!(stale.status, 409, "{door:?}: {stale:?}");
        assert_eq!(waiting(&house, "next").await, [""; 0], "{door:?}");
        let second = house.claim_of(door.task_type()).await.remove(0);
        for _ in 0..2 {
            let answer = done(&house, door, &second, "next").await;
            assert_eq!(answer.status, 200, "{door:?}: {answer:?}");
        }
        let mut ids = waiting(&house, "next").await;
        ids.sort();
        assert_eq!(ids.len(), 2, "{ids:?}");
        assert!(ids[0].starts_with("first+0."), "{ids:?}");
        assert_eq!(ids[1], "own");
        let found = tasks.find(door.task_type(), "first").await.unwrap();
        assert_eq!(found.unwrap().state, TaskState::Done, "{door:?}");
        if door == Door::Http {
            let reply = house.v1("GET", "types/http/tasks/first/reply", "").await;
            assert_eq!(reply.json(), json!({"sum": 7}), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn follow_ups_need_the_right_to_send_them_and_a_refused_one_ends_nothing() {
    let doors = [
        ("walk-then-right-http", Door::Http),
        ("walk-then-right-grpc", Door::Grpc),
    ];
    for (namespace, door) in doors {
        let mut house = House::open(namespace, NamespaceLimits::default()).await;
        let pulled = attempt(&house, door).await;
        let tasks = house.space().await.tasks.clone();
        let own = door.task_type();
        for (scopes, types, status) in [
            (&[Scope::Work][..], &[][..], 403),
            (&[Scope::Work, Scope::Submit], &[own], 403),
            (&[Scope::Work, Scope::Submit], &[own, "next"], 200),
        ] {
            house.token = house.server.new_token("w", scopes, namespace, types).await;
            let answer = done(&house, door, &pulled, "next").await;
            assert_eq!(answer.status, status, "{door:?} {types:?}: {answer:?}");
            let found = tasks.find(own, "first").await.unwrap().unwrap();
            let is_done = found.state == TaskState::Done;
            assert_eq!(is_done, status == 200, "{door:?} {types:?}");
        }
    }
}

#[tokio::test]
async fn a_follow_up_that_would_run_again_after_a_crash_is_refused() {
    let house = House::open("walk-then-replace", NamespaceLimits::default()).await;
    let pulled = attempt(&house, Door::Http).await;
    let lock = LockText::new(&pulled.bucket, pulled.task.lock.fence, 1).to_string();
    for one in [
        json!({"type": "next", "id": "a", "on_conflict": "replace"}),
        json!({"type": "next", "id": "a", "debounce": "1m", "max_wait": "1h"}),
    ] {
        let then = json!({"then": [one]});
        let path = format!("types/http/tasks/first/done-then?lock={lock}");
        let refused = house.v1("POST", &path, &then.to_string()).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.text.contains("leave out replace"), "{refused:?}");
    }
}

#[tokio::test]
async fn of_several_ends_each_has_its_own_follow_ups() {
    let house = House::open("walk-then-many", NamespaceLimits::default()).await;
    let pulled = attempt(&house, Door::Http).await;
    let lock = LockText::new(&pulled.bucket, pulled.task.lock.fence, 1).to_string();
    let settle = async |end: &str, then: Value| {
        let form = json!([{"id": "first", "lock": lock, "end": end, "then": then}]);
        house
            .v1("POST", "types/http/settle", &form.to_string())
            .await
    };
    for (end, then, word) in [
        ("fail", then("next"), "only with the end done"),
        ("done", json!([{"json": 1}]), "then[0]: type"),
        (
            "done",
            json!([{"type": "no blank", "json": 1}]),
            "task type",
        ),
    ] {
        let refused = settle(end, then).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        let said = refused.json()["detail"].to_string();
        assert!(said.contains(word), "{said}");
    }
    let answer = settle("done", then("next")).await;
    assert_eq!(answer.json()[0]["outcome"], "settled", "{answer:?}");
    assert_eq!(waiting(&house, "next").await.len(), 2);
}
