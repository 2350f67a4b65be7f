//! Replies of workers. Skipped for a store without them.

use std::time::Duration;

use delayq_core::reply::{MAX_REPLY_BYTES, Reply};
use delayq_core::store::AttemptEnd;
use delayq_core::{Error, Lock, TaskState};

use super::rig::{Rig, SHORT, id, usual_type};

async fn keeps_replies(rig: &Rig) -> bool {
    let found = rig.store().reply(&usual_type(), &id("none")).await;
    if matches!(found, Err(Error::Unsupported(_))) {
        return false;
    }
    assert_eq!(found, Ok(None));
    true
}

fn lock(name: &str, fence: u64) -> Lock {
    Lock {
        id: id(name),
        fence,
    }
}

async fn keep(rig: &Rig, lock: &Lock, reply: &Reply) -> bool {
    let task_type = usual_type();
    let kept = rig.store().keep_reply(&task_type, lock, reply);
    kept.await.unwrap()
}

/// The body of the reply of a task, and its fence.
async fn body(rig: &Rig, name: &str) -> Option<(String, u64)> {
    let found = rig.store().reply(&usual_type(), &id(name)).await.unwrap();
    found.map(|kept| (String::from_utf8(kept.body).unwrap(), kept.fence))
}

pub async fn a_reply_comes_back_as_given_and_names_the_end_of_its_task(rig: &Rig) {
    if !keeps_replies(rig).await {
        return;
    }
    let task = rig.run("a").await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let content_type = "text/plain; charset=utf-8";
    let reply = Reply::bytes(every_byte.clone()).content_type(content_type);
    let before = rig.now().await;
    assert!(keep(rig, &task.lock, &reply).await);
    assert!(keep(rig, &task.lock, &reply).await, "again");
    let after = rig.now().await;
    let running = rig.find("a").await.unwrap();
    assert_eq!(running.settled_fence, None);
    rig.settled(&task.lock, AttemptEnd::Done).await;
    let kept = rig.store().reply(&usual_type(), &id("a")).await.unwrap();
    let kept = kept.unwrap();
    assert_eq!((kept.body, &*kept.content_type), (every_byte, content_type));
    assert!((before..=after).contains(&kept.at));
    assert_eq!(kept.fence, task.lock.fence);
    let done = rig.find("a").await.unwrap();
    assert_eq!(
        (done.state, done.settled_fence),
        (TaskState::Done, Some(kept.fence))
    );
    let task_type = usual_type();
    let listed = rig.store().list(&task_type, TaskState::Done, None, 5);
    let listed = listed.await.unwrap();
    assert_eq!(listed.tasks[0].settled_fence, Some(kept.fence));
    let empty = rig.run("b").await;
    assert!(keep(rig, &empty.lock, &Reply::bytes("").content_type("")).await);
    let last = Some((String::new(), empty.lock.fence));
    assert_eq!(body(rig, "b").await, last);
    rig.settled(&empty.lock, AttemptEnd::Done).await;
}

pub async fn a_reply_of_a_smaller_fence_never_replaces_one_of_a_larger(rig: &Rig) {
    if !keeps_replies(rig).await {
        return;
    }
    let large = (1 << 53) - 2;
    assert!(keep(rig, &lock("a", large), &Reply::bytes("second")).await);
    assert!(!keep(rig, &lock("a", large - 1), &Reply::bytes("first")).await);
    assert_eq!(body(rig, "a").await, Some(("second".to_owned(), large)));
    assert!(keep(rig, &lock("a", large + 1), &Reply::bytes("third")).await);
    assert_eq!(body(rig, "a").await, Some(("third".to_owned(), large + 1)));
    assert!(keep(rig, &lock("b", 1), &Reply::bytes("another task")).await);
}

pub async fn replies_of_types_and_namespaces_stay_apart(rig: &Rig) {
    if !keeps_replies(rig).await {
        return;
    }
    assert!(keep(rig, &lock("a", 1), &Reply::bytes("mine")).await);
    let other_type = delayq_core::TaskType::new("mail.send").unwrap();
    let elsewhere = rig.store().reply(&other_type, &id("a")).await;
    assert_eq!(elsewhere, Ok(None));
    let other = rig.with_retention(rig.options().retention).await;
    assert_eq!(body(&other, "a").await, None);
    assert_eq!(body(rig, "a").await, Some(("mine".to_owned(), 1)));
}

pub async fn a_reply_is_forgotten_after_its_retention(rig: &Rig) {
    if !keeps_replies(rig).await {
        return;
    }
    for nth in 1..=10 {
        let short = Reply::bytes("short").keep_for(SHORT);
        assert!(keep(rig, &lock(&format!("short-{nth}"), 9), &short).await);
    }
    assert!(keep(rig, &lock("long", 9), &Reply::bytes("long")).await);
    rig.pass(SHORT + Duration::from_millis(2)).await;
    for nth in 1..=10 {
        assert_eq!(body(rig, &format!("short-{nth}")).await, None);
    }
    assert_eq!(body(rig, "long").await, Some(("long".to_owned(), 9)));
    // The expired reply does not block a later one.
    assert!(keep(rig, &lock("short-1", 1), &Reply::bytes("new")).await);
    assert_eq!(body(rig, "short-1").await, Some(("new".to_owned(), 1)));
    rig.store().check().await.unwrap();
    assert_eq!(body(rig, "short-1").await, Some(("new".to_owned(), 1)));
}

pub async fn replies_that_cannot_be_are_refused(rig: &Rig) {
    if !keeps_replies(rig).await {
        return;
    }
    let most = Reply::bytes(vec![b'x'; MAX_REPLY_BYTES]);
    assert!(keep(rig, &lock("a", 1), &most).await);
    let large = Reply::bytes(vec![b'x'; MAX_REPLY_BYTES + 1]);
    let endless = Reply::bytes("").keep_for(Duration::MAX);
    for refused in [large, endless, Reply::bytes("").content_type("a\r\nb")] {
        let lock = lock("a", 2);
        let task_type = usual_type();
        let kept = rig.store().keep_reply(&task_type, &lock, &refused);
        let error = kept.await.unwrap_err();
        assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
    }
    let length = body(rig, "a").await.map(|(body, _)| body.len());
    assert_eq!(length, Some(MAX_REPLY_BYTES));
}
