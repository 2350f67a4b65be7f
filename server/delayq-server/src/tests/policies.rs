//! Policies of types: set at both doors, and kept for workers of every language.

use std::time::Duration;

use delayq_plugin::store::{Bucket, ClaimRequest};
use delayq_plugin::{
    CancelOutcome, ChangeOutcome, Clock, DelayQueueJob, SystemClock, TaskInfo, TaskState, TaskType,
    seconds,
};
use delayq_proto::{pb, span};
use delayq_service::config::NamespaceLimits;
use delayq_service::pull::{Demand, LockText, Pulled};
use delayq_tests::rig::until;
use serde_json::json;

use super::house::{Answer, Door, House};

async fn set(house: &House, door: Door, task_type: &str, attempts: u32) -> Answer {
    if door == Door::Http {
        let policy = json!({
            "retry": {"attempts": attempts, "wait": "2h", "max_wait": "2h", "is_fixed": true},
            "max_lock_expiries": 1,
        });
        let path = format!("types/{task_type}/policy");
        return house.v1("PUT", &path, &policy.to_string()).await;
    }
    let two_hours = Some(span(Duration::from_hours(2)));
    let retry = pb::Retry {
        attempts: Some(attempts),
        wait: two_hours,
        max_wait: two_hours,
        is_fixed: true,
    };
    let request = pb::SetPolicyRequest {
        namespace: house.namespace.to_owned(),
        task_type: task_type.to_owned(),
        policy: Some(pb::TypePolicy {
            retry: Some(retry),
            max_lock_expiries: Some(1),
        }),
    };
    house.grpc("SetPolicy", &request).await
}

async fn attempt(house: &House, task_type: &str, id: &str) -> Pulled {
    let job = DelayQueueJob::raw(task_type, "x").id(id);
    house.space().await.tasks.send(job).await.unwrap();
    house.claim_of(task_type).await.remove(0)
}

/// Fails an attempt as the client of a door does that says nothing about a retry.
async fn fail(house: &House, door: Door, pulled: &Pulled, query: &str) -> TaskInfo {
    let (task_type, lock) = (pulled.bucket.task_type(), &pulled.task.lock);
    let answer = if door == Door::Http {
        let text = LockText::new(&pulled.bucket, lock.fence, pulled.task.history.tried());
        let path = format!(
            "types/{task_type}/tasks/{}/fail?lock={text}{query}",
            lock.id
        );
        house.v1("POST", &path, "no van").await
    } else {
        let fail = pb::attempt_end::Fail {
            error: "no van".to_owned(),
            ..Default::default()
        };
        let settlement = pb::Settlement {
            lock: Some(lock.clone().into()),
            end: Some(pb::AttemptEnd {
                end: Some(pb::attempt_end::End::Fail(fail)),
            }),
            note: None,
        };
        let request = pb::SettleRequest {
            namespace: house.namespace.to_owned(),
            bucket: Some((&pulled.bucket).into()),
            settlements: vec![settlement],
        };
        house.grpc("Settle", &request).await
    };
    assert_eq!(answer.status, 200, "{door:?}: {answer:?}");
    let tasks = &house.space().await.tasks;
    let found = tasks.find(task_type.as_str(), lock.id.as_str()).await;
    found.unwrap().unwrap()
}

#[tokio::test]
async fn a_failure_that_says_nothing_is_retried_as_the_policy_of_its_type_says() {
    let house = House::open("walk-policy", NamespaceLimits::default()).await;
    let now = SystemClock.now();
    for door in [Door::Http, Door::Grpc] {
        let own = door.task_type();
        let before = attempt(&house, own, "before").await;
        let found = fail(&house, door, &before, "").await;
        let wait = found.at.since(now);
        assert!(wait < Duration::from_mins(10), "{door:?}: {wait:?}");
        let tasks = &house.space().await.tasks;
        let cancelled = tasks.cancel(own, "before").await.unwrap();
        assert_eq!(cancelled, CancelOutcome::Cancelled);
        let answer = set(&house, door, own, 2).await;
        assert_eq!(answer.status, 200, "{door:?}: {answer:?}");
        let first = attempt(&house, own, "a").await;
        let found = fail(&house, door, &first, "").await;
        assert_eq!(found.state, TaskState::Scheduled);
        let wait = found.at.since(now);
        assert!(wait > Duration::from_mins(90), "{door:?}: {wait:?}");
        let moved = house.space().await.tasks.run_now(own, "a").await;
        assert!(
            matches!(moved, Ok(ChangeOutcome::Changed { .. })),
            "{moved:?}"
        );
        let second = house.claim_of(own).await.remove(0);
        let found = fail(&house, door, &second, "").await;
        assert_eq!(found.state, TaskState::Dead, "{door:?}");
    }
    // What the call says counts before the policy.
    let third = attempt(&house, "http", "b").await;
    let found = fail(&house, Door::Http, &third, "&retry_after=20h").await;
    assert!(found.at.since(now) > Duration::from_hours(19), "{found:?}");
    let fourth = attempt(&house, "http", "c").await;
    let found = fail(&house, Door::Http, &fourth, "&max_attempts=1").await;
    assert_eq!(found.state, TaskState::Dead);
    let wanted = ["http", "grpc"];
    let wanted = wanted.map(|one| ("set-policy".to_owned(), one.to_owned(), None));
    assert_eq!(house.log().await, wanted);
}

#[tokio::test]
async fn a_policy_is_shown_and_removed_at_both_doors_and_a_bad_one_is_refused() {
    let house = House::open("walk-policies", NamespaceLimits::default()).await;
    assert_eq!(set(&house, Door::Http, "mail.*", 3).await.status, 200);
    assert_eq!(set(&house, Door::Grpc, "sms", 4).await.status, 200);
    for door in [Door::Http, Door::Grpc] {
        let refused = set(&house, door, "push", 0).await;
        assert_eq!(refused.status, 400, "{door:?}: {refused:?}");
    }
    let listed = house.v1("GET", "policies", "").await.json();
    let list = listed.as_array().unwrap();
    let types: Vec<_> = list.iter().map(|one| one["task_type"].clone()).collect();
    assert_eq!(types, ["sms", "mail.*"]);
    let request = pb::PoliciesRequest {
        namespace: house.namespace.to_owned(),
    };
    let over_grpc: pb::PoliciesResponse = house.grpc("Policies", &request).await.message();
    assert_eq!(over_grpc.policies.len(), 2);
    let request = pb::GetPolicyRequest {
        namespace: house.namespace.to_owned(),
        task_type: "mail.*".to_owned(),
    };
    let one: pb::PolicyResponse = house.grpc("GetPolicy", &request).await.message();
    let retry = one.policy.unwrap().policy.unwrap().retry.unwrap();
    assert_eq!((retry.attempts, retry.is_fixed), (Some(3), true));
    let shown = house.v1("GET", "types/sms/policy", "").await.json();
    assert_eq!(shown["policy"]["retry"]["attempts"], 4, "{shown}");
    assert_eq!(house.v1("DELETE", "types/sms/policy", "").await.status, 204);
    assert_eq!(house.v1("DELETE", "types/sms/policy", "").await.status, 404);
    let request = pb::RemovePolicyRequest {
        namespace: house.namespace.to_owned(),
        task_type: "mail.*".to_owned(),
    };
    assert_eq!(house.grpc("RemovePolicy", &request).await.status, 200);
    assert_eq!(house.grpc("RemovePolicy", &request).await.status, 404);
}

#[tokio::test]
async fn a_task_is_dead_after_the_lock_expiries_of_its_policy() {
    let house = House::open("walk-poison", NamespaceLimits::default()).await;
    assert_eq!(set(&house, Door::Http, "job", 9).await.status, 200);
    let space = house.space().await;
    let job = DelayQueueJob::raw("job", "x").id("a");
    space.tasks.send(job).await.unwrap();
    let demand = Demand {
        types: vec![TaskType::new("job").unwrap()],
        limit: 1,
        lock_for: seconds(1),
        max_lock_expiries: None,
    };
    let claimed = space.pull.claim(demand.clone(), Duration::ZERO).await;
    assert_eq!(claimed.unwrap().delivered().len(), 1);
    until("the end of the lock", async || {
        let look = ClaimRequest::new(0, seconds(1), SystemClock.now());
        let bucket = Bucket::whole(TaskType::new("job").unwrap());
        let next = space.tasks.store().claim(&bucket, &look).await.unwrap();
        (next.next_in == Some(Duration::ZERO)).then_some(())
    })
    .await;
    let claimed = space.pull.claim(demand, Duration::ZERO).await;
    assert_eq!(claimed.unwrap().delivered().len(), 0);
    let found = space.tasks.find("job", "a").await.unwrap().unwrap();
    assert_eq!(found.state, TaskState::Dead);
}
