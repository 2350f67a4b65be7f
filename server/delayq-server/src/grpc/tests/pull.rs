//! Claims with a wait, over gRPC.

use std::time::Duration;

use delayq_plugin::store::Step;
use delayq_plugin::{TaskState, TaskType, Timestamp};
use delayq_proto::{pb, span};
use delayq_service::access::Scope;
use delayq_tests::rig::until;
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
    let extend = pb::ExtendRequest {
        bucket: Some(pb::Bucket {
            task_type: "mail".to_owned(),
            shard: String::new(),
        }),
        locks: vec![task.lock.clone().unwrap()],
        lock_for: Some(span(Duration::from_hours(1))),
        ..pb::ExtendRequest::default()
    };
    let extended = site.client().extend(asking(&site.token, extend)).await;
    let extended = extended.unwrap().into_inner().outcomes[0].outcome;
    let is_longer = matches!(
        extended,
        Some(pb::extend_outcome::Outcome::ExtendedUntil(until))
            if until.seconds > task.lock_until.unwrap().seconds + 3_000
    );
    assert!(is_longer, "{extended:?}");
    assert!(site.settle(task, End::Done(Done {})).await);
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
async fn several_types_are_pulled_in_the_order_of_the_list_or_in_turns() {
    let site = Site::open().await;
    let tasks = ["b-1", "b-2", "a-1", "a-2"].map(|id| pb::NewTask {
        task_type: id.split('-').next().unwrap().to_owned(),
        id: id.to_owned(),
        ..pb::NewTask::default()
    });
    let request = pb::SubmitRequest {
        tasks: tasks.to_vec(),
        ..pb::SubmitRequest::default()
    };
    let sent = site.client().submit(asking(&site.token, request)).await;
    sent.unwrap();
    let listed = ids(&site, pull(&["a", "b"], Duration::ZERO)).await;
    assert_eq!(listed, ["a-1"]);
    let mut firsts = Vec::new();
    for _ in 0..2 {
        let fair = pb::PullRequest {
            order: pb::PullOrder::Fair.into(),
            ..pull(&["a", "b"], Duration::ZERO)
        };
        firsts.extend(ids(&site, fair).await);
    }
    firsts.sort();
    assert_eq!(firsts, ["a-2", "b-1"]);
    let rest = pb::PullRequest {
        limit: Some(128),
        ..pull(&["a", "b"], Duration::ZERO)
    };
    assert_eq!(ids(&site, rest).await, ["b-2"]);
}

#[tokio::test]
async fn a_claim_that_cannot_be_is_refused_and_so_is_a_foreign_type() {
    let site = Site::open().await;
    let now = Duration::ZERO;
    let limited = |limit| pb::PullRequest {
        limit: Some(limit),
        ..pull(&["mail"], now)
    };
    let locked = |secs| pb::PullRequest {
        lock_for: Some(span(Duration::from_secs(secs))),
        ..pull(&["mail"], now)
    };
    let many: Vec<_> = (0..101).map(|n| format!("t{n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for bad in [
        pull(&[], now),
        pull(&["mail", "mail"], now),
        pull(&many, now),
        pull(&["a b"], now),
        pull(&["mail"], Duration::from_secs(61)),
        limited(0),
        limited(129),
        locked(0),
        locked(90_000),
    ] {
        let refused = site.client().pull(asking(&site.token, bad.clone())).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad:?}: {refused}");
    }
    let narrow = site.token_for(&[Scope::Work], &["mail"]).await;
    let foreign = pull(&["mail", "order"], now);
    let refused = site.client().pull(asking(&narrow, foreign)).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
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
        assert!(site.settle(&task, End::Done(Done {})).await);
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

#[tokio::test]
async fn an_answer_that_nobody_reads_gives_its_tasks_back() {
    let site = Site::open().await;
    site.send(&["a"]).await;
    let now = call(&site.token, "Pull", &pull(&["mail"], Duration::ZERO));
    let answer = router(site.app.clone()).oneshot(now).await.unwrap();
    let space = site.space().await;
    let found = space.tasks.find("mail", "a").await.unwrap().unwrap();
    assert_eq!(found.state, TaskState::Running);
    drop(answer);
    let given_back = until("it is given back", || async {
        let found = space.tasks.find("mail", "a").await.unwrap().unwrap();
        (found.state == TaskState::Scheduled).then_some(found)
    })
    .await;
    assert_eq!((given_back.attempt, given_back.history.releases), (0, 1));
}

#[tokio::test]
async fn a_token_that_ends_while_it_waits_gets_no_task() {
    let site = Site::open().await;
    let token = site.token_for(&[Scope::Work], &[]).await;
    let request = pull(&["mail"], Duration::from_mins(1));
    let waiting = site.refusal(&token, "Pull", &request);
    let meanwhile = async {
        site.revoke(&token).await;
        site.send(&["a"]).await;
    };
    let (refused, ()) = tokio::join!(waiting, meanwhile);
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    assert!(refused.message().contains("while the request waited"));
    let task = site.pulled(1).await.remove(0);
    assert_eq!(task.attempt, 1);
}
