//! Targets, and applications that are called.

use std::time::Duration;

use delayq_core::task::Headers;
use delayq_plugin::{DelayQueueJob, TaskId, TaskType};
use delayq_proto::{pb, span};
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;
use serde_json::{Value, json};

use super::house::{Answer, Door, HOUR, House};

const DOORS: [Door; 2] = [Door::Http, Door::Grpc];

impl House {
    /// From here on it asks with a token for this.
    async fn become_one(&mut self, scope: Scope, types: &[&str]) {
        let (name, scopes) = (self.namespace, [scope]);
        self.token = self.server.new_token("kim", &scopes, name, types).await;
    }

    /// Gets (`None`), sets, or (`Some("")`) removes the target of a type or pattern.
    async fn target(&self, door: Door, task_type: &str, target: Option<&str>) -> Answer {
        if door == Door::Http {
            let path = format!("types/{task_type}/target");
            let method = match target {
                None => "GET",
                Some("") => "DELETE",
                Some(_) => "PUT",
            };
            return self.v1(method, &path, target.unwrap_or_default()).await;
        }
        let (namespace, task_type) = (self.namespace.to_owned(), task_type.to_owned());
        let mut answer = match target {
            None => {
                let request = pb::GetTargetRequest {
                    namespace,
                    task_type,
                };
                self.grpc("GetTarget", &request).await
            }
            Some("") => {
                let request = pb::RemoveTargetRequest {
                    namespace,
                    task_type,
                };
                return self.grpc("RemoveTarget", &request).await;
            }
            Some(target) => {
                let request = pb::SetTargetRequest {
                    namespace,
                    task_type,
                    target: target.to_owned(),
                };
                self.grpc("SetTarget", &request).await
            }
        };
        if answer.status == 200 {
            let told: pb::TargetResponse = answer.message();
            answer.text = of_grpc(told.target.unwrap()).to_string();
        }
        answer
    }

    async fn targets(&self, door: Door) -> Vec<Value> {
        if door == Door::Http {
            let listed = self.v1("GET", "targets", "").await.json();
            return listed.as_array().unwrap().clone();
        }
        let namespace = self.namespace.to_owned();
        let listed = self
            .grpc("Targets", &pb::TargetsRequest { namespace })
            .await;
        let listed: pb::TargetsResponse = listed.message();
        listed.targets.into_iter().map(of_grpc).collect()
    }

    /// Announces the application `name`, and withdraws it where it has no types.
    async fn announce(&self, door: Door, name: &str, callee: &Callee) -> Answer {
        let Callee { url, types, secs } = callee;
        if door == Door::Http {
            let path = format!("callees/{}", name.replace(' ', "%20"));
            let body = json!({"url": url, "types": types, "lease": format!("{secs}s")});
            return self.v1("PUT", &path, &body.to_string()).await;
        }
        let request = pb::AnnounceCalleeRequest {
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
            url: (*url).to_owned(),
            task_types: types.iter().map(ToString::to_string).collect(),
            lease: Some(span(Duration::from_secs(*secs))),
        };
        self.grpc("AnnounceCallee", &request).await
    }

    /// Whether there was one to withdraw, or why it was not withdrawn.
    async fn withdraw(&self, door: Door, name: &str) -> Result<bool, u16> {
        let answer = if door == Door::Http {
            self.v1("DELETE", &format!("callees/{name}"), "").await
        } else {
            let request = pb::WithdrawCalleeRequest {
                namespace: self.namespace.to_owned(),
                name: name.to_owned(),
            };
            self.grpc("WithdrawCallee", &request).await
        };
        match (answer.status, door) {
            (200, Door::Http) => Ok(answer.json()["outcome"] == "withdrawn"),
            (200, _) => Ok(answer.message::<pb::WithdrawCalleeResponse>().withdrawn),
            (refused, _) => Err(refused),
        }
    }

    /// URL and types of the applications that announced themselves.
    async fn callees(&self, door: Door) -> Vec<(String, String)> {
        if door == Door::Http {
            let listed = self.v1("GET", "callees", "").await.json();
            let listed = listed.as_array().unwrap().iter();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            return listed
                .map(|one| (text(&one["url"]), text(&one["types"][0])))
                .collect();
        }
        let namespace = self.namespace.to_owned();
        let listed = self
            .grpc("Callees", &pb::CalleesRequest { namespace })
            .await;
        let listed: pb::CalleesResponse = listed.message();
        let listed = listed.callees.into_iter();
        listed
            .map(|mut one| (one.url, one.task_types.remove(0)))
            .collect()
    }
}

/// What an application says of itself.
#[derive(Clone, Debug)]
struct Callee {
    url: &'static str,
    types: Vec<&'static str>,
    secs: u64,
}

/// A target in the form of the HTTP door.
fn of_grpc(target: pb::PushTarget) -> Value {
    let shown: Value = serde_json::from_str(&target.target).unwrap();
    json!({"task_type": target.task_type, "target": shown, "secret": target.secret})
}

#[tokio::test]
async fn a_target_is_set_shown_without_secrets_logged_and_removed_at_both_doors() {
    let mut house = House::open("walk-targets", NamespaceLimits::default()).await;
    let http = json!({"url": "https://example.org/hook?key=1", "headers": {"x-key": "hush"}});
    let target = json!({"http": http, "timeout": "10s"}).to_string();
    let inner = json!({"http": {"url": "https://10.0.0.1/"}}).to_string();
    for door in DOORS {
        house.become_one(Scope::Admin, &["mail.*"]).await;
        let missing = house.target(door, "mail.send", None).await;
        assert_eq!(missing.status, 404, "{door:?}: {missing:?}");
        let mut secrets = Vec::new();
        for task_type in ["mail.send", "mail.*"] {
            let set = house.target(door, task_type, Some(&target)).await.json();
            let secret = set["secret"].as_str().expect("a new secret").to_owned();
            assert!(set["task_type"] == task_type && secret.starts_with("whsec_"));
            secrets.push(secret);
        }
        let shown = house.target(door, "mail.send", None).await.json();
        assert_eq!(shown["target"]["http"]["headers"]["x-key"], "***");
        assert_eq!(shown["target"]["timeout"], 10_000, "{door:?}");
        for shown in house.targets(door).await.iter().chain([&shown]) {
            let text = shown.to_string();
            let is_told = secrets.iter().any(|secret| text.contains(secret));
            assert!(!is_told && !text.contains("hush"), "{door:?}: {text}");
        }
        // Sent back as it was shown, it stays as it is.
        let again = shown["target"].to_string();
        let again = house.target(door, "mail.send", Some(&again)).await.json();
        assert_eq!(again["target"], shown["target"], "{door:?}");
        assert_eq!(again["secret"], Value::Null, "{door:?}");
        for bad in ["7", "[]", "{}", r#"{"http": {}}"#, &inner] {
            let refused = house.target(door, "mail.send", Some(bad)).await;
            assert_eq!(refused.status, 400, "{door:?} {bad}: {refused:?}");
        }
        house.become_one(Scope::Admin, &["mail.send"]).await;
        let listed = house.targets(door).await;
        assert_eq!(
            (listed.len(), &listed[0]["task_type"]),
            (1, &json!("mail.send"))
        );
        let wide = house.target(door, "mail.*", Some(&target)).await;
        assert_eq!(wide.status, 403, "{door:?}: {wide:?}");
        let removed = house.target(door, "mail.send", Some("")).await;
        let no_content = if door == Door::Http { 204 } else { 200 };
        assert_eq!(removed.status, no_content, "{door:?}: {removed:?}");
        let twice = house.target(door, "mail.send", Some("")).await;
        assert_eq!(twice.status, 404, "{door:?}: {twice:?}");
        house.become_one(Scope::Admin, &["mail.*"]).await;
        house.target(door, "mail.*", Some("")).await;
    }
    let log = house.log().await.into_iter();
    let verbs: Vec<_> = log
        .map(|(verb, task_type, _)| verb + " " + &task_type)
        .collect();
    let each = [
        "set-target mail.send",
        "set-target mail.*",
        "set-target mail.send",
        "remove-target mail.send",
        "remove-target mail.*",
    ];
    assert_eq!(verbs, [each, each].concat());
}

#[tokio::test]
async fn a_target_of_a_task_is_neither_shown_nor_taken_at_both_doors() {
    let house = House::open("walk-veil", NamespaceLimits::default()).await;
    let own = r#"{"http": {"url": "https://example.org/"}}"#;
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
    let sent = task("a", Some(own), &Headers::new());
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
    let (namespace, task_type, id) = (
        house.namespace.to_owned(),
        "mail".to_owned(),
        "a".to_owned(),
    );
    let find = pb::FindRequest {
        namespace: namespace.clone(),
        task_type: task_type.clone(),
        id: id.clone(),
    };
    let list = pb::ListRequest {
        namespace: namespace.clone(),
        task_type: task_type.clone(),
        state: pb::TaskState::Scheduled.into(),
        ..pb::ListRequest::default()
    };
    let timeline = pb::TimelineRequest {
        namespace: namespace.clone(),
        task_type: task_type.clone(),
        id: id.clone(),
    };
    let explain = pb::ExplainRequest {
        namespace,
        task_type,
        id,
    };
    let mut shown = vec![
        house.grpc("Find", &find).await,
        house.grpc("List", &list).await,
        house.grpc("Timeline", &timeline).await,
        house.grpc("Explain", &explain).await,
    ];
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
    for shown in shown {
        assert!(shown.status == 200 && shown.text.contains('a'), "{shown:?}");
        let is_veiled =
            !shown.text.contains("delayq-target") && !shown.text.contains("example.org");
        assert!(is_veiled, "{shown:?}");
    }
}

#[tokio::test]
async fn an_application_announces_what_its_token_is_for_and_withdraws_it_at_both_doors() {
    let mut house = House::open("walk-callees", NamespaceLimits::default()).await;
    let url = "https://shop.example.org/delayq/work";
    let good = |task_type: &'static str| Callee {
        url,
        types: vec![task_type],
        secs: 30,
    };
    for door in DOORS {
        house.become_one(Scope::Work, &["order.*"]).await;
        let order = good("order.cancel");
        let announced = house.announce(door, "shop-1", &order).await;
        assert_eq!(announced.status, 200, "{door:?}: {announced:?}");
        let of = |url, types: &[&'static str], secs| Callee {
            url,
            types: types.to_vec(),
            secs,
        };
        for (name, refused, status) in [
            ("shop-1", good("mail.send"), 403),
            ("a b", order.clone(), 400),
            ("shop-1", of(url, &[], 30), 400),
            ("shop-1", of(url, &["order.cancel"], 1), 400),
            (
                "shop-1",
                of("https://10.0.0.1/", &["order.cancel"], 30),
                400,
            ),
            ("shop-1", of("nonsense", &["order.cancel"], 30), 400),
        ] {
            let answer = house.announce(door, name, &refused).await;
            assert_eq!(answer.status, status, "{door:?} {refused:?}: {answer:?}");
        }
        house.become_one(Scope::Read, &[]).await;
        let one = (url.to_owned(), "order.cancel".to_owned());
        assert_eq!(house.callees(door).await, [one], "{door:?}");
        // Of another token: neither taken nor withdrawn.
        house.become_one(Scope::Work, &["mail.*"]).await;
        let taken = house.announce(door, "shop-1", &good("mail.send")).await;
        assert_eq!(taken.status, 403, "{door:?}: {taken:?}");
        assert_eq!(house.withdraw(door, "shop-1").await, Err(403), "{door:?}");
        let mine = house.announce(door, "mail-1", &good("mail.send")).await;
        assert_eq!(mine.status, 200, "{door:?}: {mine:?}");
        assert_eq!(house.withdraw(door, "mail-1").await, Ok(true), "{door:?}");
        house.become_one(Scope::Work, &["order.*"]).await;
        assert_eq!(house.withdraw(door, "shop-1").await, Ok(true), "{door:?}");
        assert_eq!(house.withdraw(door, "shop-1").await, Ok(false), "{door:?}");
    }
}
