use std::time::Duration;

use delayq_core::memory::MemoryStore;
use delayq_core::{DelayQueueJob, Expiry, Limits, Namespace, Timestamp, minutes, seconds};
use delayq_transaction::{BoxError, SqlTransaction};

use serde_json::{Value, json};

use super::*;

/// Answers each call with the next text, and keeps the requests.
struct Scripted {
    answers: Vec<&'static str>,
    asked: Vec<Value>,
}

impl Scripted {
    fn new(answers: &[&'static str]) -> Self {
        let answers = answers.iter().rev().copied().collect();
        Self {
            answers,
            asked: Vec::new(),
        }
    }

    fn within(&mut self) -> Within<'_> {
        let place = SqlPlace::new("delayq", Namespace::new("shop").unwrap());
        Within {
            statement: place.statement(),
            place,
            tx: self,
        }
    }
}

impl SqlTransaction for Scripted {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        let function = if request.contains("\"settle\"") {
            "done_within_v1"
        } else {
            "within_v1"
        };
        assert_eq!(
            statement,
            format!("SELECT delayq.{function}($1::text) AS answer")
        );
        self.asked.push(serde_json::from_str(request)?);
        Ok(self.answers.pop().ok_or("it is gone")?.to_owned())
    }
}

fn task(job: DelayQueueJob) -> NewTask {
    let now = Timestamp::from_millis(1_800_000_000_000);
    job.into_task(&Limits::default(), now).unwrap()
}

fn mail() -> TaskType {
    TaskType::new("mail").unwrap()
}

fn id() -> TaskId {
    TaskId::new("m-1").unwrap()
}

#[tokio::test]
async fn a_task_is_written_with_all_that_it_has() {
    let mut tx = Scripted::new(&[
        r#"{"outcomes":[{"outcome":"accepted","due_ms":1800000060000,"state":null},
            {"outcome":"full","pending":9,"max_pending":8},{"outcome":"conflict","state":"running"}]}"#,
    ]);
    let full = DelayQueueJob::raw("mail", "hello")
        .id("m-1")
        .debounce(Duration::from_micros(1_500), minutes(2))
        .expires_after(minutes(1))
        .again_if_running()
        .header("a", "b");
    let mut bare = task(DelayQueueJob::raw("mail", vec![0xff]).id("m-2"));
    bare.when = When::At(Timestamp::ZERO);
    bare.expiry = Some(Expiry::At(Timestamp::from_millis(1_800_000_000_000)));
    let kept = task(DelayQueueJob::raw("mail", "\0").id("m-3").keep());
    let tasks = [task(full), bare, kept];
    let outcomes = tx.within().send(&tasks).await.unwrap();
    let due_at = Timestamp::from_millis(1_800_000_060_000);
    assert_eq!(
        outcomes[0],
        Ok(SubmitOutcome::Accepted {
            due_at,
            replaced: false
        })
    );
    assert!(matches!(
        outcomes[1],
        Err(Error::QueueFull {
            pending: 9,
            limit: 8,
            ..
        })
    ));
    assert!(matches!(outcomes[2], Ok(SubmitOutcome::Conflict { .. })));
    assert_eq!(
        tx.asked,
        [json!({"call": "send", "namespace": "shop", "tasks": [
            {"type": "mail", "id": "m-1", "delay_ms": 2, "message": "hello",
                "expires_after_ms": 60_000, "debounce_max_wait_ms": 120_000,
                "again_if_running": true, "headers": {"a": "b"}},
            {"type": "mail", "id": "m-2", "at_ms": 978_307_200_000_i64, "message_base64": "/w==",
                "expires_at_ms": 1_800_000_000_000_i64},
            {"type": "mail", "id": "m-3", "delay_ms": 0, "message_base64": "AA==",
                "on_conflict": "keep"},
        ]})]
    );
}

#[tokio::test]
async fn changes_are_written_and_answered() {
    let mut tx = Scripted::new(&[
        r#"{"outcomes":[{"outcome":"finished","state":"done"}]}"#,
        r#"{"outcomes":[{"outcome":"changed","due_ms":5000,"state":null}]}"#,
        r#"{"outcomes":[{"outcome":"not_found"}]}"#,
    ]);
    let (mail, id) = (mail(), id());
    let mut within = tx.within();
    let cancelled = within.cancel(&mail, &id).await.unwrap();
    assert!(matches!(cancelled, CancelOutcome::Finished(_)));
    let moved = within.reschedule(&mail, &id, When::After(seconds(1))).await;
    let due_at = Timestamp::from_millis(5_000);
    assert_eq!(moved.unwrap(), ChangeOutcome::Changed { due_at });
    let updated = within.update(&mail, &id, b"{}").await.unwrap();
    assert_eq!(updated, ChangeOutcome::NotFound);
    assert_eq!(
        tx.asked,
        [
            json!({"call": "cancel", "namespace": "shop", "type": "mail", "ids": ["m-1"]}),
            json!({"call": "reschedule", "namespace": "shop", "type": "mail", "ids": ["m-1"],
                "delay_ms": 1_000}),
            json!({"call": "update", "namespace": "shop", "type": "mail", "id": "m-1",
                "message": "{}"}),
        ]
    );
}

#[tokio::test]
async fn an_answer_of_another_release_is_told() {
    let (mail, id) = (mail(), id());
    for (answer, told) in [
        (r#"{"outcomes":[{"outcome":"new"}]}"#, "release: new;"),
        (r#"{"outcomes":[]}"#, "0 outcomes of 1"),
        ("[]", "invalid"),
    ] {
        let mut tx = Scripted::new(&[answer]);
        let error = tx.within().cancel(&mail, &id).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
    let error = Scripted::new(&[]).within().cancel(&mail, &id).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Transaction { .. }), "{error}");
    assert!(error.to_string().ends_with("rolled back: it is gone"));
}

#[test]
fn a_store_that_is_not_in_a_database_says_so() {
    let mut tx = Scripted::new(&[]);
    let refused = Within::new(&MemoryStore::default(), &mut tx);
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("is not in a SQL database"), "{refused}");
}
