//! The calls: each is one of the service.

use delayq_plugin::{
    Batch, CancelOutcome, ChangeOutcome, DelayQueueJob, Error, Receipt, ReplyOutcome, Result,
    TaskReply, TaskState, TaskSubmitService, Timestamp, When,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::Host;
use crate::job::{JobLine, span};
use crate::says::problem;

/// A line of the standard input.
#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    n: u64,
    #[serde(rename = "do")]
    pub(crate) verb: String,
    #[serde(flatten)]
    line: Value,
}

impl Call {
    /// Does it, and makes the line that answers.
    pub(crate) async fn run(&self, host: &Host) -> Value {
        match self.answer(host).await {
            Ok(value) => json!({"n": self.n, "ok": value}),
            Err(error) => json!({"n": self.n, "error": problem(&error)}),
        }
    }

    async fn answer(&self, host: &Host) -> Result<Value> {
        match self.verb.as_str() {
            "app" => {
                host.make(&self.line).await?;
                return Ok(json!({}));
            }
            "work" => {
                host.work(&self.line).await?;
                return Ok(json!({}));
            }
            "stop" => {
                host.stop().await;
                return Ok(json!({}));
            }
            _ => {}
        }
        let tasks = host.tasks().await?;
        let (task_type, id) = (self.text("type"), self.text("id"));
        match self.verb.as_str() {
            "send" => self.send(&tasks).await,
            "send_many" => self.send_many(&tasks).await,
            "cancel" => Ok(cancelled(tasks.cancel(task_type, id).await?)),
            "run_now" => Ok(changed(tasks.run_now(task_type, id).await?)),
            "find" => Ok(json!(tasks.find(task_type, id).await?)),
            "reply" => {
                let wait = span(self.text("wait"))?;
                Ok(body(&tasks.wait_for_reply(task_type, id, wait).await?))
            }
            "reschedule" => {
                let when = match self.line.get("at").and_then(Value::as_i64) {
                    Some(at) => When::At(Timestamp::from_millis(at)),
                    None => When::After(span(self.text("after"))?),
                };
                Ok(changed(tasks.reschedule(task_type, id, when).await?))
            }
            "update" => Ok(changed(
                tasks.update(task_type, id, self.part("message")).await?,
            )),
            "batch" => self.batch(&tasks).await,
            "batch_state" => Ok(json!(tasks.batch(self.text("name")).await?)),
            "batch_cancel" => {
                let report = tasks.cancel_batch(self.text("name")).await?;
                Ok(json!({"outcome": if report.is_some() { "cancelled" } else { "not_found" }}))
            }
            other => Err(Error::invalid("line", format!("the driver has no {other}"))),
        }
    }

    fn text(&self, name: &str) -> &str {
        self.part(name).as_str().unwrap_or_default()
    }

    fn part(&self, name: &str) -> &Value {
        self.line.get(name).unwrap_or(&Value::Null)
    }

    async fn send(&self, tasks: &TaskSubmitService) -> Result<Value> {
        let line = JobLine::read(&self.line)?;
        let job = line.job()?;
        let task_type = job.task_type().to_owned();
        let receipt = tasks.send(job).await?;
        let mut answer = json!(receipt);
        if let Some(wait) = &line.wait {
            let reply = tasks.wait_for_reply(&task_type, receipt.id.as_str(), span(wait)?);
            let reply = reply.await?;
            if let Some(parts) = answer.as_object_mut() {
                parts.insert("reply".to_owned(), body(&reply));
                if matches!(reply.outcome, ReplyOutcome::Dead { .. }) {
                    parts.insert("state".to_owned(), json!(TaskState::Dead));
                }
            }
        }
        Ok(answer)
    }

    async fn send_many(&self, tasks: &TaskSubmitService) -> Result<Value> {
        let jobs = jobs(self.part("items"))?;
        let answers = tasks.send_all(jobs).await;
        let shown = |answer: Result<Receipt>| match answer {
            Ok(receipt) => json!(receipt),
            Err(error) => json!({"error": problem(&error)}),
        };
        Ok(answers.into_iter().map(shown).collect())
    }

    async fn batch(&self, tasks: &TaskSubmitService) -> Result<Value> {
        let then = JobLine::read(self.part("then"))?.job()?;
        let batch = Batch::new(self.text("name"))
            .jobs(jobs(self.part("tasks"))?)
            .then(then);
        let receipt = tasks.send_batch(batch).await?;
        Ok(json!({"name": receipt.name, "then_id": receipt.completion_id}))
    }
}

fn jobs(items: &Value) -> Result<Vec<DelayQueueJob>> {
    let items = items.as_array().into_iter().flatten();
    items.map(|item| JobLine::read(item)?.job()).collect()
}

/// The reply as JSON; null if there is none.
fn body(reply: &TaskReply) -> Value {
    let parsed = reply.body().map(serde_json::from_slice);
    parsed.and_then(serde_json::Result::ok).unwrap_or_default()
}

fn cancelled(outcome: CancelOutcome) -> Value {
    let text = match outcome {
        CancelOutcome::Cancelled | CancelOutcome::Finished(TaskState::Cancelled) => "cancelled",
        CancelOutcome::Running => "running",
        CancelOutcome::Finished(_) => "finished",
        _ => "not_found",
    };
    json!({"outcome": text})
}

fn changed(outcome: ChangeOutcome) -> Value {
    match outcome {
        ChangeOutcome::Changed { due_at } => json!({"outcome": "changed", "due_at": due_at}),
        ChangeOutcome::Running => json!({"outcome": "running"}),
        ChangeOutcome::Finished(_) => json!({"outcome": "finished"}),
        _ => json!({"outcome": "not_found"}),
    }
}
