//! Dead tasks, and changes of many, over gRPC.

use std::time::Duration;

use delayq_plugin::When;
use delayq_proto::{pb, span};
use delayq_service::access::Scope;
use delayq_tests::rig::until;
use pb::attempt_end::{Dead, End};
use pb::dead_progress::Progress;
use tonic::{Code, Status};

use super::{Site, asking};

impl Site {
    /// Has tasks of type `mail` die, of an error each.
    async fn die(&self, tasks: &[(&str, &str)]) {
        let ids: Vec<_> = tasks.iter().map(|(id, _)| *id).collect();
        self.send(&ids).await;
        for task in self.pulled(128).await {
            let id = &task.lock.as_ref().unwrap().id;
            let (_, error) = tasks.iter().find(|(one, _)| one == id).unwrap();
            let dead = Dead {
                error: (*error).to_owned(),
                succeeded: Vec::new(),
            };
            assert!(self.settle(&task, End::Dead(dead)).await);
        }
    }

    async fn dead(&self) -> u64 {
        let stats = self.space().await.tasks.stats("mail").await;
        stats.unwrap().dead
    }
}

async fn all(mut stream: tonic::Streaming<pb::DeadProgress>) -> Result<Vec<Progress>, Status> {
    let mut all = Vec::new();
    while let Some(message) = stream.message().await? {
        all.extend(message.progress);
    }
    Ok(all)
}

fn requeue(selection: pb::DeadSelection) -> pb::RequeueSelectedRequest {
    pb::RequeueSelectedRequest {
        task_type: "mail".to_owned(),
        selection: Some(selection),
        ..pb::RequeueSelectedRequest::default()
    }
}

fn every() -> pb::DeadSelection {
    pb::DeadSelection {
        all: true,
        ..pb::DeadSelection::default()
    }
}

const THREE: [(&str, &str); 3] = [("a-1", "no van 7"), ("a-2", "no van 8"), ("b-1", "no road")];

#[tokio::test]
async fn dead_tasks_are_grouped_and_those_of_a_selection_requeued_or_discarded() {
    let site = Site::open().await;
    let mut client = site.client();
    site.die(&THREE).await;
    for types in ["mail", "*"] {
        let request = pb::DeadGroupsRequest {
            task_type: types.to_owned(),
            ..pb::DeadGroupsRequest::default()
        };
        let told = client.dead_groups(asking(&site.token, request)).await;
        let told = told.unwrap().into_inner();
        assert!(told.count == 3 && told.is_complete, "{told:?}");
        let [vans, roads] = &told.groups[..] else {
            panic!("{told:?}");
        };
        assert_eq!((vans.error.as_str(), vans.count), ("no van #", 2));
        assert_eq!((vans.ids.join(" "), roads.count), ("a-1 a-2".to_owned(), 1));
        assert_eq!(vans.latest_error, "no van 8");
    }
    let vans = pb::DeadSelection {
        error_like: Some("no van #".to_owned()),
        ..pb::DeadSelection::default()
    };
    let dry = pb::RequeueSelectedRequest {
        dry_run: true,
        ..requeue(vans.clone())
    };
    let dry = client.requeue_selected(asking(&site.token, dry)).await;
    let dry = all(dry.unwrap().into_inner()).await.unwrap();
    assert_eq!(
        (dry, site.dead().await),
        (vec![Progress::WouldChange(2)], 3)
    );
    let done = client.requeue_selected(asking(&site.token, requeue(vans)));
    let done = all(done.await.unwrap().into_inner()).await.unwrap();
    let (last, going) = done.split_last().unwrap();
    assert_eq!(last, &Progress::Changed(2));
    let is_going = |one: &Progress| matches!(one, Progress::Going(going) if going.of == 2);
    assert!(going.iter().all(is_going), "{going:?}");
    assert_eq!(site.dead().await, 1);
    let discard = |selection| pb::DiscardSelectedRequest {
        task_type: "mail".to_owned(),
        selection,
        ..pb::DiscardSelectedRequest::default()
    };
    for none in [None, Some(pb::DeadSelection::default())] {
        let refused = client.discard_selected(asking(&site.token, discard(none)));
        assert_eq!(refused.await.unwrap_err().code(), Code::InvalidArgument);
    }
    let roads = pb::DeadSelection {
        ids: vec!["b-1".to_owned()],
        ..pb::DeadSelection::default()
    };
    let done = client.discard_selected(asking(&site.token, discard(Some(roads))));
    let done = all(done.await.unwrap().into_inner()).await.unwrap();
    assert_eq!(done.last(), Some(&Progress::Changed(1)));
    assert_eq!(site.dead().await, 0);
}

#[tokio::test]
async fn a_slow_requeue_ends_when_its_client_goes() {
    let site = Site::open().await;
    let mut client = site.client();
    site.die(&THREE).await;
    let slow = pb::RequeueSelectedRequest {
        interval: Some(span(Duration::from_hours(1))),
        ..requeue(every())
    };
    let going = client.requeue_selected(asking(&site.token, slow)).await;
    until("it goes on", async || {
        (site.dead().await == 2).then_some(())
    })
    .await;
    drop(going);
    // What was left can be discarded meanwhile by whoever asks.
    let rest = pb::DiscardSelectedRequest {
        task_type: "mail".to_owned(),
        selection: Some(every()),
        ..pb::DiscardSelectedRequest::default()
    };
    let done = client.discard_selected(asking(&site.token, rest)).await;
    let done = all(done.unwrap().into_inner()).await.unwrap();
    assert_eq!(done.last(), Some(&Progress::Changed(2)));
}

/// Sends scheduled tasks of type `mail`, of a group each.
async fn scheduled(site: &Site, tasks: &[(&str, &str)]) {
    let hour = When::After(Duration::from_hours(1));
    let task = |(id, group): &(&str, &str)| pb::NewTask {
        task_type: "mail".to_owned(),
        id: (*id).to_owned(),
        when: Some(hour.into()),
        headers: [("group".to_owned(), (*group).to_owned())].into(),
        ..pb::NewTask::default()
    };
    let request = pb::SubmitRequest {
        tasks: tasks.iter().map(task).collect(),
        ..pb::SubmitRequest::default()
    };
    let sent = site.client().submit(asking(&site.token, request)).await;
    sent.unwrap();
}

#[tokio::test]
async fn tasks_that_match_are_cancelled_and_moved_and_a_dry_run_changes_nothing() {
    let site = Site::open().await;
    let mut client = site.client();
    scheduled(&site, &[("a", "x"), ("b", "x"), ("c", "y")]).await;
    let group = |group: &str| {
        Some(pb::TaskSelection {
            group: Some(group.to_owned()),
            ..pb::TaskSelection::default()
        })
    };
    let cancel = |selection, dry_run| pb::CancelAllRequest {
        task_type: "mail".to_owned(),
        selection,
        dry_run,
        ..pb::CancelAllRequest::default()
    };
    for dry_run in [true, false] {
        let done = client.cancel_all(asking(&site.token, cancel(group("x"), dry_run)));
        let done = done.await.unwrap().into_inner();
        assert_eq!((done.matched, done.changed), (2, 2), "{done:?}");
        assert_eq!((done.is_dry_run, done.is_complete), (dry_run, true));
        let stats = site.space().await.tasks.stats("mail").await.unwrap();
        assert_eq!(stats.scheduled, if dry_run { 3 } else { 1 });
    }
    let day = When::After(Duration::from_hours(24));
    let moved = pb::RescheduleAllRequest {
        task_type: "*".to_owned(),
        selection: group("y"),
        when: Some(day.into()),
        ..pb::RescheduleAllRequest::default()
    };
    let timeless = pb::RescheduleAllRequest {
        when: None,
        ..moved.clone()
    };
    let refused = client.reschedule_all(asking(&site.token, timeless)).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    let narrow = site.token_for(&[Scope::Operate], &["mail"]).await;
    let refused = client.reschedule_all(asking(&narrow, moved.clone())).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let moved = client.reschedule_all(asking(&site.token, moved)).await;
    let moved = moved.unwrap().into_inner();
    assert_eq!(
        (moved.changed, moved.task_types),
        (1, vec!["mail".to_owned()])
    );
}

#[tokio::test]
async fn several_tasks_are_cancelled_by_their_ids_each_with_an_outcome() {
    use pb::cancel_response::Outcome;
    let site = Site::open().await;
    scheduled(&site, &[("a", "x")]).await;
    site.send(&["b"]).await;
    assert_eq!(site.pulled(1).await.len(), 1);
    let request = |ids: &[&str]| pb::CancelEachRequest {
        task_type: "mail".to_owned(),
        ids: ids.iter().map(ToString::to_string).collect(),
        ..pb::CancelEachRequest::default()
    };
    let asked = asking(&site.token, request(&["a", "b", "c"]));
    let done = site.client().cancel_each(asked).await.unwrap().into_inner();
    let outcomes = done.outcomes.into_iter().filter_map(|one| one.outcome);
    assert_eq!(
        outcomes.collect::<Vec<_>>(),
        [
            Outcome::Cancelled(true),
            Outcome::Running(true),
            Outcome::NotFound(true)
        ]
    );
    let many = asking(&site.token, request(&["a"; 1_001]));
    let refused = site.client().cancel_each(many).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_types_of_a_pattern_are_paused_and_resumed_together() {
    let site = Site::open().await;
    let mut client = site.client();
    scheduled(&site, &[("a", "x")]).await;
    let pause = |task_type: &str| pb::PauseRequest {
        task_type: task_type.to_owned(),
        ..pb::PauseRequest::default()
    };
    for types in ["*", "mail"] {
        let paused = client.pause(asking(&site.token, pause(types))).await;
        assert_eq!(paused.unwrap().into_inner().task_types, ["mail"], "{types}");
    }
    let unknown = client.pause(asking(&site.token, pause("mial"))).await;
    let unknown = unknown.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
    let said = unknown.message();
    assert!(said.contains("did you mean mail?"), "{said}");
    let create = pb::PauseRequest {
        create: true,
        ..pause("report")
    };
    let made = client.pause(asking(&site.token, create)).await;
    assert_eq!(made.unwrap().into_inner().task_types, ["report"]);
    let resume = pb::ResumeRequest {
        task_type: "*".to_owned(),
        ..pb::ResumeRequest::default()
    };
    let resumed = client.resume(asking(&site.token, resume)).await;
    let resumed = resumed.unwrap().into_inner().task_types;
    assert_eq!(resumed, ["mail", "report"]);
    let stats = site.space().await.tasks.stats("mail").await.unwrap();
    assert_eq!(stats.paused_until, None);
}
