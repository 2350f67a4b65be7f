//! Targets, and applications that are called.

use delayq_core::task::Headers;
use delayq_plugin::{DelayQueueJob, TaskId, TaskType};
use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;
use serde_json::{Value, json};

use super::house::{Answer, HOUR, House};

const TARGET: &str = r#"{"http": {"url": "https://example.org/hook"}}"#;

#[tokio::test]
async fn a_target_is_set_shown_listed_and_removed_at_both_doors() {
    let mut house = House::open("walk-targets", NamespaceLimits::default()).await;
    let namespace = house.namespace.to_owned();
    let set = pb::SetTargetRequest {
        namespace: namespace.clone(),
        task_type: "mail.*".to_owned(),
        target: TARGET.to_owned(),
    };
    let get = pb::GetTargetRequest {
        namespace: namespace.clone(),
        task_type: "mail.send".to_owned(),
    };
    let remove = pb::RemoveTargetRequest {
        namespace: namespace.clone(),
        task_type: "mail.send".to_owned(),
    };
    // Set at one door, it is shown at the other.
    let made = house.v1("PUT", "types/mail.send/target", TARGET).await;
    assert!(made.text.contains("\"secret\":\"whsec_"), "{made:?}");
    let made: pb::TargetResponse = house.grpc("SetTarget", &set).await.message();
    assert!(made.target.unwrap().secret.is_some());
    let shown = house.v1("GET", "types/mail.*/target", "").await.json();
    let url = &json!("https://example.org/hook");
    assert_eq!(
        (&shown["task_type"], &shown["secret"]),
        (&json!("mail.*"), &Value::Null)
    );
    assert_eq!(&shown["target"]["http"]["url"], url);
    let shown: pb::TargetResponse = house.grpc("GetTarget", &get).await.message();
    let shown = shown.target.unwrap();
    let target: Value = serde_json::from_str(&shown.target).unwrap();
    assert_eq!((&target["http"]["url"], &shown.secret), (url, &None));
    // A token for a type has nothing to do with that of a pattern.
    let (name, admin) = (house.namespace, [Scope::Admin]);
    house.token = house
        .server
        .new_token("n", &admin, name, &["mail.send"])
        .await;
    let listed = house.v1("GET", "targets", "").await.json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let listed = house
        .grpc("Targets", &pb::TargetsRequest { namespace })
        .await;
    assert_eq!(listed.message::<pb::TargetsResponse>().targets, [shown]);
    for wide in [
        house.v1("PUT", "types/mail.*/target", TARGET).await,
        house.grpc("SetTarget", &set).await,
    ] {
        assert_eq!(wide.status, 403, "{wide:?}");
    }
    let statuses = [
        house
            .v1("DELETE", "types/mail.send/target", "")
            .await
            .status,
        house.grpc("GetTarget", &get).await.status,
        house.grpc("RemoveTarget", &remove).await.status,
        house
            .v1("PUT", "types/mail.send/target", TARGET)
            .await
            .status,
        house.grpc("RemoveTarget", &remove).await.status,
    ];
    assert_eq!(statuses, [204, 404, 404, 200, 200]);
}

#[tokio::test]
async fn the_query_of_a_url_is_shown_at_no_door_and_is_kept_when_it_is_sent_back() {
    const URL: &str = "https://example.org/hook?key=of-the-shop&b=1";
    let house = House::open("walk-query", NamespaceLimits::default()).await;
    let namespace = house.namespace.to_owned();
    let target = |url: &str| json!({"http": {"url": url}}).to_string();
    let path = "types/mail.send/target";
    let set = |url: &str| pb::SetTargetRequest {
        namespace: namespace.clone(),
        task_type: "mail.send".to_owned(),
        target: target(url),
    };
    let get = pb::GetTargetRequest {
        namespace: namespace.clone(),
        task_type: "mail.send".to_owned(),
    };
    let all = pb::TargetsRequest {
        namespace: namespace.clone(),
    };
    let announce = pb::AnnounceCalleeRequest {
        namespace: namespace.clone(),
        name: "shop-1".to_owned(),
        url: URL.to_owned(),
        task_types: vec!["order.cancel".to_owned()],
        lease: None,
    };
    let callees = pb::CalleesRequest {
        namespace: namespace.clone(),
    };
    let masked = "https://example.org/hook?***";
    let shown = [
        house.v1("PUT", path, &target(URL)).await,
        house.grpc("SetTarget", &set(URL)).await,
        house.v1("PUT", path, &target(masked)).await,
        house.grpc("SetTarget", &set(masked)).await,
        house.v1("GET", path, "").await,
        house.v1("GET", "targets", "").await,
        house.grpc("GetTarget", &get).await,
        house.grpc("Targets", &all).await,
        house.grpc("AnnounceCallee", &announce).await,
        house.v1("GET", "callees", "").await,
        house.grpc("Callees", &callees).await,
    ];
    for answer in &shown {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(!answer.text.contains("of-the-shop"), "{answer:?}");
        let shows_url = answer.text.contains("example.org");
        assert!(!shows_url || answer.text.contains(masked), "{answer:?}");
    }
    let store = std::sync::Arc::clone(house.space().await.tasks.store());
    let stored = store.folder("targets").await.unwrap().documents;
    assert!(stored[0].body.contains(URL), "{stored:?}");
    let logged = format!("{:?}", store.actions(None, 100).await.unwrap());
    assert!(
        logged.contains("example.org") && !logged.contains("of-the-shop"),
        "{logged}"
    );
}

/// What both doors say of the task `a`, which falls due meanwhile.
async fn answers(house: &House) -> Vec<Answer> {
    let (namespace, task_type) = (house.namespace.to_owned(), "mail".to_owned());
    let list = pb::ListRequest {
        namespace: namespace.clone(),
        task_type: task_type.clone(),
        state: pb::TaskState::Scheduled.into(),
        ..pb::ListRequest::default()
    };
    let mut shown = vec![house.grpc("List", &list).await];
    // The requests of all three have the same fields.
    let find = pb::FindRequest {
        namespace,
        task_type,
        id: "a".to_owned(),
    };
    for method in ["Find", "Timeline", "Explain"] {
        shown.push(house.grpc(method, &find).await);
    }
    let space = house.space().await;
    let _ = space.tasks.run_now("mail", "a").await.unwrap();
    for (method, path) in [
        ("GET", "tasks/a"),
        ("GET", "tasks?state=scheduled"),
        ("GET", "tasks/a/timeline"),
        ("GET", "tasks/a/explain"),
        ("POST", "claim"),
        ("GET", "tasks?state=running"),
    ] {
        let path = format!("types/mail/{path}");
        shown.push(house.v1(method, &path, "").await);
    }
    shown
}

#[tokio::test]
async fn a_target_of_a_task_is_neither_shown_nor_taken_at_both_doors() {
    let house = House::open("walk-veil", NamespaceLimits::default()).await;
    let task = |id: &str, target: Option<&str>, headers: &Headers| pb::NewTask {
        task_type: "mail".to_owned(),
        id: id.to_owned(),
        body: Some(pb::new_task::Body::Text("x".to_owned())),
        when: Some(delayq_plugin::When::After(HOUR).into()),
        target: target.map(ToOwned::to_owned),
        headers: headers.clone().into_iter().collect(),
        ..pb::NewTask::default()
    };
    let submit = |task: pb::NewTask| pb::SubmitRequest {
        namespace: house.namespace.to_owned(),
        tasks: vec![task],
    };
    let sent = task("a", Some(TARGET), &Headers::new());
    assert_eq!(house.submit(&submit(sent)).await.status, 200);
    let space = house.space().await;
    let known = space.within.find("mail", "a").await.unwrap().unwrap();
    assert!(known.headers["delayq-target"].contains("example.org"));
    // What somebody has seen before goes into no other task, whatever the token may do.
    for header in &known.headers {
        let headers = [(header.0.clone(), header.1.clone())].into();
        let request = submit(task("b", None, &headers));
        let refused = house.grpc("Submit", &request).await;
        assert!(refused.text.contains("Delayq-Target"), "{refused:?}");
        let line = json!({"id": "b", "headers": headers}).to_string();
        let refused = house.v1("POST", "types/mail/bulk", &line).await;
        assert!(refused.text.contains("Delayq-Target"), "{refused:?}");
        let job = DelayQueueJob::raw("mail", "x").header(header.0, header.1);
        let refused = space.tasks.send(job).await.unwrap_err().to_string();
        assert!(refused.contains("Delayq-Target"), "{refused}");
    }
    assert!(space.tasks.find("mail", "b").await.unwrap().is_none());
    // A message that a server replaces leaves it sealed.
    let updated = house.v1("PUT", "types/mail/tasks/a/message", "new").await;
    assert_eq!(updated.status, 200, "{updated:?}");
    let (mail, one) = (TaskType::new("mail").unwrap(), TaskId::new("a").unwrap());
    let seals = space.push.seals();
    let headers = seals.of_update(&mail, &one, b"newer").await.unwrap();
    assert!(!headers.is_empty(), "its seal holds");
    for shown in answers(&house).await {
        assert!(shown.status == 200 && shown.text.contains('a'), "{shown:?}");
        let is_veiled =
            !shown.text.contains("delayq-target") && !shown.text.contains("example.org");
        assert!(is_veiled, "{shown:?}");
    }
}

#[tokio::test]
async fn an_application_is_announced_shown_and_withdrawn_over_grpc() {
    let house = House::open("walk-callees", NamespaceLimits::default()).await;
    let namespace = house.namespace.to_owned();
    let announce = pb::AnnounceCalleeRequest {
        namespace: namespace.clone(),
        name: "shop-1".to_owned(),
        url: "https://shop.example.org/delayq/work".to_owned(),
        task_types: vec!["order.cancel".to_owned()],
        lease: None,
    };
    let announced = house.grpc("AnnounceCallee", &announce).await;
    let until = announced.message::<pb::AnnounceCalleeResponse>().until;
    let name = announce.name.clone();
    let wanted = pb::Callee {
        name: name.clone(),
        url: announce.url.clone(),
        task_types: announce.task_types.clone(),
        until,
    };
    let list = pb::CalleesRequest {
        namespace: namespace.clone(),
    };
    let listed: pb::CalleesResponse = house.grpc("Callees", &list).await.message();
    assert_eq!(listed.callees, [wanted]);
    let withdraw = pb::WithdrawCalleeRequest { namespace, name };
    for is_there in [true, false] {
        let withdrawn = house.grpc("WithdrawCallee", &withdraw).await;
        let withdrawn: pb::WithdrawCalleeResponse = withdrawn.message();
        assert_eq!(withdrawn.withdrawn, is_there);
    }
}
