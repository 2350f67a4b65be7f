//! One call of the API.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use delayq_service::body::problem_of;
use delayq_service::context::Context;
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use serde_json::json;
use serde_json::value::RawValue;

use super::consumer::Consumer;
use super::engine::{DeadLetters, Engine};
use super::figures::labels;
use super::job::{Appetite, Job, NewJob};
use super::names::{QueueName, TokenKey, age_ms};
use super::state::Lmstfy;
use super::wire::{Operation, Params, Refused, answer, bad, empty, failed, refused, unread};

/// The largest job, in bytes.
pub(super) const MAX_JOB_BYTES: usize = 1 << 20;
/// The largest number of jobs in one request.
const MAX_JOBS: usize = 64;
/// The largest request with several jobs, in bytes.
const MAX_BULK_BYTES: usize = (MAX_JOB_BYTES + 1_024) * MAX_JOBS;
/// How much more of an oversized body is read, in bytes, so that its sender gets the answer.
const SPARE_BYTES: usize = 8 << 20;
/// The largest number of queues that a consumer may wait for.
const MAX_QUEUES: usize = 1_000;
/// The largest number of attributes of a job, and the longest name and value, in bytes.
const MAX_ATTRIBUTES: usize = 16;
const MAX_ATTRIBUTE_NAME: usize = 32;
const MAX_ATTRIBUTE_VALUE: usize = 128;

/// One call about a queue in a pool.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) front: &'a Lmstfy,
    pub(super) context: Context,
    pub(super) engine: Engine,
    pub(super) pool_name: &'a str,
    pub(super) key: &'a TokenKey,
    pub(super) queue: QueueName,
    pub(super) params: Params,
}

impl Call<'_> {
    /// Runs the call.
    pub(super) async fn run(
        &self,
        operation: Operation,
        request: Request,
    ) -> Result<Response, Refused> {
        let path = percent_decode_str(request.uri().path()).decode_utf8_lossy();
        let id = path.rsplit('/').next().unwrap_or_default().to_owned();
        let (engine, queue) = (&self.engine, &self.queue);
        match operation {
            Operation::Publish => self.publish(request).await,
            Operation::Republish => self.republish(request, &id).await,
            Operation::PublishAll => self.publish_all(request).await,
            Operation::Consume => self.consume().await,
            Operation::Peek => {
                let found = engine.peek(queue).await.map_err(|error| failed(&error))?;
                let none = || refused(StatusCode::NOT_FOUND, "the queue is empty");
                let info = found.ok_or_else(none)?;
                let job = Job::seen(queue, &info, engine.now()).with_tries(&info);
                Ok(answer(StatusCode::OK, &job))
            }
            Operation::Job => {
                let found = engine
                    .find(queue, &id)
                    .await
                    .map_err(|error| failed(&error))?;
                let none = || refused(StatusCode::NOT_FOUND, "job not found");
                let job = Job::seen(queue, &found.ok_or_else(none)?, engine.now());
                Ok(answer(StatusCode::OK, &job))
            }
            Operation::Delete => {
                engine
                    .delete(queue, &id)
                    .await
                    .map_err(|error| failed(&error))?;
                let age = age_ms(&id, engine.now());
                self.age("redis_job_ack_elapsed_ms", queue, age);
                self.count("redis_pool_delete_jobs", 1);
                Ok(empty(StatusCode::NO_CONTENT))
            }
            Operation::Size => {
                let size = engine.size(queue).await.map_err(|error| failed(&error))?;
                Ok(self.size(size))
            }
            Operation::Destroy => {
                let is_all = self.front.app.config.lmstfy.destroy_all;
                let destroyed = engine.destroy(queue, is_all).await;
                destroyed.map_err(|error| failed(&error))?;
                self.record("destroy", None).await;
                Ok(empty(StatusCode::NO_CONTENT))
            }
            Operation::DeadSize => {
                let size = self
                    .dead_letters()
                    .size()
                    .await
                    .map_err(|error| failed(&error))?;
                Ok(self.size(size))
            }
            Operation::Dead => self.dead().await,
            Operation::Respawn => self.respawn().await,
            Operation::DeleteDead => {
                let deleted = self.dead_letters().delete(self.params.limit()?).await;
                let deleted = deleted.map_err(|error| failed(&error))?;
                self.record("discard", Some(deleted)).await;
                Ok(empty(StatusCode::NO_CONTENT))
            }
        }
    }

    /// Writes an entry to the log of actions, under the name of the token.
    async fn record(&self, verb: &str, count: Option<usize>) {
        let operator = self.context.operator();
        let queue = format!("{}/{}", self.queue.namespace, self.queue.queue);
        let mut action = operator.action(verb, &queue);
        action.count = count.map(|count| count as u64);
        operator.record(&action).await;
    }

    fn size(&self, size: u64) -> Response {
        let QueueName { namespace, queue } = &self.queue;
        let body = json!({"namespace": namespace, "queue": queue, "size": size});
        answer(StatusCode::OK, &body)
    }

    fn count(&self, name: &'static str, many: u64) {
        let of = labels(&[("pool", self.pool_name)]);
        self.front.figures.add(name, of, many);
    }

    fn count_of(&self, name: &'static str, queue: &QueueName, many: u64) {
        self.front.figures.add(name, self.labels(queue), many);
    }

    #[allow(clippy::cast_precision_loss, reason = "milliseconds of an age")]
    fn age(&self, name: &'static str, queue: &QueueName, ms: i64) {
        self.front.figures.age(name, self.labels(queue), ms as f64);
    }

    fn labels(&self, queue: &QueueName) -> String {
        labels(&[
            ("pool", self.pool_name),
            ("namespace", &queue.namespace),
            ("queue", &queue.queue),
        ])
    }

    async fn publish(&self, request: Request) -> Result<Response, Refused> {
        let mut new = self.params.new_job()?;
        let (parts, body) = request.into_parts();
        let body = self.body(body, MAX_JOB_BYTES).await?;
        let body = body.ok_or_else(|| too_large("body too large"))?;
        let attributes = attributes(&parts.headers)?;
        let has_version = attributes.is_some();
        new.attributes = attributes.unwrap_or_default();
        let id = self.front.ids.next(has_version);
        self.send(&new, vec![(id.clone(), body)]).await?;
        let body = json!({"job_id": id, "msg": "published"});
        Ok(answer(StatusCode::CREATED, &body))
    }

    /// Publishes the new job first, so that the old one remains if this is refused or interrupted.
    /// As in the original, unreadable parameters delete the old job nevertheless.
    async fn republish(&self, request: Request, id: &str) -> Result<Response, Refused> {
        let is_understood = self.params.new_job().is_ok();
        let published = self.publish(request).await;
        if published.is_ok() || !is_understood {
            let deleted = self.engine.delete(&self.queue, id).await;
            deleted.map_err(|error| failed(&error))?;
        }
        published
    }

    async fn publish_all(&self, request: Request) -> Result<Response, Refused> {
        let mut new = self.params.new_job()?;
        let (parts, body) = request.into_parts();
        let body = self.body(body, MAX_BULK_BYTES).await?;
        let body = body.ok_or_else(|| too_large("body too large"))?;
        let jobs = read_jobs(&body)?;
        let attributes = attributes(&parts.headers)?;
        let has_version = attributes.is_some();
        new.attributes = attributes.unwrap_or_default();
        let jobs: Vec<_> = jobs
            .into_iter()
            .map(|job| (self.front.ids.next(has_version), job))
            .collect();
        let ids: Vec<_> = jobs.iter().map(|(id, _)| id.clone()).collect();
        self.send(&new, jobs).await?;
        let body = json!({"job_ids": ids, "msg": "published"});
        Ok(answer(StatusCode::CREATED, &body))
    }

    async fn send(&self, new: &NewJob, jobs: Vec<(String, Vec<u8>)>) -> Result<(), Refused> {
        let many = jobs.len() as u64;
        self.front.remember(self.pool_name, &self.queue).await;
        let sent = self.engine.publish(&self.context, &self.queue, new, jobs);
        sent.await.map_err(|problem| match problem.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large("body too large"),
            StatusCode::TOO_MANY_REQUESTS => {
                tracing::info!(%problem, "new jobs are refused");
                refused(StatusCode::TOO_MANY_REQUESTS, "too many jobs are waiting")
            }
            _ => failed(&problem),
        })?;
        self.count("redis_publish_jobs", many);
        self.count("redis_pool_add_jobs", many);
        self.count_of("redis_publish_queue_jobs", &self.queue, many);
        let way = if new.delay.is_zero() {
            "redis_queue_direct_push_jobs"
        } else {
            "redis_timer_add_jobs"
        };
        self.count(way, many);
        Ok(())
    }

    async fn consume(&self) -> Result<Response, Refused> {
        let appetite = Appetite {
            ttr: self.params.ttr()?,
            is_frozen: self.params.is_frozen(),
            count: 1,
        };
        let timeout = self.params.timeout()?;
        let count = self.params.count()?;
        let mut queues: Vec<QueueName> = Vec::new();
        for name in self.queue.queue.split(',').filter(|name| !name.is_empty()) {
            let queue = QueueName::new(&self.queue.namespace, name);
            if !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        if queues.is_empty() || queues.len() > MAX_QUEUES {
            return Err(bad("invalid queue name(s)"));
        }
        let appetite = Appetite { count, ..appetite };
        let consumer = Consumer {
            engine: &self.engine,
            queues: &queues,
            appetite,
            stopping: &self.front.app.stopping,
        };
        let taken = consumer.take(timeout).await;
        let taken = taken.map_err(|error| failed(&error))?;
        // The token may have been deleted meanwhile. Dropping the jobs releases them.
        self.front.check_token(self.key).await?;
        let jobs = consumer.hand_out(taken).await;
        let jobs = jobs.map_err(|error| failed(&error))?;
        for job in &jobs {
            self.consumed(job);
        }
        let Some(first) = jobs.first() else {
            let body = json!({"msg": "no job available"});
            return Ok(answer(StatusCode::NOT_FOUND, &body));
        };
        if count == 1 {
            return Ok(answer(StatusCode::OK, first));
        }
        Ok(answer(StatusCode::OK, &jobs))
    }

    fn consumed(&self, job: &Job) {
        let queue = QueueName::new(&self.queue.namespace, &job.queue);
        for name in [
            "redis_consume_multi_jobs",
            "redis_queue_pop_jobs",
            "redis_pool_get_jobs",
        ] {
            self.count(name, 1);
        }
        self.count_of("redis_consume_queue_jobs", &queue, 1);
        self.age("redis_job_elapsed_ms", &queue, job.elapsed_ms);
        if job.was_timed {
            self.count("redis_timer_due_jobs", 1);
        }
    }

    fn dead_letters(&self) -> DeadLetters<'_> {
        DeadLetters {
            engine: &self.engine,
            queue: &self.queue,
        }
    }

    async fn dead(&self) -> Result<Response, Refused> {
        let size = self.dead_letters().size().await;
        let size = size.map_err(|error| failed(&error))?;
        let head = self.dead_letters().head().await;
        let head = head.map_err(|error| failed(&error))?;
        let QueueName { namespace, queue } = &self.queue;
        let body = json!({
            "namespace": namespace,
            "queue": queue,
            "deadletter_size": size,
            "deadletter_head": head.unwrap_or_default(),
        });
        Ok(answer(StatusCode::OK, &body))
    }

    async fn respawn(&self) -> Result<Response, Refused> {
        let limit = self.params.limit()?;
        let ttl = self.params.respawn_ttl()?;
        let respawned = self.dead_letters().respawn(limit, ttl).await;
        let count = respawned.map_err(|error| failed(&error))?;
        self.count("redis_deadletter_respawn_jobs", count as u64);
        self.record("requeue", Some(count)).await;
        let body = json!({"count": count, "msg": "respawned"});
        Ok(answer(StatusCode::OK, &body))
    }

    /// The body, or `None` if it has more than `most` bytes.
    async fn body(&self, body: Body, most: usize) -> Result<Option<Vec<u8>>, Refused> {
        let patience = self.front.app.config.connections.body_timeout();
        let read = tokio::time::timeout(patience, read(body, most)).await;
        read.unwrap_or_else(|_| Err(bad("failed to read body")))
    }
}

async fn read(body: Body, most: usize) -> Result<Option<Vec<u8>>, Refused> {
    let mut parts = body.into_data_stream();
    let (mut bytes, mut count) = (Vec::new(), 0);
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| match problem_of(&error) {
            Some(problem) => unread(&problem),
            None => bad("failed to read body"),
        })?;
        count += part.len();
        if count <= most {
            bytes.extend_from_slice(&part);
        } else if count > most + SPARE_BYTES {
            return Ok(None);
        }
    }
    Ok((count <= most).then_some(bytes))
}

/// The messages of several jobs, each as its JSON text.
pub(super) fn read_jobs(body: &[u8]) -> Result<Vec<Vec<u8>>, Refused> {
    let jobs: Option<Vec<&RawValue>> = serde_json::from_slice(body)
        .map_err(|_| bad("request body should be an array of objects"))?;
    let jobs = jobs.unwrap_or_default();
    if jobs.is_empty() {
        return Err(bad("no jobs"));
    }
    if jobs.len() > MAX_JOBS {
        return Err(bad("too many jobs"));
    }
    if jobs.iter().any(|job| job.get().len() > MAX_JOB_BYTES) {
        return Err(too_large("job too large"));
    }
    let message = |job: &RawValue| job.get().as_bytes().to_vec();
    Ok(jobs.into_iter().map(message).collect())
}

fn too_large(error: &str) -> Refused {
    refused(StatusCode::PAYLOAD_TOO_LARGE, error)
}

/// The attributes of a new job; `None` if the job has none.
pub(super) fn attributes(headers: &HeaderMap) -> Result<Option<BTreeMap<String, String>>, Refused> {
    let wanted = headers.get("enable-job-version");
    if !wanted.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"yes")) {
        return Ok(None);
    }
    let mut attributes = BTreeMap::new();
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix("job-attr-") else {
            continue;
        };
        let value = headers.get(name).map(HeaderValue::as_bytes);
        let value = String::from_utf8_lossy(value.unwrap_or_default());
        if value.is_empty() {
            continue;
        }
        attributes.insert(
            cut(key, MAX_ATTRIBUTE_NAME),
            cut(&value, MAX_ATTRIBUTE_VALUE),
        );
    }
    if attributes.len() > MAX_ATTRIBUTES {
        return Err(bad("too many attributes, cannot exceed 16"));
    }
    Ok(Some(attributes))
}

fn cut(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    // A header cannot end with a blank.
    text.get(..end).unwrap_or(text).trim_end().to_owned()
}
