//! Claims with a wait, over gRPC.

use std::time::Duration;

use delayq_plugin::store::Step;
use delayq_plugin::{TaskState, TaskType, Timestamp};
use delayq_proto::{pb, span};
use pb::attempt_end::{Done, End, Release};
use tonic::Code;
use tower::ServiceExt;

use super::{Site, asking, call};
use crate::grpc::router;

fn pull(types: &[&str], wait: Duration) -> pb::PullRequest {
    pb::PullRequest {
        task_types: types.iter().map(ToString::to_string).collect(),
        wait: Some(span(wait)),
        ..pb::PullRequest::default()
    }
}

async fn ids(site: &Site, request: pb::PullRequest) -> Vec<String> {
    let pulled = site.client().pull(asking(&site.token, request)).await;
    let tasks = pulled.unwrap().into_inner().tasks.into_iter();
    let ids = tasks.map(|one| one.task.unwrap().lock.unwrap().id);
    ids.collect()
}

#[tokio::test]
async fn tasks_are_pulled_when_they_fall_due_and_settled_by_their_locks() {
    let site = Site::open().await;
    let none = ids(&site, pull(&["mail"], Duration::ZERO)).await;
    assert!(none.is_empty(), "{none:?}");
    let waiting = site.pulled(1);
    let (tasks, ()) = tokio::join!(waiting, site.send(&["a"]));
    let task = &tasks[0];
    assert_eq!((task.attempt, task.message.as_slice()), (1, &b"hello"[..]));
    assert!(site.settle(task, End::Done(Done::default())).await);
    let space = site.space().await;
    let found = space.tasks.find("mail", "a").await.unwrap();
    assert_eq!(found.unwrap().state, TaskState::Done);
    // Both are in the figures once they are stored.
    space.pull.close().await;
    let (mail, since) = (TaskType::new("mail").unwrap(), Timestamp::default());
    let spells = space.tasks.store().figures(&mail, Step::Minute, since);
    let (mut started, mut done) = (0, 0);
    for spell in spells.await.unwrap() {
        started += spell.figures.started;
        done += spell.figures.done;
    }
    assert_eq!((started, done), (1, 1));
}

#[tokio::test]
async fn a_claim_that_cannot_be_is_refused() {
    let site = Site::open().await;
    let asked = |change: fn(&mut pb::PullRequest)| {
        let mut request = pull(&["mail"], Duration::ZERO);
        change(&mut request);
        request
    };
    for bad in [
        asked(|request| request.task_types.clear()),
        asked(|request| request.task_types = vec!["a b".to_owned()]),
        asked(|request| request.limit = Some(129)),
        asked(|request| request.lock_for = Some(span(Duration::ZERO))),
        asked(|request| request.wait = Some(span(Duration::from_secs(61)))),
        asked(|request| request.order = 7),
    ] {
        let refused = site.client().pull(asking(&site.token, bad.clone())).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad:?}: {refused}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_at_any_moment_costs_no_attempt() {
    let site = Site::open().await;
    let router = router(site.app.clone());
    let request = pull(&["mail"], Duration::from_mins(1));
    for round in 0..40 {
        let id = format!("task-{round}");
        // It leaves at a moment that differs from round to round, be it with an answer unread.
        let leaving = router.clone().oneshot(call(&site.token, "Pull", &request));
        let leaving = tokio::time::timeout(Duration::from_micros(round * 200), leaving);
        let ids = [id.as_str()];
        let (unread, ()) = tokio::join!(leaving, site.send(&ids));
        drop(unread);
        let task = site.pulled(1).await.remove(0);
        let history = task.history.clone().unwrap();
        assert_eq!((task.attempt, history.lock_expiries), (1, 0), "{task:?}");
        assert_eq!(task.lock.as_ref().unwrap().id, id);
        assert!(site.settle(&task, End::Done(Done::default())).await);
    }
}

#[tokio::test]
async fn the_note_of_a_settlement_is_shown_to_the_next_pull() {
    let site = Site::open().await;
    site.send(&["a"]).await;
    let task = site.pulled(1).await.remove(0);
    assert_eq!(task.history.as_ref().unwrap().note, None);
    assert!(site.settle(&task, End::Release(Release::default())).await);
    let history = site.pulled(1).await.remove(0).history.unwrap();
    assert_eq!((history.releases, history.failures), (1, 0));
    assert_eq!(history.note.as_deref(), Some("by a test"));
}
