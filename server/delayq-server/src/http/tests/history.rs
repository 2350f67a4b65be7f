//! The history of a server.

use delayq_plugin::Namespace;
use delayq_plugin::history::HistoryRetention;
use delayq_service::access::Scope;
use delayq_tests::rig::until;
use serde_json::json;

use super::{Site, TASKS};

const HISTORY: &str = "/v1/default/history";

async fn site() -> (Site, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = delayq_service::testing::in_memory();
    config.history = Some(format!(
        "sqlite:{}",
        folder.path().join("h.sqlite").display()
    ));
    config.history_record = "4B".to_owned();
    let site = Site::of(config).await;
    let scopes = [Scope::Submit, Scope::Read, Scope::Work, Scope::Admin];
    let token = site.token(&scopes, "default", &[]).await;
    (site, token, folder)
}

#[tokio::test]
async fn what_became_of_a_task_is_found_and_forgotten() {
    let (site, token, _folder) = site().await;
    let space = site.server.app.spaces.of(&Namespace::default()).await;
    let history = space.unwrap().tasks.history().unwrap();
    let shipping = tokio::spawn(history.ship(HistoryRetention::default()));
    for (id, group) in [("order-41", "tenant-6"), ("order-42", "tenant-7")] {
        let create = format!("{TASKS}/{id}?group={group}");
        site.ask(&token, "PUT", &create, "hello").await;
    }
    let later = format!("{TASKS}/order-43?delay=1h");
    site.ask(&token, "PUT", &later, "hello").await;
    let claim = "/v1/default/types/mail.send/claim?limit=2";
    let claimed = site.ask(&token, "POST", claim, "").await.body;
    for task in claimed["tasks"].as_array().unwrap() {
        let (id, lock) = (task["id"].as_str().unwrap(), task["lock"].as_str().unwrap());
        let (how, error) = if id == "order-41" {
            ("fail?dead=true&lock=", "no van")
        } else {
            ("done?lock=", "")
        };
        let path = format!("{TASKS}/{id}/{how}{lock}");
        let ended = site.ask(&token, "POST", &path, error).await;
        assert_eq!(ended.status.as_u16(), 200, "{ended:?}");
    }
    // Known at once, from the live store and from what waits.
    let fate = format!("{TASKS}/order-42/history");
    let fate = site.ask(&token, "GET", &fate, "").await.body;
    assert_eq!(
        (&fate["now"]["state"], &fate["lives"][0]["outcome"]),
        (&json!("done"), &json!("done"))
    );
    assert_eq!(fate["lives"][0]["group"], "tenant-7");
    let scheduled = site
        .ask(&token, "GET", &format!("{TASKS}/order-43/history"), "")
        .await;
    assert_eq!(scheduled.body["lives"], json!([]));
    let failed = format!("{HISTORY}?outcome=dead&type=mail.send&error=van");
    let found = until("the shipped life", async || {
        let page = site.ask(&token, "GET", &failed, "").await.body;
        (page["lives"].as_array()?.len() == 1).then_some(page)
    })
    .await;
    let life = &found["lives"][0];
    assert_eq!(
        (&life["id"], &life["error"]),
        (&json!("order-41"), &json!("no van"))
    );
    assert_eq!(
        (&life["message"], &life["message_bytes"]),
        (&json!("hell"), &json!(5))
    );
    shipping.abort();
    let forget = format!("{HISTORY}/forget");
    let forgotten = site
        .ask(&token, "POST", &forget, r#"{"group":"tenant-7"}"#)
        .await;
    assert_eq!(forgotten.body, json!({"lives": 1}));
    let left = site.ask(&token, "GET", HISTORY, "").await.body;
    let ids: Vec<_> = left["lives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|life| &life["id"])
        .collect();
    assert_eq!(ids, [&json!("order-41")]);
    let log = site.ask(&token, "GET", "/v1/default/log", "").await.body;
    assert_eq!(log[0]["verb"], "forget-history", "{log}");
}

#[tokio::test]
async fn a_search_is_for_those_who_may_and_names_what_is_wrong() {
    let (site, token, _folder) = site().await;
    for (path, word) in [
        ("?outcome=lost", "lost"),
        ("?limit=0", "1 to 1000"),
        ("?since=tomorrow", "tomorrow"),
        ("?cursor=here", "here"),
        ("?group=", "group"),
        ("?tenant=7", "tenant"),
    ] {
        let refused = site
            .ask(&token, "GET", &format!("{HISTORY}{path}"), "")
            .await;
        assert_eq!(refused.status.as_u16(), 400, "{path}");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains(word), "{path}: {detail}");
    }
    let forget = format!("{HISTORY}/forget");
    let both = site
        .ask(&token, "POST", &forget, r#"{"id":"a","group":"b"}"#)
        .await;
    assert_eq!(both.status.as_u16(), 400);
    let narrow = site.token(&[Scope::Read], "default", &["mail.send"]).await;
    let all = site.ask(&narrow, "GET", HISTORY, "").await;
    let own = site
        .ask(&narrow, "GET", &format!("{HISTORY}?type=mail.send"), "")
        .await;
    let other = site
        .ask(&narrow, "GET", &format!("{HISTORY}?type=order"), "")
        .await;
    let statuses = [all, own, other].map(|answer| answer.status.as_u16());
    assert_eq!(statuses, [403, 200, 403]);
    let forbidden = site.ask(&narrow, "POST", &forget, r#"{"id":"a"}"#).await;
    assert_eq!(forbidden.status.as_u16(), 403);
    let without = Site::open().await;
    let token = without.token(&[Scope::Read], "default", &[]).await;
    let of_a_task = format!("{TASKS}/order-42/history");
    for path in [HISTORY, &of_a_task] {
        let none = without.ask(&token, "GET", path, "").await;
        assert_eq!(none.status.as_u16(), 404);
        assert_eq!(none.body["type"], "urn:delayq:problem:no-history");
        assert!(none.body["detail"].as_str().unwrap().contains("history = "));
    }
}

#[tokio::test]
async fn what_the_store_knows_is_told_while_the_history_is_away() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let mut config = delayq_service::testing::in_memory();
    let place = folder.path().join("file/h.sqlite");
    config.history = Some(format!("sqlite:{}", place.display()));
    let site = Site::of(config).await;
    let scopes = [Scope::Submit, Scope::Read];
    let token = site.token(&scopes, "default", &[]).await;
    let later = format!("{TASKS}/order-42?delay=1h");
    site.ask(&token, "PUT", &later, "hello").await;
    let fate = format!("{TASKS}/order-42/history");
    let fate = site.ask(&token, "GET", &fate, "").await;
    assert_eq!(fate.status.as_u16(), 200, "{fate:?}");
    assert_eq!(fate.body["now"]["state"], "scheduled");
    assert!(fate.body["history_error"].is_string(), "{fate:?}");
    let unknown = format!("{TASKS}/order-43/history");
    let unknown = site.ask(&token, "GET", &unknown, "").await;
    assert_eq!(unknown.status.as_u16(), 503, "{unknown:?}");
}

#[tokio::test]
async fn the_answer_for_a_task_that_is_not_there_names_its_history() {
    let (site, token, _folder) = site().await;
    let without = Site::open().await;
    let other = without.token(&[Scope::Read], "default", &[]).await;
    for path in [TASKS.to_owned() + "/gone", format!("{TASKS}/gone/timeline")] {
        let answer = site.ask(&token, "GET", &path, "").await;
        let detail = answer.body["detail"].as_str().unwrap();
        assert_eq!(answer.status.as_u16(), 404);
        assert!(
            detail.contains("/history") && detail.contains("WhatBecameOf"),
            "{detail}"
        );
        let answer = without.ask(&other, "GET", &path, "").await;
        let detail = answer.body["detail"].as_str().unwrap();
        assert_eq!(detail, "there is no task gone of type mail.send");
    }
}
