//! Data comes back byte for byte: messages, headers, ids, names.

use std::collections::BTreeSet;

use delayq_core::job::{MAX_HEADER_BYTES, MAX_HEADERS, MAX_MESSAGE_BYTES};
use delayq_core::name::{MAX_TASK_ID_BYTES, MAX_TASK_TYPE_BYTES};
use delayq_core::store::AttemptEnd;
use delayq_core::{DelayQueueJob, TaskState, TaskType, hours};

use super::rig::{LONG, Rig, TYPE, job, usual_type};

/// Sends `message` through a submit, a find, a claim, a take-over and an end.
async fn round_trip(rig: &Rig, id: &str, message: &[u8]) {
    rig.accept(DelayQueueJob::raw(TYPE, message).id(id)).await;
    assert!(rig.info(id).await.message.as_deref() == Some(message));
    let task = rig.claim_one().await;
    assert!(task.message == message);
    rig.expire(&task.lock).await;
    let task = rig.claim_one().await;
    assert!(task.message == message);
    assert!(rig.info(id).await.message.as_deref() == Some(message));
    rig.settled(&task.lock, AttemptEnd::Done).await;
}

pub async fn a_message_of_every_byte_comes_back_as_sent(rig: &Rig) {
    let every_byte: Vec<u8> = (0..=255).collect();
    round_trip(rig, "1", &every_byte).await;
    for byte in [0, b'"', b'\\', 127, 128, 255] {
        round_trip(rig, &format!("byte-{byte}"), &[byte]).await;
    }
}

pub async fn an_empty_message_comes_back_empty(rig: &Rig) {
    round_trip(rig, "1", b"").await;
}

pub async fn a_message_of_the_largest_size_comes_back_as_sent(rig: &Rig) {
    let pseudo_random = |n: usize| (n.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0];
    let message: Vec<u8> = (0..MAX_MESSAGE_BYTES).map(pseudo_random).collect();
    round_trip(rig, "1", &message).await;
}

pub async fn many_of_the_largest_messages_are_listed_and_claimed_in_the_end(rig: &Rig) {
    let mut waiting: BTreeSet<String> = (0..9).map(|n| n.to_string()).collect();
    let mut batch = Vec::new();
    for id in &waiting {
        let message = vec![id.as_bytes()[0]; MAX_MESSAGE_BYTES];
        batch.push(rig.task(DelayQueueJob::raw(TYPE, message).id(id)).await);
    }
    let outcomes = rig.store().submit(batch).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let (mut listed, mut cursor) = (0, None);
    for _ in 0..20 {
        let (task_type, state) = (usual_type(), TaskState::Scheduled);
        let page = rig
            .store()
            .list(&task_type, state, cursor.as_ref(), 100)
            .await
            .unwrap();
        listed += page.tasks.len();
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, 9);
    while !waiting.is_empty() {
        let claimed = rig.claim().await;
        assert!(
            !claimed.tasks.is_empty(),
            "what is due is claimed: {waiting:?}"
        );
        for task in &claimed.tasks {
            let id = task.lock.id.as_str();
            assert!(task.message == vec![id.as_bytes()[0]; MAX_MESSAGE_BYTES]);
            assert!(waiting.remove(id), "{id} is claimed once");
        }
        assert_eq!(claimed.is_more_due(), !waiting.is_empty());
    }
}

pub async fn text_that_looks_like_something_else_comes_back_as_sent(rig: &Rig) {
    let texts = [
        "null",
        "{}",
        "[]",
        "nil",
        "0",
        "1e999",
        "{\"a\":1}",
        "'; drop table tasks; --",
        "\r\n",
        "$5\r\nhello\r\n",
        "\u{feff}bom",
        "%s%n",
        "  ",
    ];
    for (n, text) in texts.iter().enumerate() {
        round_trip(rig, &n.to_string(), text.as_bytes()).await;
    }
}

pub async fn an_updated_message_of_every_byte_comes_back_as_sent(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    let message: Vec<u8> = (0..=255).rev().collect();
    let (task_type, id) = (super::rig::usual_type(), super::rig::id("1"));
    let _ = rig
        .store()
        .update(&task_type, &id, message.clone())
        .await
        .unwrap();
    assert_eq!(rig.info("1").await.message, Some(message));
}

pub async fn headers_come_back_as_sent(rig: &Rig) {
    let job = job("1")
        .header("unicode", "日本語 🎉 ä")
        .header("empty", "")
        .header("control", "\0\u{1}\t\r\n\"\\")
        .header("!#$%&'*+-.^_`|~\"\\/{}", "odd name")
        .header("json", "{\"a\":[1,null]}");
    let sent = rig.task(job.clone()).await.headers;
    rig.accept(job).await;
    assert_eq!(rig.info("1").await.headers, sent);
    assert_eq!(rig.claim_one().await.headers, sent);
}

pub async fn as_many_headers_as_allowed_come_back(rig: &Rig) {
    let mut job = job("1");
    for n in 0..MAX_HEADERS {
        let value = "x".repeat(MAX_HEADER_BYTES / MAX_HEADERS - 2);
        job = job.header(format!("{n:02}"), value);
    }
    rig.accept(job).await;
    let headers = rig.claim_one().await.headers;
    assert_eq!(headers.len(), MAX_HEADERS);
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert_eq!(bytes, MAX_HEADER_BYTES);
}

pub async fn ids_of_every_allowed_byte_are_told_apart(rig: &Rig) {
    let ids: BTreeSet<String> = (b'!'..=b'~')
        .map(|byte| char::from(byte).to_string())
        .collect();
    for id in &ids {
        rig.accept(job(id)).await;
    }
    for id in &ids {
        assert_eq!(rig.info(id).await.id.as_str(), id);
    }
    let claimed = rig.claim().await;
    let taken: BTreeSet<String> = claimed.ids().into_iter().map(str::to_owned).collect();
    assert_eq!(taken, ids);
    for task in &claimed.tasks {
        rig.settled(&task.lock, AttemptEnd::Done).await;
    }
}

pub async fn ids_and_types_of_the_largest_size_are_told_apart(rig: &Rig) {
    let long_id = "i".repeat(MAX_TASK_ID_BYTES - 1);
    let long_type = "t".repeat(MAX_TASK_TYPE_BYTES - 1);
    for end in ["a", "b"] {
        let (task_type, id) = (format!("{long_type}{end}"), format!("{long_id}{end}"));
        rig.accept(DelayQueueJob::raw(&task_type, end).id(&id))
            .await;
        let task_type = TaskType::new(task_type).unwrap();
        let claimed = rig.claim_of(&task_type, &rig.request().await).await;
        assert_eq!(claimed.ids(), [id]);
        assert_eq!(claimed.tasks[0].message, end.as_bytes());
    }
}

pub async fn types_that_look_alike_never_mix(rig: &Rig) {
    let names = [
        "a", "a:b", "a.b", "a_b", "a-b", "A", "a:", ":a", "a:due", "a:tasks", "types", "0",
    ];
    for name in names {
        rig.accept(DelayQueueJob::raw(name, name).id("b:1")).await;
    }
    for name in names {
        let task_type = TaskType::new(name).unwrap();
        let claimed = rig.claim_of(&task_type, &rig.request().await).await;
        assert_eq!(claimed.tasks.len(), 1, "{name}");
        assert_eq!(claimed.tasks[0].message, name.as_bytes());
    }
    rig.accept(job("1").after(hours(1))).await;
}
