//! Every operation through every door that offers it: what it does, counts and logs is the same.

mod batches;
mod bodies;
mod claims;
mod content;
mod follow_ups;
mod headers;
mod house;
mod policies;
mod rates;
mod recurring;
mod suspects;
mod targets;
mod waits;

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use delayq_plugin::{DeadFilter, Error, SubmitOutcome, TaskState, Timestamp};
use delayq_proto::{pb, span, time};
use delayq_tests::rig::until;

use crate::http;
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;

use house::{DOORS, Door, HOUR, House, ask, task_of_grpc};

#[tokio::test]
async fn a_request_is_counted_by_its_route_at_every_door_over_http() {
    let house = House::open("walk-requests", NamespaceLimits::default()).await;
    for (door, route) in [
        (Door::Lmstfy, "/api/:namespace/:queue"),
        (Door::Grape, "/api/job/produce"),
        (Door::Spring, "/job/add"),
        (Door::TaskService, "/CreateHttpTask"),
    ] {
        house.send(door, "1").await.unwrap();
        let line = format!("delayq_server_requests_total{{route=\"{route}\"");
        let seen = house.metrics("delayq_server_requests_total").await;
        let is_counted = seen.iter().any(|one| one.starts_with(&line));
        assert!(is_counted, "{door:?}: {seen:#?}");
    }
}

#[tokio::test]
async fn a_task_that_is_created_and_cancelled_is_counted_at_every_door() {
    let house = House::open("walk-counts", NamespaceLimits::default()).await;
    let mut cancels = Vec::new();
    for door in DOORS {
        let id = house.send(door, "1").await.unwrap();
        if let Some(answer) = house.cancel(door, &id).await {
            assert!((200..300).contains(&answer.status), "{door:?}: {answer:?}");
            cancels.push(door);
        }
    }
    let count = |name: &str, door: Door, outcome: &str| {
        let (space, task_type) = (house.namespace, door.task_type());
        format!(
            "{name}{{delayq_namespace=\"{space}\",type=\"{task_type}\",outcome=\"{outcome}\"}} 1"
        )
    };
    let (sent, settled) = ("delayq_submitted_total", "delayq_settled_total");
    let (seen_sent, seen_settled) = (house.counts(sent).await, house.counts(settled).await);
    for door in DOORS {
        let line = count(sent, door, "accepted");
        assert!(seen_sent.contains(&line), "{door:?}: {seen_sent:#?}");
    }
    for door in cancels {
        let line = count(settled, door, "cancelled");
        assert!(seen_settled.contains(&line), "{door:?}: {seen_settled:#?}");
    }
}

#[tokio::test]
async fn a_pause_until_a_time_that_is_past_is_refused_and_ends_none() {
    let house = House::open("walk-past", NamespaceLimits::default()).await;
    let space = house.space().await;
    for door in [Door::Http, Door::Grpc] {
        space.tasks.pause(door.task_type(), None).await.unwrap();
    }
    let path = "types/http/pause?until=2020-01-01T00:00:00Z&create=true";
    let request = pb::PauseRequest {
        namespace: house.namespace.to_owned(),
        task_type: "grpc".to_owned(),
        until: Some(time(Timestamp::from_millis(1_577_836_800_000))),
        create: true,
    };
    let answers = [
        house.v1("POST", path, "").await,
        house.grpc("Pause", &request).await,
    ];
    for answer in &answers {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    for door in [Door::Http, Door::Grpc] {
        let stats = space.tasks.stats(door.task_type()).await.unwrap();
        assert!(stats.paused_until.is_some(), "{door:?}");
    }
    assert_eq!(house.log().await, [], "a mistake is no action");
}

#[tokio::test]
async fn who_changes_dead_tasks_or_pauses_is_in_the_log_at_every_door() {
    let house = House::open("walk-log", NamespaceLimits::default()).await;
    let of_type = |verb: &str, door: Door, count: Option<u64>| {
        let task_type = match door {
            Door::Lmstfy => "q/mail",
            Door::Beanstalkd => "default",
            _ => door.task_type(),
        };
        (verb.to_owned(), task_type.to_owned(), count)
    };
    let mut wanted = Vec::new();
    for door in [Door::Http, Door::Grpc, Door::Lmstfy, Door::Beanstalkd] {
        house.bury(door).await;
        let verb = if door == Door::Beanstalkd {
            "kick"
        } else {
            "requeue"
        };
        wanted.push(of_type(verb, door, Some(1)));
        match door {
            Door::Http => {
                let path = "types/http/dead/requeue";
                let answer = house.v1("POST", path, r#"{"all": true}"#).await;
                assert_eq!(answer.status, 200, "{answer:?}");
            }
            Door::Grpc => {
                let request = pb::RequeueDeadRequest {
                    namespace: house.namespace.to_owned(),
                    task_type: "grpc".to_owned(),
                    filter: Some(DeadFilter::all().into()),
                    interval: Some(span(Duration::ZERO)),
                };
                assert_eq!(house.grpc("RequeueDead", &request).await.status, 200);
            }
            Door::Lmstfy => {
                let line = ("PUT", "/api/q/mail/deadletter?limit=10&ttl=0");
                let answer = house.http(door, line, "").await;
                assert_eq!(answer.json()["count"], 1, "{answer:?}");
            }
            _ => assert_eq!(house.beanstalkd("kick 10").await, "KICKED 1"),
        }
    }
    let discard = pb::DiscardDeadRequest {
        namespace: house.namespace.to_owned(),
        task_type: "grpc".to_owned(),
        filter: Some(DeadFilter::all().into()),
    };
    wanted.push(of_type("discard", Door::Grpc, Some(0)));
    assert_eq!(house.grpc("DiscardDead", &discard).await.status, 200);
    for door in [Door::Http, Door::Grpc, Door::Beanstalkd] {
        wanted.push(of_type("pause", door, None));
        match door {
            Door::Http => assert_eq!(house.v1("POST", "types/http/pause", "").await.status, 200),
            Door::Grpc => {
                let request = pb::PauseRequest {
                    namespace: house.namespace.to_owned(),
                    task_type: "grpc".to_owned(),
                    until: None,
                    create: false,
                };
                assert_eq!(house.grpc("Pause", &request).await.status, 200);
            }
            _ => assert_eq!(house.beanstalkd("pause-tube default 60").await, "PAUSED"),
        }
    }
    assert_eq!(house.log().await, wanted);
    let stats = house.space().await.tasks.stats("q:mail").await.unwrap();
    assert_eq!((stats.dead, stats.scheduled), (0, 1), "{stats:?}");
    let found = house.space().await.tasks.find("grpc", "9").await.unwrap();
    assert_eq!(found.unwrap().state, TaskState::Scheduled);
}

#[tokio::test]
async fn every_door_pays_the_rate_of_the_namespace() {
    for door in DOORS {
        let namespace = format!("walk-rate-{}", door as u8).leak();
        let limits = NamespaceLimits {
            rate: Some(1),
            ..NamespaceLimits::default()
        };
        let house = House::open(namespace, limits).await;
        if door == Door::Beanstalkd {
            // Its clients know no such refusal: they wait.
            let started = tokio::time::Instant::now();
            house.send(door, "1").await.unwrap();
            house.send(door, "2").await.unwrap();
            assert!(started.elapsed() > Duration::from_millis(500), "{door:?}");
            continue;
        }
        // On a busy machine a second may pass between two.
        let mut refused = None;
        for name in ["1", "2", "3", "4", "5"] {
            refused = refused.or(house.send(door, name).await.err());
        }
        let refused = refused.expect("a refusal");
        assert_eq!(refused.status, 429, "{door:?}: {refused:?}");
    }
}

#[tokio::test]
async fn a_message_beyond_the_bound_of_the_namespace_is_refused_at_every_door() {
    let limits = NamespaceLimits {
        max_message_bytes: Some(0),
        ..NamespaceLimits::default()
    };
    let house = House::open("walk-size", limits).await;
    for door in DOORS {
        let refused = house.send(door, "1").await.unwrap_err();
        assert_eq!(refused.status, 413, "{door:?}: {refused:?}");
    }
    let lines = house
        .v1("POST", "types/http/bulk", r#"{"message":"x"}"#)
        .await;
    assert_eq!(lines.json()["problem"]["status"], 413, "{lines:?}");
    assert_eq!(house.tasks().await, 0);
}

#[tokio::test]
async fn a_full_namespace_is_full_at_every_door() {
    let limits = NamespaceLimits {
        max_pending: Some(DOORS.len() as u64),
        ..NamespaceLimits::default()
    };
    let house = House::open("walk-full", limits).await;
    for door in DOORS {
        house.send(door, "1").await.unwrap();
    }
    for door in DOORS {
        let refused = house.send(door, "2").await.unwrap_err();
        assert_eq!(refused.status, 429, "{door:?}: {refused:?}");
    }
    let lines = house
        .v1("POST", "types/http/bulk", r#"{"message":"x"}"#)
        .await;
    assert_eq!(lines.json()["problem"]["status"], 429, "{lines:?}");
    assert_eq!(house.tasks().await, DOORS.len() as u64);
    // A repeat of a task that is there needs no room, where a client names its tasks.
    for door in [Door::Http, Door::Grpc, Door::Spring, Door::TaskService] {
        house.send(door, "1").await.unwrap();
    }
    house.cancel(Door::Http, "1").await.unwrap();
    // The count is a second old at most.
    until("the room that was made is seen", async || {
        house.send(Door::Http, "2").await.ok()
    })
    .await;
    // It has ended: it would be a new task.
    let refused = house.send(Door::Http, "1").await.unwrap_err();
    let kind = refused.json()["type"].clone();
    assert_eq!(kind, "urn:delayq:problem:namespace-full", "{refused:?}");
    house.send(Door::Grpc, "1").await.unwrap();
}

#[tokio::test]
async fn of_many_tasks_those_are_taken_that_there_is_room_for_at_both_doors() {
    for (namespace, door) in [
        ("walk-room-http", Door::Http),
        ("walk-room-grpc", Door::Grpc),
    ] {
        let limits = NamespaceLimits {
            max_pending: Some(3),
            ..NamespaceLimits::default()
        };
        let house = House::open(namespace, limits).await;
        house.send(door, "a").await.unwrap();
        let outcomes: Vec<_> = if door == Door::Http {
            let line =
                |id: &str| format!("{{\"id\":\"{id}\",\"delay\":\"1h\",\"message\":\"x\"}}\n");
            let lines = ["b", "c", "d", "a"].map(line).concat();
            let answer = house.v1("POST", "types/http/bulk", &lines).await;
            let outcomes = answer.text.lines().map(|line| {
                let outcome: serde_json::Value = serde_json::from_str(line).unwrap();
                outcome["outcome"].as_str().map(ToOwned::to_owned)
            });
            outcomes.collect()
        } else {
            let tasks = ["b", "c", "d", "a"].map(task_of_grpc);
            let request = pb::SubmitRequest {
                namespace: namespace.to_owned(),
                tasks: tasks.into(),
            };
            let answer = house.grpc("Submit", &request).await;
            let outcomes = answer.message::<pb::SubmitResponse>().results.into_iter();
            let outcomes = outcomes.map(|one| match SubmitOutcome::try_from(one) {
                Ok(SubmitOutcome::Accepted { .. }) => Some("accepted".to_owned()),
                Ok(SubmitOutcome::AlreadyExists { .. }) => Some("already_exists".to_owned()),
                Err(Error::Full { .. }) => None,
                other => panic!("{other:?}"),
            });
            outcomes.collect()
        };
        let outcomes: Vec<_> = outcomes.iter().map(Option::as_deref).collect();
        let accepted = Some("accepted");
        assert_eq!(outcomes, [accepted, accepted, None, Some("already_exists")]);
    }
}

#[tokio::test]
async fn a_target_of_its_own_takes_its_right_at_every_door() {
    let mut house = House::open("walk-target", NamespaceLimits::default()).await;
    let scopes = [Scope::Submit, Scope::Read];
    let name = house.namespace;
    house.token = house.server.new_token("sender", &scopes, name, &[]).await;
    let target = r#"{"http": {"url": "https://example.com/"}}"#;
    let router = http::router(house.server.app.clone());
    let over_http = async |token: &str| {
        let request = Request::put(format!("/v1/{name}/types/http/tasks/1?delay=1h"))
            .header("authorization", format!("Bearer {token}"))
            .header("delayq-target", target)
            .body(Body::from("x"));
        ask(&router, request.unwrap()).await
    };
    let refused = over_http(&house.token).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.text.contains("allow_task_targets"), "{refused:?}");
    let mut task = task_of_grpc("1");
    task.target = Some(target.to_owned());
    let request = pb::SubmitRequest {
        namespace: name.to_owned(),
        tasks: vec![task],
    };
    let over_grpc = house.grpc("Submit", &request).await;
    assert_eq!(over_grpc.status, 403, "{over_grpc:?}");
    let of_service = house.send(Door::TaskService, "1").await.unwrap_err();
    assert_eq!(of_service.status, 403, "{of_service:?}");
    assert_eq!(house.tasks().await, 0);
    let scopes = [Scope::Submit, Scope::Operate];
    house.token = house.server.new_token("both", &scopes, name, &[]).await;
    assert_eq!(over_http(&house.token).await.status, 201);
    assert_eq!(house.submit(&request).await.status, 200);
    house.send(Door::TaskService, "1").await.unwrap();
    assert_eq!(house.tasks().await, 3);
}

/// Publishes two jobs at once, as a client of lmstfy.
async fn publish_two(house: &House) -> u16 {
    let line = ("PUT", "/api/q/mail/bulk?delay=3600&ttl=0");
    house.http(Door::Lmstfy, line, r#"["x","y"]"#).await.status
}

#[tokio::test]
async fn a_bulk_publish_of_lmstfy_is_whole_or_refused_and_pays_for_each_job() {
    let limits = NamespaceLimits {
        max_pending: Some(1),
        ..NamespaceLimits::default()
    };
    let house = House::open("walk-whole", limits).await;
    assert_eq!(publish_two(&house).await, 429);
    assert_eq!(house.tasks().await, 0);
    let limits = NamespaceLimits {
        rate: Some(2),
        ..NamespaceLimits::default()
    };
    let house = House::open("walk-bulk-rate", limits).await;
    assert_eq!(publish_two(&house).await, 201);
    assert_eq!(house.tasks().await, 2);
    let refused = house.send(Door::Lmstfy, "3").await.unwrap_err();
    assert_eq!(refused.status, 429, "{refused:?}");
}

#[tokio::test]
async fn a_task_is_moved_by_ten_years_at_most_at_every_door() {
    let house = House::open("walk-moves", NamespaceLimits::default()).await;
    for door in [Door::Http, Door::Grpc] {
        house.send(door, "1").await.unwrap();
    }
    let over_http = house.v1("POST", "types/http/tasks/1/reschedule?delay=4015d", "");
    let over_http = over_http.await;
    assert_eq!(over_http.status, 400, "{over_http:?}");
    let request = pb::RescheduleRequest {
        namespace: house.namespace.to_owned(),
        task_type: "grpc".to_owned(),
        id: "1".to_owned(),
        when: Some(delayq_plugin::When::After(HOUR * 24 * 4_015).into()),
    };
    let over_grpc = house.grpc("Reschedule", &request).await;
    assert_eq!(over_grpc.status, 400, "{over_grpc:?}");
}

#[tokio::test]
async fn a_time_beyond_ten_years_or_in_another_unit_is_refused_over_grpc() {
    let house = House::open("walk-times", NamespaceLimits::default()).await;
    let far = |change: fn(&mut pb::NewTask)| {
        let mut task = task_of_grpc("far");
        change(&mut task);
        pb::SubmitRequest {
            namespace: house.namespace.to_owned(),
            tasks: vec![task],
        }
    };
    let years = HOUR * 24 * 4_015;
    for request in [
        far(|task| task.when = Some(delayq_plugin::When::After(HOUR * 24 * 4_015).into())),
        // Milliseconds as seconds.
        far(|task| {
            let at = Timestamp::from_millis(1_795_537_806_611_000);
            task.when = Some(delayq_plugin::When::At(at).into());
        }),
        far(|task| task.max_wait = Some(span(HOUR))),
    ] {
        let outcome = house.outcome(&request).await;
        assert!(
            matches!(outcome, Err(Error::InvalidInput { .. })),
            "{outcome:?}"
        );
    }
    assert_eq!(house.tasks().await, 0);
    house.send(Door::Grpc, "1").await.unwrap();
    let until = house.space().await.tasks.clock().now().plus(years);
    let pause = pb::PauseRequest {
        namespace: house.namespace.to_owned(),
        task_type: "grpc".to_owned(),
        until: Some(time(until)),
        create: false,
    };
    assert_eq!(house.grpc("Pause", &pause).await.status, 400);
}
