//! Targets of push: who may set one, and what is shown of it.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use delayq_plugin::{DelayQueueJob, TaskId, TaskType};
use delayq_service::access::Scope;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Site, TASKS};

const TARGET: &str = "/v1/default/types/mail.send/target";

#[tokio::test]
async fn a_target_is_set_shown_without_secrets_logged_and_removed() {
    let site = Site::open().await;
    let admin = site.token(&[Scope::Admin], "default", &["mail.*"]).await;
    let missing = site.ask(&admin, "GET", TARGET, "").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let http = json!({"url": "https://example.org/hook?key=1", "headers": {"x-key": "hush"}});
    let target = json!({"http": http, "timeout": "10s"}).to_string();
    let set = site.ask(&admin, "PUT", TARGET, &target).await;
    let secret = set.body["secret"]
        .as_str()
        .expect("a new secret")
        .to_owned();
    assert!(set.status == StatusCode::OK && secret.starts_with("whsec_"));
    let again = site.ask(&admin, "PUT", TARGET, &target).await;
    assert_eq!(
        (again.status, &again.body["secret"]),
        (StatusCode::OK, &Value::Null)
    );
    let pattern = "/v1/default/types/mail.*/target";
    let wide = site.ask(&admin, "PUT", pattern, &target).await;
    assert_eq!(wide.body["task_type"], "mail.*");
    for path in [TARGET, "/v1/default/targets"] {
        let shown = site.ask(&admin, "GET", path, "").await.body.to_string();
        assert!(shown.contains("***") && !shown.contains("hush"), "{shown}");
        assert!(!shown.contains(&secret), "{shown}");
    }
    let narrow = site.token(&[Scope::Admin], "default", &["mail.send"]).await;
    let shown = site
        .ask(&narrow, "GET", "/v1/default/targets", "")
        .await
        .body;
    assert_eq!(shown.as_array().unwrap().len(), 1);
    let refused = site.ask(&narrow, "PUT", pattern, &target).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let inner = json!({"http": {"url": "https://10.0.0.1/"}}).to_string();
    for bad in ["", "7", "{}", r#"{"http": {}}"#, inner.as_str()] {
        let refused = site.ask(&admin, "PUT", TARGET, bad).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{bad}");
    }
    let removed = site.ask(&admin, "DELETE", TARGET, "").await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    let space = site
        .server
        .app
        .spaces
        .of(&"default".parse().unwrap())
        .await
        .unwrap();
    let log = space.tasks.store().actions(None, 10).await.unwrap();
    let verbs: Vec<_> = log.iter().map(|one| one.action.verb.as_str()).collect();
    assert_eq!(
        verbs,
        ["remove-target", "set-target", "set-target", "set-target"]
    );
    assert_eq!(log[1].action.detail, "https://example.org/hook");
}

/// Creates a task with a header more.
async fn create(site: &Site, token: &str, header: (&str, &str)) -> (StatusCode, String) {
    let request = Request::builder()
        .method("POST")
        .uri(format!("{TASKS}?delay=1h"))
        .header("authorization", format!("Bearer {token}"))
        .header(header.0, header.1)
        .body(Body::from("x"));
    let answer = site.app.clone().oneshot(request.unwrap()).await.unwrap();
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 16)
        .await
        .unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_task_gets_a_target_of_its_own_from_those_alone_who_may() {
    let site = Site::open().await;
    let submit = site.token(&[Scope::Submit], "default", &[]).await;
    let scopes = [Scope::Submit, Scope::Operate];
    let operate = site.token(&scopes, "default", &[]).await;
    let own = r#"{"http": {"url": "https://example.org/"}}"#;
    let (status, said) = create(&site, &submit, ("delayq-target", own)).await;
    assert!(
        status == StatusCode::FORBIDDEN && said.contains("allow_task_targets"),
        "{said}"
    );
    for name in [
        "delayq-header-delayq-target",
        "delayq-header-delayq-target-seal",
    ] {
        let (status, said) = create(&site, &operate, (name, own)).await;
        assert!(
            status == StatusCode::BAD_REQUEST && said.contains("Delayq-Target"),
            "{said}"
        );
    }
    let inner = r#"{"http": {"url": "https://127.0.0.1/"}}"#;
    let (status, said) = create(&site, &operate, ("delayq-target", inner)).await;
    assert!(
        status == StatusCode::BAD_REQUEST && said.contains("loopback"),
        "{said}"
    );
    let tasks = &site
        .server
        .app
        .spaces
        .of(&"default".parse().unwrap())
        .await
        .unwrap()
        .tasks;
    assert!(tasks.types().await.unwrap().is_empty());
    let (status, said) = create(&site, &operate, ("delayq-target", own)).await;
    assert_eq!(status, StatusCode::CREATED, "{said}");
}

#[tokio::test]
async fn a_target_of_a_task_is_shown_nowhere_and_stays_sealed_through_an_update() {
    let site = Site::open().await;
    let token = site.token(&[Scope::Admin], "default", &[]).await;
    let own = r#"{"http": {"url": "https://example.org/hook"}}"#;
    let (status, said) = create(&site, &token, ("delayq-target", own)).await;
    assert_eq!(status, StatusCode::CREATED, "{said}");
    let created: Value = serde_json::from_str(&said).unwrap();
    let id = created["id"].as_str().unwrap().to_owned();
    let task = format!("{TASKS}/{id}");
    let message = format!("{task}/message");
    let updated = site.ask(&token, "PUT", &message, "new").await;
    assert_eq!(updated.status, 200);
    let default = "default".parse().unwrap();
    let space = site.server.app.spaces.of(&default).await.unwrap();
    let task_type = TaskType::new("mail.send").unwrap();
    let of_update = async || {
        let (seals, id) = (space.push.seals(), TaskId::new(&id).unwrap());
        seals.of_update(&task_type, &id, b"newer").await.unwrap()
    };
    assert!(!of_update().await.is_empty(), "its seal holds");
    let known = space.within.find("mail.send", &id).await.unwrap().unwrap();
    assert!(known.headers["delayq-target"].contains("example.org"));
    let line = json!({"id": "b", "message": "foreign", "headers": known.headers}).to_string();
    let bulk = site
        .ask(&token, "POST", "/v1/default/types/mail.send/bulk", &line)
        .await;
    let job = |name: &str| DelayQueueJob::raw("mail.send", "x").header(name, own);
    for name in known.headers.keys() {
        let refused = space.tasks.send(job(name)).await.unwrap_err().to_string();
        assert!(refused.contains("Delayq-Target"), "{refused}");
    }
    let _ = space.tasks.run_now("mail.send", &id).await.unwrap();
    let of_type = "/v1/default/types/mail.send";
    for (method, path) in [
        ("GET", task.clone()),
        ("GET", format!("{TASKS}?state=scheduled")),
        ("GET", format!("{task}/timeline")),
        ("GET", format!("{task}/explain")),
        ("POST", format!("{of_type}/claim")),
        ("GET", task.clone()),
        ("GET", format!("{TASKS}?state=running")),
    ] {
        let answer = site.ask(&token, method, &path, "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let shown = answer.body.to_string();
        let is_veiled = !shown.contains("delayq-target") && !shown.contains("example.org");
        assert!(is_veiled, "{path}: {shown}");
    }
    assert!(
        space.tasks.find("mail.send", "b").await.unwrap().is_none(),
        "{}",
        bulk.body
    );
}

#[tokio::test]
async fn what_is_never_shown_goes_to_no_other_server() {
    let site = Site::open().await;
    let admin = site.token(&[Scope::Admin], "default", &[]).await;
    let target = |url: &str, value: &str, secret: &str| {
        let http = json!({"url": url, "headers": {"x-key": value}, "secrets": [secret]});
        json!({ "http": http }).to_string()
    };
    let own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let none = target("https://example.org/hook", "***", own);
    assert_eq!(site.ask(&admin, "PUT", TARGET, &none).await.status, 400);
    let unsigned = target("https://example.org/hook", "hush", "***");
    assert_eq!(site.ask(&admin, "PUT", TARGET, &unsigned).await.status, 400);
    let first = target("https://example.org/hook", "hush", own);
    assert_eq!(site.ask(&admin, "PUT", TARGET, &first).await.status, 200);
    let near = target("https://example.org/other", "***", "***");
    assert_eq!(site.ask(&admin, "PUT", TARGET, &near).await.status, 200);
    let stolen = target("https://example.com/hook", "***", "***");
    let refused = site.ask(&admin, "PUT", TARGET, &stolen).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body["detail"].to_string().contains("x-key"));
}
