//! What became of tasks, over gRPC.

use delayq_plugin::history::HistoryRetention;
use delayq_proto::pb;
use delayq_tests::rig::until;
use pb::attempt_end::{Dead, Done, End};
use pb::forget_history_request::Whom;
use tonic::Code;

use super::{Site, asking};

#[tokio::test]
async fn lives_are_searched_shown_and_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("h.sqlite").display());
    let site = Site::keeping(Some(url)).await;
    let history = site.space().await.tasks.history().unwrap();
    let shipping = tokio::spawn(history.ship(HistoryRetention::default()));
    site.send(&["a", "b"]).await;
    for task in site.pulled(2).await {
        let id = task.lock.as_ref().unwrap().id.clone();
        let dead = Dead {
            error: "no van".to_owned(),
            ..Dead::default()
        };
        let end = if id == "a" {
            End::Dead(dead)
        } else {
            End::Done(Done::default())
        };
        assert!(site.settle(&task, end).await);
    }
    asked_by_id(&site).await;
    searched(&site).await;
    shipping.abort();
    let forget = pb::ForgetHistoryRequest {
        whom: Some(Whom::Id("a".to_owned())),
        ..pb::ForgetHistoryRequest::default()
    };
    let forgotten = site
        .client()
        .forget_history(asking(&site.token, forget))
        .await;
    assert_eq!(forgotten.unwrap().into_inner().lives, 1);
}

async fn asked_by_id(site: &Site) {
    let of = |id: &str| pb::WhatBecameOfRequest {
        task_type: "mail".to_owned(),
        id: id.to_owned(),
        ..pb::WhatBecameOfRequest::default()
    };
    let fate = site
        .client()
        .what_became_of(asking(&site.token, of("b")))
        .await;
    let fate = fate.unwrap().into_inner();
    assert_eq!(fate.now.unwrap().state(), pb::TaskState::Done);
    assert_eq!(fate.lives[0].outcome(), pb::LifeOutcome::Done);
    let unknown = site
        .client()
        .what_became_of(asking(&site.token, of("c")))
        .await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
}

async fn searched(site: &Site) {
    let search = |limit, cursor| pb::SearchHistoryRequest {
        task_type: Some("mail".to_owned()),
        limit,
        cursor,
        ..pb::SearchHistoryRequest::default()
    };
    let mut failed = search(0, None);
    failed.outcomes = vec![pb::LifeOutcome::Dead.into()];
    failed.error = Some("van".to_owned());
    let life = until("the shipped life", async || {
        let found = site
            .client()
            .search_history(asking(&site.token, failed.clone()))
            .await;
        found.unwrap().into_inner().lives.pop()
    })
    .await;
    assert_eq!(
        (life.id.as_str(), life.error.as_deref()),
        ("a", Some("no van"))
    );
    assert_eq!((life.errors.len(), life.attempts), (1, 1));
    let first = site
        .client()
        .search_history(asking(&site.token, search(1, None)))
        .await;
    let first = first.unwrap().into_inner();
    let second = site
        .client()
        .search_history(asking(&site.token, search(1, first.next)))
        .await;
    let second = second.unwrap().into_inner();
    assert_eq!(
        (first.lives.len(), second.lives.len(), second.next),
        (1, 1, None)
    );
    assert_ne!(first.lives[0].id, second.lives[0].id);
}

#[tokio::test]
async fn a_server_without_a_history_says_so() {
    let site = Site::open().await;
    let request = pb::SearchHistoryRequest::default();
    let refused = site
        .client()
        .search_history(asking(&site.token, request))
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("history = "), "{refused}");
}

#[tokio::test]
async fn a_history_that_is_away_is_a_concern_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let place = folder.path().join("file/h.sqlite");
    let site = Site::keeping(Some(format!("sqlite:{}", place.display()))).await;
    let history = site.space().await.tasks.history().unwrap();
    let shipping = tokio::spawn(history.ship(HistoryRetention::default()));
    site.send(&["a"]).await;
    for task in site.pulled(1).await {
        assert!(site.settle(&task, End::Done(Done::default())).await);
    }
    let concern = until("the concern", async || {
        let check = asking(&site.token, pb::CheckRequest::default());
        let checked = site.client().check(check).await.unwrap().into_inner();
        checked.concerns.into_iter().next()
    })
    .await;
    assert!(concern.found.contains("file/h.sqlite"), "{concern:?}");
    shipping.abort();
}
