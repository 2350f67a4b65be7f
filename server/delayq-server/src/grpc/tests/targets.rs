//! Targets and applications that are called, over gRPC.

use std::time::Duration;

use delayq_core::task::Headers;
use delayq_proto::{pb, span};
use delayq_service::access::Scope;
use pb::submit_result::Outcome;
use serde_json::{Value, json};
use tonic::Code;

use super::{Site, asking};

const OWN: &str = r#"{"http": {"url": "https://example.org/"}}"#;

fn set(task_type: &str, target: &str) -> pb::SetTargetRequest {
    pb::SetTargetRequest {
        task_type: task_type.to_owned(),
        target: target.to_owned(),
        ..pb::SetTargetRequest::default()
    }
}

fn get(task_type: &str) -> pb::GetTargetRequest {
    pb::GetTargetRequest {
        task_type: task_type.to_owned(),
        ..pb::GetTargetRequest::default()
    }
}

#[tokio::test]
async fn a_target_is_set_shown_without_secrets_logged_and_removed() {
    let site = Site::open().await;
    let mut client = site.client();
    let admin = site.token_for(&[Scope::Admin], &["mail.*"]).await;
    let missing = client.get_target(asking(&admin, get("mail.send"))).await;
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
    let http = json!({"url": "https://example.org/hook?key=1", "headers": {"x-key": "hush"}});
    let target = json!({"http": http, "timeout": "10s"}).to_string();
    for task_type in ["mail.send", "mail.*"] {
        let request = asking(&admin, set(task_type, &target));
        let made = client.set_target(request).await.unwrap();
        let made = made.into_inner().target.unwrap();
        let secret = made.secret.expect("a new secret");
        assert!(made.task_type == task_type && secret.starts_with("whsec_"));
    }
    let shown = client.get_target(asking(&admin, get("mail.send"))).await;
    let shown = shown.unwrap().into_inner().target.unwrap();
    let json: Value = serde_json::from_str(&shown.target).unwrap();
    assert_eq!(
        (&json["http"]["headers"]["x-key"], &json["timeout"]),
        (&json!("***"), &json!(10_000))
    );
    assert_eq!(shown.secret, None);
    // Sent back as it was shown, it stays as it is.
    let again = client.set_target(asking(&admin, set("mail.send", &shown.target)));
    assert_eq!(again.await.unwrap().into_inner().target, Some(shown));
    let narrow = site.token_for(&[Scope::Admin], &["mail.send"]).await;
    let listed = client.targets(asking(&narrow, pb::TargetsRequest::default()));
    let listed = listed.await.unwrap().into_inner().targets;
    let types = listed.iter().map(|one| one.task_type.as_str());
    assert_eq!(types.collect::<Vec<_>>(), ["mail.send"]);
    let wide = client.set_target(asking(&narrow, set("mail.*", &target)));
    assert_eq!(wide.await.unwrap_err().code(), Code::PermissionDenied);
    let inner = json!({"http": {"url": "https://10.0.0.1/"}}).to_string();
    for bad in ["", "7", "[]", "{}", r#"{"http": {}}"#, inner.as_str()] {
        let refused = client.set_target(asking(&admin, set("mail.send", bad)));
        let refused = refused.await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad}: {refused}");
    }
    let remove = pb::RemoveTargetRequest {
        task_type: "mail.send".to_owned(),
        ..pb::RemoveTargetRequest::default()
    };
    let removed = client.remove_target(asking(&admin, remove.clone())).await;
    removed.unwrap();
    let twice = client.remove_target(asking(&admin, remove)).await;
    assert_eq!(twice.unwrap_err().code(), Code::NotFound);
    let space = site.space().await;
    let log = space.tasks.store().actions(None, 10).await.unwrap();
    let verbs: Vec<_> = log.iter().map(|one| one.action.verb.as_str()).collect();
    assert_eq!(
        verbs,
        ["remove-target", "set-target", "set-target", "set-target"]
    );
    assert!(log[0].action.actor.starts_with("test ("));
}

/// Sends one task with a target of its own.
async fn send(site: &Site, token: &str, target: &str) -> Result<Outcome, tonic::Status> {
    let task = pb::NewTask {
        task_type: "mail".to_owned(),
        id: "a".to_owned(),
        when: Some(delayq_plugin::When::After(Duration::from_hours(1)).into()),
        target: Some(target.to_owned()),
        ..pb::NewTask::default()
    };
    let request = pb::SubmitRequest {
        tasks: vec![task],
        ..pb::SubmitRequest::default()
    };
    let sent = site.client().submit(asking(token, request)).await?;
    Ok(sent.into_inner().results.remove(0).outcome.unwrap())
}

#[tokio::test]
async fn a_task_gets_a_target_of_its_own_from_those_alone_who_may() {
    let site = Site::open().await;
    let submit = site.token_for(&[Scope::Submit], &[]).await;
    let scopes = [Scope::Submit, Scope::Operate];
    let operate = site.token_for(&scopes, &[]).await;
    let refused = send(&site, &submit, OWN).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("allow_task_targets"));
    let inner = r#"{"http": {"url": "https://127.0.0.1/"}}"#;
    for (bad, word) in [(inner, "loopback"), ("nonsense", "target"), ("[]", "list")] {
        let Ok(Outcome::Error(error)) = send(&site, &operate, bad).await else {
            panic!("{bad} is taken");
        };
        assert!(error.message.contains(word), "{bad}: {error:?}");
    }
    let space = site.space().await;
    assert!(space.tasks.types().await.unwrap().is_empty());
    // The same one again is a repeat.
    for _ in 0..2 {
        let sent = send(&site, &operate, OWN).await.unwrap();
        let is_there = matches!(sent, Outcome::Accepted(_) | Outcome::AlreadyExists(_));
        assert!(is_there, "{sent:?}");
    }
    let found = space.within.find("mail", "a").await.unwrap().unwrap();
    assert!(found.headers["delayq-target"].contains("example.org"));
    assert!(found.headers.contains_key("delayq-target-seal2"));
}

#[tokio::test]
async fn a_target_and_its_seal_are_neither_shown_nor_taken() {
    let site = Site::open().await;
    send(&site, &site.token, OWN).await.unwrap();
    let (space, mut client) = (site.space().await, site.client());
    let known = space.within.find("mail", "a").await.unwrap().unwrap();
    let find = pb::FindRequest {
        task_type: "mail".to_owned(),
        id: "a".to_owned(),
        ..pb::FindRequest::default()
    };
    let list = pb::ListRequest {
        task_type: "mail".to_owned(),
        state: pb::TaskState::Scheduled.into(),
        ..pb::ListRequest::default()
    };
    let timeline = pb::TimelineRequest {
        task_type: "mail".to_owned(),
        id: "a".to_owned(),
        ..pb::TimelineRequest::default()
    };
    let find = client.find(asking(&site.token, find)).await.unwrap();
    let list = client.list(asking(&site.token, list)).await.unwrap();
    let timeline = client.timeline(asking(&site.token, timeline)).await;
    let shown = [
        format!("{:?}", find.into_inner()),
        format!("{:?}", list.into_inner()),
        format!("{:?}", timeline.unwrap().into_inner()),
    ];
    for shown in shown {
        let is_veiled = !shown.contains("delayq-target") && !shown.contains("example.org");
        assert!(is_veiled, "{shown}");
    }
    // What somebody has seen before goes into no task, whatever the token may do.
    let task = |id: &str, headers: &Headers| pb::NewTask {
        task_type: "mail".to_owned(),
        id: id.to_owned(),
        body: Some(pb::new_task::Body::Text("foreign".to_owned())),
        headers: headers.clone().into_iter().collect(),
        ..pb::NewTask::default()
    };
    let submit = site.token_for(&[Scope::Submit], &[]).await;
    for token in [&submit, &site.token] {
        let request = pb::SubmitRequest {
            tasks: vec![task("b", &known.headers), task("c", &Headers::new())],
            ..pb::SubmitRequest::default()
        };
        let sent = client.submit(asking(token, request)).await.unwrap();
        let [refused, taken] = &sent.into_inner().results[..] else {
            panic!("an answer for each");
        };
        let Some(Outcome::Error(error)) = &refused.outcome else {
            panic!("{refused:?}");
        };
        assert!(error.message.contains("Delayq-Target"), "{error:?}");
        assert!(
            !matches!(taken.outcome, Some(Outcome::Error(_))),
            "{taken:?}"
        );
    }
    assert!(space.tasks.find("mail", "b").await.unwrap().is_none());
}

#[tokio::test]
async fn an_application_announces_what_its_token_is_for_and_withdraws_it() {
    let site = Site::open().await;
    let mut client = site.client();
    let shop = site.token_for(&[Scope::Work], &["order.*"]).await;
    let mail = site.token_for(&[Scope::Work], &["mail.*"]).await;
    let read = site.token_for(&[Scope::Read], &[]).await;
    let good = pb::AnnounceCalleeRequest {
        name: "shop-1".to_owned(),
        url: "https://shop.example.org/delayq/work".to_owned(),
        task_types: vec!["order.cancel".to_owned()],
        ..pb::AnnounceCalleeRequest::default()
    };
    let announced = client.announce_callee(asking(&shop, good.clone())).await;
    let until = announced.unwrap().into_inner().until;
    let listed = client.callees(asking(&read, pb::CalleesRequest::default()));
    let listed = listed.await.unwrap().into_inner().callees;
    let [one] = &listed[..] else {
        panic!("{listed:?}");
    };
    assert_eq!((&one.name, &one.url), (&good.name, &good.url));
    assert_eq!((&one.task_types, one.until), (&good.task_types, until));
    let other = |change: fn(&mut pb::AnnounceCalleeRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    let short = |one: &mut pb::AnnounceCalleeRequest| {
        one.lease = Some(span(Duration::from_secs(1)));
    };
    for (refused, code) in [
        (
            other(|one| one.name = "a b".to_owned()),
            Code::InvalidArgument,
        ),
        (other(|one| one.task_types.clear()), Code::InvalidArgument),
        (
            other(|one| one.url = "nonsense".to_owned()),
            Code::InvalidArgument,
        ),
        (other(short), Code::InvalidArgument),
        (
            other(|one| one.task_types = vec!["mail".to_owned()]),
            Code::PermissionDenied,
        ),
    ] {
        let answer = client.announce_callee(asking(&shop, refused.clone())).await;
        assert_eq!(answer.unwrap_err().code(), code, "{refused:?}");
    }
    let withdraw = pb::WithdrawCalleeRequest {
        name: "shop-1".to_owned(),
        ..pb::WithdrawCalleeRequest::default()
    };
    let foreign = client.withdraw_callee(asking(&mail, withdraw.clone()));
    assert_eq!(foreign.await.unwrap_err().code(), Code::PermissionDenied);
    for is_there in [true, false] {
        let withdrawn = client.withdraw_callee(asking(&shop, withdraw.clone()));
        assert_eq!(withdrawn.await.unwrap().into_inner().withdrawn, is_there);
    }
}
