//! The two forms, each argument of a function, what it returns, and the jobs it makes.

use std::num::ParseIntError;
use std::sync::Arc;

use delayq_core::NewTask;
use delayq_plugin::MissingComponent;
use delayq_plugin::{
    Component, Components, DelayQueueJob, Error, FromComponents, Json, Limits, TaskContext,
    TaskError, TaskResult, TaskWorker, Timestamp, task_worker,
};
use serde::{Deserialize, Serialize};

use crate::tools::{Seen, context, run, worker};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
}

#[task_worker(type = "form.json")]
async fn json(Json(order): Json<Order>, seen: Component<Seen>) -> TaskResult {
    seen.push(order.id);
    Ok(())
}

#[task_worker(type = "form.text")]
async fn text(seen: Component<Seen>, message: &str) -> TaskResult {
    seen.push(message);
    Ok(())
}

#[task_worker(type = "form.string")]
async fn string(message: String, seen: Component<Seen>) -> TaskResult {
    let seen: Arc<Seen> = Component::to_arc(&seen);
    seen.push(message);
    Ok(())
}

#[task_worker(type = "form.bytes")]
async fn bytes(message: &[u8], seen: Component<Seen>) -> TaskResult {
    seen.push(format!("{message:?}"));
    Ok(())
}

#[task_worker(type = "form.vec")]
async fn vec(mut message: Vec<u8>, seen: Component<Seen>) -> TaskResult {
    message.reverse();
    seen.push(format!("{message:?}"));
    Ok(())
}

#[task_worker(type = "form.nothing")]
async fn nothing() {}

#[task_worker(type = "form.context")]
async fn takes_context(cx: &TaskContext, owned: TaskContext, seen: Component<Seen>) {
    seen.push(format!("{} {} {}", cx.id(), cx.attempt(), owned.fence()));
}

#[task_worker(type = "form.everything")]
async fn everything(
    number: Component<u64>,
    cx: &delayq_plugin::TaskContext,
    seen: delayq_plugin::Component<Seen>,
    again: Component<u64>,
    Json(words): delayq_plugin::Json<Vec<(String, u8)>>,
) -> Result<(), TaskError> {
    seen.push(format!("{} {words:?} {}", *number + *again, cx.id()));
    Ok(())
}

/// What it is read from lives only as long as the attempt.
#[derive(Serialize, Deserialize)]
struct Borrowed<'a> {
    name: &'a str,
}

#[task_worker(type = "form.borrowed")]
async fn borrowed(Json(message): Json<Borrowed<'_>>, seen: Component<Seen>) -> TaskResult {
    seen.push(message.name);
    Ok(())
}

/// Only read by this program, so it cannot be written.
#[derive(Deserialize)]
struct OnlyRead {
    id: u64,
}

#[task_worker(type = "form.only-read")]
async fn only_read(Json(message): Json<OnlyRead>, seen: Component<Seen>) -> TaskResult {
    seen.push(message.id);
    Ok(())
}

#[task_worker(type = "form.blocking", blocking)]
fn blocks(message: &str, seen: Component<Seen>) {
    seen.push(message);
}

#[task_worker(type = "form.own-error")]
async fn own_error(message: &str) -> Result<(), ParseIntError> {
    message.parse::<u64>().map(|_| ())
}

#[task_worker(type = "form.pattern.*")]
async fn pattern(Json(order): Json<Order>, seen: Component<Seen>) -> TaskResult {
    seen.push(order.id);
    Ok(())
}

#[derive(Default)]
struct OnImpl;

#[task_worker(type = "form.impl")]
impl TaskWorker for OnImpl {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        Err(TaskError::retry(format!("{message} {}", cx.id())))
    }
}

#[derive(Default)]
struct Binary;

#[task_worker(type = "form.impl-bytes")]
impl TaskWorker for Binary {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], _cx: &TaskContext) -> TaskResult {
        Err(TaskError::retry(format!("{message:?}")))
    }
}

struct Built {
    seen: Component<Seen>,
    number: Arc<u64>,
}

impl FromComponents for Built {
    fn from_components(components: &Components) -> Result<Self, MissingComponent> {
        Ok(Self {
            seen: Component::from_components(components)?,
            number: components.get()?,
        })
    }
}

#[task_worker(type = "form.impl-components")]
impl TaskWorker for Built {
    async fn invoke(&self, message: &str, _cx: &TaskContext) -> TaskResult {
        self.seen.push(format!("{message} {}", self.number));
        Ok(())
    }
}

async fn seen(task_type: &str, message: impl AsRef<[u8]>) -> String {
    let (result, seen) = run(task_type, message.as_ref()).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(seen.len(), 1, "{seen:?}");
    seen.concat()
}

async fn dead(task_type: &str, message: impl AsRef<[u8]>) -> String {
    match run(task_type, message.as_ref()).await {
        (Err(TaskError::Dead(text)), seen) if seen.is_empty() => text,
        other => panic!("{other:?}"),
    }
}

async fn retry(task_type: &str, message: impl AsRef<[u8]>) -> String {
    match run(task_type, message.as_ref()).await {
        (Err(TaskError::Retry(text)), _) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_form_of_message_arrives_as_it_was_sent() {
    assert_eq!(seen("form.json", r#"{"id":42}"#).await, "42");
    assert_eq!(seen("form.text", "grün").await, "grün");
    assert_eq!(seen("form.string", "grün").await, "grün");
    assert_eq!(seen("form.bytes", [0, 255]).await, "[0, 255]");
    assert_eq!(seen("form.vec", [0, 255]).await, "[255, 0]");
    assert_eq!(seen("form.borrowed", r#"{"name":"Ada"}"#).await, "Ada");
    assert_eq!(seen("form.only-read", r#"{"id":1}"#).await, "1");
    assert_eq!(seen("form.blocking", "text").await, "text");
    assert_eq!(seen("form.pattern.*", r#"{"id":7}"#).await, "7");
    assert!(matches!(run("form.nothing", b"x").await, (Ok(()), _)));
}

#[tokio::test]
async fn arguments_stand_in_any_order() {
    assert_eq!(seen("form.context", "").await, "task-1 3 7");
    assert_eq!(
        seen("form.everything", r#"[["a", 1]]"#).await,
        r#"84 [("a", 1)] task-1"#
    );
}

#[tokio::test]
async fn a_message_that_does_not_read_is_dead_and_never_reaches_the_function() {
    let text = dead("form.json", r#"{"id":"x"}"#).await;
    assert!(
        text.contains("Order") && text.contains("line 1 column 9"),
        "{text}"
    );
    for task_type in ["form.text", "form.string"] {
        let text = dead(task_type, [255]).await;
        assert!(text.contains("UTF-8"), "{text}");
    }
    let text = dead("form.impl", [255]).await;
    assert!(text.contains("UTF-8"), "{text}");
}

#[tokio::test]
async fn an_error_that_a_function_returns_means_another_attempt() {
    assert_eq!(
        retry("form.own-error", "x").await,
        "invalid digit found in string"
    );
    assert!(matches!(run("form.own-error", b"1").await, (Ok(()), _)));
}

#[tokio::test]
async fn an_impl_is_invoked_with_text_or_with_bytes() {
    assert_eq!(retry("form.impl", "grün").await, "grün task-1");
    assert_eq!(retry("form.impl-bytes", [0, 255]).await, "[0, 255]");
    assert_eq!(seen("form.impl-components", "text").await, "text 42");
}

#[test]
fn a_worker_that_blocks_is_told_to_the_plugin() {
    assert!(worker("form.blocking").options.blocking);
    assert!(!worker("form.text").options.blocking);
}

#[test]
fn a_missing_component_is_named_when_the_worker_is_built() {
    for task_type in ["form.everything", "form.impl-components"] {
        let mut components = Components::default();
        components.insert(Seen::default());
        let Err(error) = (worker(task_type).build)(&components) else {
            panic!("{task_type} was built without its number");
        };
        assert_eq!(error.type_name, "u64", "{task_type}");
    }
}

#[tokio::test]
async fn a_function_stays_callable_as_it_was_written() {
    let seen = Component::new(Arc::new(Seen::default()));
    assert!(text(seen, "a").await.is_ok());
    blocks("a", Component::new(Arc::default()));
    nothing().await;
    takes_context(&context(), context(), Component::new(Arc::default())).await;
}

fn task(job: delayq_plugin::Result<DelayQueueJob>) -> NewTask {
    job.and_then(|job| job.into_task(&Limits::default(), Timestamp::ZERO))
        .expect("a job of a valid type and message")
}

#[tokio::test]
async fn a_job_of_a_function_is_one_that_it_can_run() {
    let jobs = [
        (task(json::job(&Order { id: 42 })), "42"),
        (task(text::job("grün")), "grün"),
        (task(string::job("grün")), "grün"),
        (task(bytes::job(&[0, 255])), "[0, 255]"),
        (task(vec::job(&[0, 255])), "[255, 0]"),
        (task(borrowed::job(&Borrowed { name: "Ada" })), "Ada"),
    ];
    for (task, expected) in jobs {
        assert_eq!(seen(task.task_type.as_str(), &task.message).await, expected);
    }
    assert_eq!(task(nothing::job()).task_type.as_str(), nothing::TASK_TYPE);
    assert_eq!(nothing::TASK_TYPE, "form.nothing");
}

#[test]
fn a_job_for_a_pattern_is_of_a_type_that_the_function_serves() {
    let order = Order { id: 42 };
    let job = task(pattern::job("form.pattern.daily", &order));
    assert_eq!(job.task_type.as_str(), "form.pattern.daily");
    assert_eq!(job.message, br#"{"id":42}"#);
    let error = pattern::job("form.other", &order).unwrap_err();
    assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
}
