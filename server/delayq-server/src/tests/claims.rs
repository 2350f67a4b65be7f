//! Claims: of several types, and their answers.

use axum::body::Body;
use axum::http::Request;
use delayq_plugin::store::{AttemptEnd, Bucket, ClaimRequest, Figures, Step};
use delayq_plugin::{TaskState, TaskType, Timestamp, hours};
use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;
use delayq_tests::rig::until;
use tower::ServiceExt;

use super::house::{Answer, Door, House};
use crate::grpc::tests::call;

/// Claims one task; its type, such as `b`.
async fn claim(house: &House, door: Door, types: &[&str], is_fair: bool) -> Result<String, Answer> {
    let answer = if door == Door::Http {
        let order = if is_fair { "fair" } else { "listed" };
        let path = format!("types/{}/claim?order={order}", types.join(","));
        house.v1("POST", &path, "").await
    } else {
        let request = pb::PullRequest {
            namespace: house.namespace.to_owned(),
            task_types: types.iter().map(ToString::to_string).collect(),
            order: i32::from(if is_fair {
                pb::PullOrder::Fair
            } else {
                pb::PullOrder::Listed
            }),
            ..pb::PullRequest::default()
        };
        house.grpc("Pull", &request).await
    };
    if answer.status != 200 {
        return Err(answer);
    }
    Ok(if door == Door::Http {
        let task = &answer.json()["tasks"][0]["type"];
        task.as_str().unwrap().to_owned()
    } else {
        let pulled: pb::PullResponse = answer.message();
        pulled.tasks[0].task_type.clone()
    })
}

/// Requests for the one task that is due, in each form that its answer has.
fn requests(house: &House) -> Vec<(Door, Request<Body>)> {
    let of_http = |door: Door, method, path| (door, house.request(door, (method, path), ""));
    let claim = format!("/v1/{}/types/http/claim", house.namespace);
    let (_, mut raw) = of_http(Door::Http, "POST", &claim);
    let octets = "application/octet-stream".parse().unwrap();
    raw.headers_mut().insert("accept", octets);
    let pull = pb::PullRequest {
        namespace: house.namespace.to_owned(),
        task_types: vec!["grpc".to_owned()],
        ..pb::PullRequest::default()
    };
    vec![
        of_http(Door::Http, "POST", &claim),
        (Door::Http, raw),
        (Door::Grpc, call(&house.token, "Pull", &pull)),
        of_http(Door::Grape, "GET", "/api/job/consume?tube=grape"),
    ]
}

#[tokio::test]
async fn an_answer_that_nobody_reads_gives_its_task_back() {
    let house = House::open("walk-unread", NamespaceLimits::default()).await;
    let space = house.space().await;
    for (door, request) in requests(&house) {
        let task_type = door.task_type();
        let id = house.send(door, "1").await.unwrap();
        let id = if door == Door::Grape { "1" } else { &id };
        let _ = space.tasks.run_now(task_type, id).await.unwrap();
        let answer = house.router(door).oneshot(request).await.unwrap();
        let found = space.tasks.find(task_type, id).await.unwrap().unwrap();
        assert_eq!(found.state, TaskState::Running, "{door:?}");
        drop(answer);
        let next = house.claim_of(task_type).await.remove(0);
        assert_eq!(next.task.attempt, 1, "{door:?}");
        assert_eq!(next.task.history.releases, 1, "{door:?}");
        let done = space
            .pull
            .end(next.bucket, next.task.lock, AttemptEnd::Done);
        done.await.unwrap();
        let gone = space.tasks.purge(task_type, TaskState::Done).await;
        gone.unwrap();
    }
}

#[tokio::test]
async fn types_are_claimed_in_the_order_of_the_list_or_in_turns_at_both_doors() {
    let mut house = House::open("walk-claims", NamespaceLimits::default()).await;
    for door in [Door::Http, Door::Grpc] {
        for task_type in ["b", "c", "a", "b", "c", "a", "a"] {
            let path = format!("types/{task_type}/tasks");
            assert_eq!(house.v1("POST", &path, "x").await.status, 201);
        }
        let types = ["a", "b", "c"];
        let first = claim(&house, door, &types, false).await.unwrap();
        assert_eq!(first, "a", "{door:?}");
        for round in 0..2 {
            let mut seen = Vec::new();
            for _ in types {
                seen.push(claim(&house, door, &types, true).await.unwrap());
            }
            seen.sort();
            assert_eq!(seen, types, "{door:?} {round}");
        }
    }
    let (name, whole) = (house.namespace, house.token.clone());
    house.token = house
        .server
        .new_token("a", &[Scope::Work], name, &["a"])
        .await;
    for door in [Door::Http, Door::Grpc] {
        let refused = claim(&house, door, &["a", "b"], false).await.unwrap_err();
        assert_eq!(refused.status, 403, "{door:?}: {refused:?}");
    }
    house.token = whole;
    for door in [Door::Http, Door::Grpc] {
        let twice = claim(&house, door, &["a", "a"], false).await.unwrap_err();
        assert_eq!(twice.status, 400, "{door:?}: {twice:?}");
    }
}

/// Takes the one task of a door and ends it, in the words of the door.
async fn work(house: &House, door: Door) {
    let task_type = door.task_type();
    if door == Door::Beanstalkd {
        let job = "put 1024 0 60 1\r\nx\r\nreserve\r\ndelete 1";
        assert_eq!(house.beanstalkd(job).await, "DELETED");
        return;
    }
    let space = house.space().await;
    let now = space.tasks.clock().now();
    let job = delayq_plugin::DelayQueueJob::raw(task_type, "x").id("1");
    space.tasks.send(job).await.unwrap();
    let bucket = Bucket::whole(TaskType::new(task_type).unwrap());
    let claim = ClaimRequest::new(1, hours(1), now);
    let claim = pb::ClaimRequest::new(house.namespace.to_owned(), &bucket, &claim);
    let claimed: pb::ClaimResponse = house.grpc("Claim", &claim).await.message();
    let end = pb::AttemptEnd {
        end: Some(pb::attempt_end::End::Done(pb::attempt_end::Done::default())),
    };
    let settle = pb::SettleRequest {
        namespace: house.namespace.to_owned(),
        bucket: claim.bucket,
        settlements: vec![pb::Settlement {
            lock: claimed.tasks[0].lock.clone(),
            end: Some(end),
            ..pb::Settlement::default()
        }],
    };
    assert_eq!(house.grpc("Settle", &settle).await.status, 200);
}

#[tokio::test]
async fn what_is_claimed_from_one_bucket_is_in_the_figures_of_its_server() {
    let house = House::open("walk-figures", NamespaceLimits::default()).await;
    let space = house.space().await;
    for door in [Door::Grpc, Door::Beanstalkd] {
        let task_type = TaskType::new(door.task_type()).unwrap();
        work(&house, door).await;
        until("the server is listed with the type", || async {
            let instances = space.tasks.instances().await.unwrap();
            let is_here = |one: &delayq_plugin::InstanceInfo| one.types.contains(&task_type);
            instances.iter().any(is_here).then_some(())
        })
        .await;
    }
    // A move to another priority is no failure of a client.
    let moved = "put 1024 0 60 1\r\nx\r\nreserve\r\nrelease 2 5 0";
    assert_eq!(house.beanstalkd(moved).await, "RELEASED");
    space.pull.close().await;
    for door in [Door::Grpc, Door::Beanstalkd] {
        let task_type = TaskType::new(door.task_type()).unwrap();
        let since = Timestamp::default();
        let spells = space.tasks.store().figures(&task_type, Step::Minute, since);
        let mut sum = Figures::default();
        for spell in spells.await.unwrap() {
            sum += &spell.figures;
        }
        let started = if door == Door::Beanstalkd { 2 } else { 1 };
        let seen = (sum.started, sum.done, sum.failed, sum.dead);
        assert_eq!(seen, (started, 1, 0, 0), "{door:?}");
    }
}

#[tokio::test]
async fn a_lock_over_grpc_is_as_long_as_over_http() {
    let house = House::open("walk-locks", NamespaceLimits::default()).await;
    let now = house.space().await.tasks.clock().now();
    let bucket = Bucket::whole(TaskType::new("grpc").unwrap());
    let lock_for = hours(25);
    let claim = ClaimRequest::new(1, lock_for, now);
    let claim = pb::ClaimRequest::new(house.namespace.to_owned(), &bucket, &claim);
    let refused = house.grpc("Claim", &claim).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let extend = pb::ExtendRequest {
        namespace: house.namespace.to_owned(),
        bucket: claim.bucket,
        lock_for: Some(delayq_proto::span(lock_for)),
        ..pb::ExtendRequest::default()
    };
    let refused = house.grpc("Extend", &extend).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let claim = "types/http/claim?lock_for=25h";
    assert_eq!(house.v1("POST", claim, "").await.status, 400);
}
