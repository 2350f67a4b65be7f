//! Replies to those who wait, over gRPC.

use std::time::Duration;

use delayq_proto::{pb, span};
use pb::attempt_end::{Dead, Done, End, Release};
use pb::wait_for_reply_response::Outcome;
use tonic::Code;

use super::{Site, asking};

fn wait(id: &str, wait: Duration) -> pb::WaitForReplyRequest {
    pb::WaitForReplyRequest {
        task_type: "mail".to_owned(),
        id: id.to_owned(),
        wait: Some(span(wait)),
        ..pb::WaitForReplyRequest::default()
    }
}

async fn end_of(site: &Site, id: &str, within: Duration) -> Outcome {
    let asked = asking(&site.token, wait(id, within));
    let ended = site.client().wait_for_reply(asked).await;
    ended.unwrap().into_inner().outcome.unwrap()
}

/// Keeps a reply; whether it was kept.
async fn keep(site: &Site, lock: Option<pb::Lock>, body: &str) -> bool {
    let request = pb::KeepReplyRequest {
        task_type: "mail".to_owned(),
        lock,
        content_type: "text/plain".to_owned(),
        body: body.as_bytes().to_vec(),
        retention: Some(span(Duration::from_hours(1))),
        ..pb::KeepReplyRequest::default()
    };
    let kept = site.client().keep_reply(asking(&site.token, request)).await;
    kept.unwrap().into_inner().kept
}

#[tokio::test]
async fn whoever_waits_gets_the_reply_or_is_told_how_it_ended() {
    let site = Site::open().await;
    site.send(&["a", "b", "c", "d"]).await;
    let pending = end_of(&site, "a", Duration::ZERO).await;
    assert_eq!(pending, Outcome::Pending(true));
    let cancel = pb::CancelRequest {
        task_type: "mail".to_owned(),
        id: "d".to_owned(),
        ..pb::CancelRequest::default()
    };
    let cancelled = site.client().cancel(asking(&site.token, cancel)).await;
    cancelled.unwrap();
    let waiting = end_of(&site, "a", Duration::from_mins(1));
    let working = async {
        let tasks = site.pulled(3).await;
        let dead = Dead {
            error: "no van".to_owned(),
            succeeded: Vec::new(),
        };
        assert!(keep(&site, tasks[0].lock.clone(), "sent").await);
        let ends = [
            End::Done(Done::default()),
            End::Done(Done::default()),
            End::Dead(dead),
        ];
        for (task, end) in tasks.iter().zip(ends) {
            assert!(site.settle(task, end).await);
        }
    };
    let (ended, ()) = tokio::join!(waiting, working);
    let Outcome::Replied(reply) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(
        (reply.body.as_slice(), reply.content_type.as_str()),
        (&b"sent"[..], "text/plain")
    );
    for (id, outcome) in [
        ("b", Outcome::Done(true)),
        ("c", Outcome::Dead("no van".to_owned())),
        ("d", Outcome::Cancelled(true)),
        ("nobody", Outcome::NotFound(true)),
    ] {
        assert_eq!(end_of(&site, id, Duration::from_secs(5)).await, outcome);
    }
    let long = asking(&site.token, wait("a", Duration::from_secs(61)));
    let refused = site.client().wait_for_reply(long).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_reply_of_a_lost_lock_is_not_kept() {
    let site = Site::open().await;
    site.send(&["a"]).await;
    let first = site.pulled(1).await.remove(0);
    assert!(site.settle(&first, End::Release(Release::default())).await);
    let second = site.pulled(1).await.remove(0);
    assert!(!keep(&site, first.lock.clone(), "stale").await);
    // One that nobody has been given would stand in the way of every later one.
    let mut forged = second.lock.clone().unwrap();
    forged.fence += 1_000_000;
    assert!(!keep(&site, Some(forged), "forged").await);
    assert!(keep(&site, second.lock.clone(), "sent").await);
    assert!(site.settle(&second, End::Done(Done::default())).await);
    // Repeated after a lost answer.
    assert!(keep(&site, second.lock.clone(), "sent").await);
    let ended = end_of(&site, "a", Duration::from_secs(5)).await;
    let Outcome::Replied(reply) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(reply.body, b"sent");
}
