//! What those wrote who knew the guide by heart only nearly, and what works all the same.

use std::fmt;
use std::sync::Arc;

use delayq_plugin::Json as J;
use delayq_plugin::{Component, Components, TaskError, TaskResult, task_worker};
use serde::{Deserialize, Serialize};

use crate::tools::{Seen, context, run, worker};

#[derive(Serialize, Deserialize)]
struct Order<'a> {
    name: &'a str,
}

#[task_worker(type = "argument.renamed-json")]
async fn renamed(J(order): J<Order<'_>>, seen: Component<Seen>) -> TaskResult {
    seen.push(order.name);
    Ok(())
}

pub(crate) trait Mailer: Send + Sync {
    fn name(&self) -> &'static str;
}

pub(crate) struct Smtp;

impl Mailer for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }
}

#[task_worker(type = "argument.dyn")]
async fn mail(mailer: Component<dyn Mailer>, number: Component<u32>) -> TaskResult {
    Err(TaskError::dead(format!("{} {}", mailer.name(), *number)))
}

mod types {
    pub(super) const CONSTANT: &str = "argument.constant";
}

#[task_worker(type = types::CONSTANT)]
async fn constant(message: &str, seen: Component<Seen>) -> TaskResult {
    seen.push(message);
    Ok(())
}

/// As that of the crate `anyhow`: no `std::error::Error`, but it boxes itself as one.
struct Anyhow(Box<dyn std::error::Error + Send + Sync>);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Anyhow {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl From<Anyhow> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: Anyhow) -> Self {
        error.0
    }
}

#[derive(Debug)]
struct InContext(std::num::ParseIntError);

impl fmt::Display for InContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no number of an order")
    }
}

impl std::error::Error for InContext {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn parse(message: &str) -> Result<u64, Anyhow> {
    Ok(message.parse().map_err(InContext)?)
}

#[task_worker(type = "argument.returns-anyhow")]
async fn returns_anyhow(message: &str) -> Result<(), Anyhow> {
    parse(message)?;
    Ok(())
}

#[task_worker(type = "argument.asks-anyhow")]
async fn asks_anyhow(message: &str) -> TaskResult {
    parse(message)?;
    Ok(())
}

#[task_worker(type = "argument.text-error")]
async fn text_error(message: &str) -> Result<(), String> {
    Err(format!("cannot {message}"))
}

/// An error of the application's own that says what is to be done.
struct Closed;

impl From<Closed> for TaskError {
    fn from(_: Closed) -> Self {
        Self::dead("closed")
    }
}

#[task_worker(type = "argument.own-conversion")]
async fn own_conversion() -> Result<(), Closed> {
    Err(Closed)
}

async fn failed(task_type: &str, message: &[u8]) -> String {
    match run(task_type, message).await {
        (Err(TaskError::Retry(text)), _) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn json_may_be_imported_by_another_name() {
    let message = br#"{"name":"Ada"}"#;
    assert_eq!(run("argument.renamed-json", message).await.1, ["Ada"]);
    assert!(renamed::job(&Order { name: "Ada" }).is_ok());
}

#[tokio::test]
async fn a_component_may_be_a_trait_object_or_come_in_an_arc() {
    let mut boxed = Components::default();
    boxed.insert_arc::<dyn Mailer>(Arc::new(Smtp));
    boxed.insert(7_u32);
    let mut shared = Components::default();
    shared.insert::<Arc<dyn Mailer>>(Arc::new(Smtp));
    shared.insert(Arc::new(7_u32));
    for components in [boxed, shared] {
        let worker = (worker("argument.dyn").build)(&components).unwrap();
        let result = worker.invoke_bytes(b"", &context()).await;
        assert!(
            matches!(&result, Err(TaskError::Dead(text)) if text == "smtp 7"),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn a_type_may_be_given_by_a_constant() {
    assert_eq!(constant::TASK_TYPE, types::CONSTANT);
    assert_eq!(run(types::CONSTANT, b"text").await.1, ["text"]);
    assert!(constant::job("text").is_ok());
}

#[tokio::test]
async fn an_error_that_boxes_itself_means_another_attempt_with_all_its_causes() {
    let text = "no number of an order: invalid digit found in string";
    assert_eq!(failed("argument.returns-anyhow", b"x").await, text);
    assert_eq!(failed("argument.asks-anyhow", b"x").await, text);
    assert!(matches!(
        run("argument.asks-anyhow", b"1").await,
        (Ok(()), _)
    ));
    assert_eq!(failed("argument.text-error", b"pay").await, "cannot pay");
    let own = run("argument.own-conversion", b"").await.0;
    assert!(matches!(own, Err(TaskError::Dead(_))), "{own:?}");
}
