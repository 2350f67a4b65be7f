//! Messages of other versions, and types by former names: what a rolling deploy meets.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use delayq_plugin::{
    Component, DelayQueueJob, Json, TaskContext, TaskResult, TaskWorker, Versioned, WorkerOptions,
    task_worker,
};
use delayq_testing::{TestQueue, assert_dead, assert_done, assert_scheduled};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// The messages that workers got.
type Got = Arc<Mutex<Vec<String>>>;

/// Version 2. Version 1 was the number alone; version 0 never was.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    number: u32,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    price: u64,
}

fn from_older(version: u32, message: Value) -> Result<Value, String> {
    match message {
        Value::Number(number) => Ok(json!({ "number": number, "lines": [] })),
        _ => Err(format!("version {version} is a number")),
    }
}

#[task_worker(
    type = "order.cancel", version = 2, upcast = from_older, alias = ["order.stop", "order.end"]
)]
async fn cancel(Json(order): Json<Order>, got: Component<Got>) -> TaskResult {
    got.lock().expect("it works").push(format!(
        "{} with {} lines",
        order.number,
        order.lines.len()
    ));
    Ok(())
}

#[derive(Default)]
struct Print;

#[task_worker(type = "order.print", version = 3, upcast = print::from_older)]
impl TaskWorker for Print {
    async fn invoke(&self, message: &str, _cx: &TaskContext) -> TaskResult {
        if message == "\"3\"" {
            Ok(())
        } else {
            Err("not upcast".into())
        }
    }
}

mod print {
    use serde_json::Value;

    pub(super) fn from_older(version: u32, _: Value) -> Result<Value, std::num::TryFromIntError> {
        Ok(Value::String((u8::try_from(version)? + 1).to_string()))
    }
}

async fn queue(got: &Got) -> TestQueue {
    let got = Arc::clone(got);
    TestQueue::start(|builder| builder.component(got))
        .await
        .expect("it works")
}

#[tokio::test]
async fn older_messages_are_brought_up_and_the_sender_says_which_it_sends() -> TestResult {
    let got = Got::default();
    let queue = queue(&got).await;
    let order = Order {
        number: 2,
        lines: vec![Line { price: 5 }],
    };
    let new = cancel::job(&order)?.id("new");
    queue.send(new.after("1m")).await?;
    let sent = queue.scheduled("order.cancel").await.remove(0);
    assert_eq!(sent.headers["delayq-version"], "2");
    queue
        .send(DelayQueueJob::new("order.cancel", &1)?.id("old"))
        .await?;
    queue
        .send(DelayQueueJob::new("order.cancel", "x")?.id("bad"))
        .await?;
    queue
        .send(
            DelayQueueJob::new("order.print", "x")?
                .version(2)
                .id("print"),
        )
        .await?;
    queue.advance("1m").await;
    assert_eq!(*got.lock().unwrap(), ["1 with 0 lines", "2 with 1 lines"]);
    assert_dead!(
        queue,
        "order.cancel",
        "bad",
        contains = "upcast: version 1 is a number"
    );
    assert_done!(queue, "order.print", "print");
    Ok(())
}

#[tokio::test]
async fn a_type_is_served_by_its_former_names_too() -> TestResult {
    let got = Got::default();
    let queue = queue(&got).await;
    for task_type in ["order.stop", "order.end", "order.cancel"] {
        queue
            .send(DelayQueueJob::new(task_type, &7)?.id("a"))
            .await?;
    }
    queue.run_due().await;
    assert_eq!(got.lock().unwrap().len(), 3);
    assert_done!(queue, "order.stop", "a");
    Ok(())
}

/// Notes which release ran a task.
struct Release(&'static str, Got);

#[async_trait]
impl TaskWorker for Release {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        self.1
            .lock()
            .expect("no test panics with it")
            .push(self.0.to_owned());
        Ok(())
    }
}

#[tokio::test]
async fn a_newer_message_waits_for_a_newer_instance_and_is_dead_in_the_end() -> TestResult {
    let got = Got::default();
    let old = Versioned::new(Release("old", Arc::clone(&got)), 1);
    let options = WorkerOptions::DEFAULT;
    let queue = TestQueue::start(|builder| {
        builder
            .without_registered_workers()
            .worker("job", options, old)
    });
    let queue = queue.await?;
    let job = |id: &str| DelayQueueJob::raw("job", "x").id(id);
    queue.send(job("a").version(2)).await?;
    queue.send(job("b")).await?;
    queue.run_due().await;
    let waiting = assert_scheduled!(queue, "job", "a", after = "1m");
    let said = waiting.history.last_error.unwrap();
    assert_eq!(said, "message of version 2, the worker knows up to 1");
    assert_eq!(*got.lock().unwrap(), ["old"]);

    // The next release joins on the same store, and the old one goes.
    let new = Versioned::new(Release("new", Arc::clone(&got)), 2);
    let builder = delayq_plugin::DelayQueuePlugin::builder()
        .without_registered_workers()
        .store(Arc::clone(queue.tasks().store()))
        .clock(Arc::new(queue.clock().clone()))
        .on_application_runtime();
    let next = builder.worker("job", options, new).start().await?;
    queue.plugin().shutdown(delayq_plugin::seconds(0)).await;
    queue.clock().advance(delayq_plugin::minutes(1));
    next.until_idle().await;
    assert_done!(queue, "job", "a");
    assert_eq!(*got.lock().unwrap(), ["old", "new"]);

    queue.send(job("c").version(3)).await?;
    for _ in 0..5 {
        next.until_idle().await;
        queue.clock().advance(delayq_plugin::minutes(1));
    }
    assert_dead!(queue, "job", "c", contains = "message of version 3");
    Ok(())
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_dead_with_the_place_and_no_value() -> TestResult {
    let queue = queue(&Got::default()).await;
    let message = json!({ "number": 1, "lines": [{ "price": 5 }, { "price": "hunter2" }] });
    queue
        .send(
            DelayQueueJob::new("order.cancel", &message)?
                .version(2)
                .id("a"),
        )
        .await?;
    queue.run_due().await;
    let place = "in JSON: lines[1].price: invalid type: string, expected u64 at line 1 column ";
    let dead = assert_dead!(queue, "order.cancel", "a", contains = place);
    assert!(!dead.history.last_error.unwrap().contains("hunter2"));
    Ok(())
}
