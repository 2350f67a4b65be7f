//! What is told of tasks and types, over gRPC.

use std::time::Duration;

use delayq_proto::{pb, span};
use pb::MomentKind as Kind;
use pb::attempt_end::{End, Retry};
use serde_json::Value;
use tonic::Code;

use super::{Site, asking};

fn of(id: &str) -> pb::TimelineRequest {
    pb::TimelineRequest {
        task_type: "mail".to_owned(),
        id: id.to_owned(),
        ..pb::TimelineRequest::default()
    }
}

async fn timeline(site: &Site, id: &str) -> Vec<pb::Moment> {
    let told = site.client().timeline(asking(&site.token, of(id))).await;
    told.unwrap().into_inner().moments
}

async fn explanation(site: &Site, id: &str) -> (pb::Explanation, Value) {
    let request = pb::ExplainRequest {
        task_type: "mail".to_owned(),
        id: id.to_owned(),
        ..pb::ExplainRequest::default()
    };
    let told = site.client().explain(asking(&site.token, request)).await;
    let told = told.unwrap().into_inner().explanation.unwrap();
    let json = serde_json::from_str(&told.json).unwrap();
    (told, json)
}

#[tokio::test]
async fn the_life_of_a_task_is_told_and_why_it_waits() {
    let site = Site::open().await;
    site.send(&["a"]).await;
    let task = site.pulled(1).await.remove(0);
    let retry = Retry {
        after: Some(span(Duration::from_hours(1))),
        error: "no van".to_owned(),
        succeeded: Vec::new(),
    };
    assert!(site.settle(&task, End::Retry(retry)).await);
    let moments = timeline(&site, "a").await;
    let kinds = moments.iter().map(pb::Moment::what);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [
            Kind::Submitted,
            Kind::Due,
            Kind::Started,
            Kind::Failed,
            Kind::Now,
            Kind::Next
        ]
    );
    let [_, _, started, failed, now, next] = &moments[..] else {
        panic!("{moments:?}");
    };
    assert_eq!((started.attempt, next.attempt), (Some(1), Some(2)));
    assert!(started.late.is_some() && started.due_at.is_some() && started.holder.is_some());
    assert_eq!(failed.error.as_deref(), Some("no van"));
    assert!(failed.text.contains("attempt 1"), "{failed:?}");
    let (told, json) = explanation(&site, "a").await;
    assert_eq!((told.cause.as_str(), told.id.as_str()), ("retry", "a"));
    assert_eq!(told.state(), pb::TaskState::Scheduled);
    assert!(now.text.contains("no van") && told.sentence.contains("no van"));
    assert_eq!(
        (&json["cause"], &json["error"], &json["attempt"]),
        (&"retry".into(), &"no van".into(), &1.into())
    );
}

#[tokio::test]
async fn a_task_that_nobody_knows_has_no_life_and_is_explained_as_such() {
    let site = Site::open().await;
    let refused = site.client().timeline(asking(&site.token, of("a"))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(refused.message(), "there is no task a of type mail");
    let refused = site.client().timeline(asking(&site.token, of("a b"))).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    let (told, _) = explanation(&site, "a").await;
    assert_eq!(
        (told.cause.as_str(), told.state()),
        ("unknown", pb::TaskState::Unspecified)
    );
}

#[tokio::test]
async fn all_types_are_told_of_at_a_glance() {
    let site = Site::open().await;
    site.send(&["a", "b"]).await;
    let request = pb::OverviewRequest::default();
    let told = site.client().overview(asking(&site.token, request)).await;
    let json: Value = serde_json::from_str(&told.unwrap().into_inner().json).unwrap();
    assert_eq!(json["type_count"], 1);
    let of_type = &json["types"][0];
    assert_eq!(
        (&of_type["task_type"], &of_type["stats"]["scheduled"]),
        (&"mail".into(), &2.into())
    );
}
