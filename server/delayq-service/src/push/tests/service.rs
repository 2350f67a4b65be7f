//! Calls of instances: those of the configuration, and those that announced themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use axum::http::Request;
use delayq_endpoint::Endpoint;
use delayq_plugin::store::{AttemptEnd, Bucket, SettleOutcome, Settlement};
use delayq_plugin::{
    Clock, DelayQueuePlugin, Lock, SystemClock, TaskContext, TaskError, TaskId, TaskResult,
    TaskWorker, async_trait,
};

use tower::ServiceExt;

use super::*;
use crate::discovery::ServiceConfig;

const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";

fn service(urls: &[&str]) -> ServiceConfig {
    let text = json!({"static": {"job": urls}, "secrets": [SECRET]});
    serde_json::from_value(text).unwrap()
}

fn site(urls: &[&str]) -> Site {
    Site::with(&memory(), &near(), &service(urls))
}

/// Waits until nobody took a task.
async fn until_given_back(site: &Site, id: &str) {
    loop {
        let task = site.tasks.find("job", id).await.unwrap().unwrap();
        if task.history.releases > 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// The fence of the next call.
async fn called(instance: &mut Receiver) -> u64 {
    instance
        .next()
        .await
        .header("delayq-fence")
        .parse()
        .unwrap()
}

/// A port where nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/work", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_next_instance_is_called_when_one_does_not_answer_and_the_call_is_signed() {
    let mut alive = Receiver::open(Vec::new()).await;
    let site = site(&[&nobody(), &alive.url]);
    for id in ["1", "2", "3", "4"] {
        site.send(DelayQueueJob::raw("job", "x").id(id)).await;
    }
    for _ in 0..4 {
        let got = alive.next().await;
        assert_eq!(got.header("delayq-attempt"), "1");
        let lock = format!("{}-1", got.header("delayq-fence"));
        assert_eq!(got.header("delayq-lock"), lock);
        let hook = Webhook::new(SECRET).unwrap();
        hook.verify(&got.body, &got.headers).unwrap();
    }
    for id in ["1", "2", "3", "4"] {
        let done = site.until("job", id, TaskState::Done).await;
        assert_eq!(done.attempt, 1, "no connection costs no attempt");
    }
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_task_waits_without_losing_an_attempt_until_an_instance_comes_and_is_left_when_it_goes() {
    let site = Site::with(&memory(), &near(), &ServiceConfig::default());
    let mut instance = Receiver::open(Vec::new()).await;
    site.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let types = || vec![TaskType::new("job").unwrap()];
    let outside = Announced::new(
        "https://10.0.0.1/".to_owned(),
        types(),
        Duration::from_secs(30),
    );
    let refused = site.push.announce("a", &outside).await.unwrap_err();
    assert!(refused.to_string().contains("service.allow_networks"));
    let dead = Announced::new(nobody(), types(), Duration::from_secs(30));
    site.push.announce("dead", &dead).await.unwrap();
    until_given_back(&site, "1").await;
    let url = instance.url.clone();
    let alive = Announced::new(url, types(), Duration::from_secs(30));
    site.push.announce("alive", &alive).await.unwrap();
    assert_eq!(instance.next().await.header("delayq-attempt"), "1");
    site.until("job", "1", TaskState::Done).await;
    let names: Vec<_> = site.push.callees().await.unwrap();
    assert_eq!(names.len(), 2);
    for name in ["dead", "alive"] {
        assert!(site.push.withdraw(name).await.unwrap());
    }
    assert!(!site.push.withdraw("alive").await.unwrap());
    // With nobody there its tasks are not even claimed.
    let wait = async {
        while !site.push.serving.lock().await.served.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    wait.await;
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_announcement_ends_with_its_lease() {
    let site = Site::with(&memory(), &near(), &ServiceConfig::default());
    let types = vec![TaskType::new("job").unwrap()];
    let short = Announced::new(nobody(), types, Duration::from_millis(300));
    site.push.announce("a", &short).await.unwrap();
    assert_eq!(site.push.board.announced_types().len(), 1);
    let wait = async {
        while !site.push.board.announced_types().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .expect("it ends");
    assert!(site.push.callees().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_answer_that_is_lost_costs_an_attempt_and_nobody_else_is_called_in_it() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/work", silent.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            held.push(connection);
        }
    });
    let mut alive = Receiver::open(Vec::new()).await;
    let site = site(&[&url, &alive.url]);
    let target = json!({
        "service": {}, "timeout": "1s", "retry": {"wait": 1, "is_fixed": true},
    });
    site.set("job", target).await;
    for id in ["1", "2"] {
        site.send(DelayQueueJob::raw("job", "x").id(id)).await;
    }
    let mut attempts: Vec<_> = [alive.next().await, alive.next().await]
        .iter()
        .map(|got| got.header("delayq-attempt").to_owned())
        .collect();
    attempts.sort();
    assert_eq!(attempts, ["1", "2"], "one of both met the silent one first");
    for id in ["1", "2"] {
        site.until("job", id, TaskState::Done).await;
    }
    accepting.abort();
    site.push.close(Duration::from_secs(5)).await;
}

/// Settles a task as an instance does by a request of its own.
async fn settle(site: &Site, id: &str, fence: u64, end: AttemptEnd) -> SettleOutcome {
    let id = TaskId::new(id).unwrap();
    let settlement = Settlement::new(Lock { id, fence }, end);
    let bucket = Bucket::whole(TaskType::new("job").unwrap());
    let outcomes = site.tasks.store().settle(&bucket, vec![settlement]).await;
    outcomes.unwrap()[0]
}

#[tokio::test]
async fn who_settles_after_the_time_for_it_has_lost_the_lock() {
    let later = (StatusCode::ACCEPTED, [("delayq-settle", "later")]).into_response();
    let mut instance = Receiver::open(vec![later]).await;
    let site = site(&[&instance.url]);
    let target = json!({
        "service": {"settle_within": "1s"}, "retry": {"wait": "20m", "is_fixed": true},
    });
    site.set("job", target).await;
    site.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let fence = called(&mut instance).await;
    let waits = site.until("job", "1", TaskState::Scheduled).await;
    assert_eq!(waits.history.failures, 1);
    let late = settle(&site, "1", fence, AttemptEnd::Done).await;
    assert_eq!(late, SettleOutcome::LockLost);
    let now = site.tasks.find("job", "1").await.unwrap();
    assert_eq!(now.unwrap().state, TaskState::Scheduled);
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_task_may_be_settled_later_by_its_lock_and_only_once() {
    let later = || (StatusCode::ACCEPTED, [("delayq-settle", "later")]).into_response();
    let mut instance = Receiver::open(vec![later(), later()]).await;
    let site = site(&[&instance.url]);
    let settle = async |id: &str, fence, end| settle(&site, id, fence, end).await;
    site.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let fence = called(&mut instance).await;
    let running = site.until("job", "1", TaskState::Running).await;
    assert_eq!(running.fence, Some(fence));
    let wrong = settle("1", fence - 1, AttemptEnd::Done).await;
    assert_eq!(wrong, SettleOutcome::LockLost);
    assert_eq!(
        settle("1", fence, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
    site.until("job", "1", TaskState::Done).await;
    // One that the instance fails is tried again after the wait that it gave, and not at once.
    site.send(DelayQueueJob::raw("job", "x").id("2")).await;
    let fence = called(&mut instance).await;
    let failed = AttemptEnd::Retry {
        after: Duration::from_hours(1),
        error: "no".to_owned(),
        succeeded: Vec::new(),
    };
    assert_eq!(settle("2", fence, failed).await, SettleOutcome::Settled);
    let done = settle("2", fence, AttemptEnd::Done).await;
    assert_eq!(done, SettleOutcome::LockLost);
    site.push.close(Duration::from_secs(5)).await;
    let task = site.tasks.find("job", "2").await.unwrap().unwrap();
    assert_eq!((task.state, task.attempt), (TaskState::Scheduled, 1));
    assert_eq!(task.history.last_error.as_deref(), Some("no"));
    assert_eq!(
        task.history.releases, 0,
        "what the server said after it changed nothing"
    );
}

/// Fails once, then replies what it was told.
struct Greeter(Arc<AtomicU32>);

#[async_trait]
impl TaskWorker for Greeter {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert!(cx.fence() > 0 && cx.header("tenant") == Some("acme"));
        if cx.attempt() == 1 {
            return Err(TaskError::retry_after(Duration::from_millis(1), "not yet"));
        }
        if message == "bad" {
            return Err(TaskError::dead("it is bad"));
        }
        Ok(cx.reply_bytes(message)?)
    }
}

/// An application with a greeter, and how often that ran.
async fn greeter() -> (Endpoint, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let builder = DelayQueuePlugin::builder()
        .without_registered_workers()
        .worker(
            "job",
            delayq_plugin::WorkerOptions::DEFAULT,
            Greeter(Arc::clone(&runs)),
        );
    let callee = Endpoint::of(builder).await.unwrap();
    (callee.secrets([SECRET]).unwrap(), runs)
}

#[tokio::test]
async fn the_workers_of_a_plugin_run_when_they_are_called() {
    let (callee, runs) = greeter().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = callee.router();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let site = site(&[&url]);
    let job = |id: &str, message: &str| {
        let job = DelayQueueJob::raw("job", message).id(id);
        job.header("tenant", "acme")
    };
    site.send(job("1", "hello")).await;
    site.send(job("2", "bad")).await;
    site.until("job", "1", TaskState::Done).await;
    let reply = site.tasks.wait_for_reply("job", "1", Duration::ZERO).await;
    let ReplyOutcome::Replied(reply) = reply.unwrap().outcome else {
        panic!("no reply");
    };
    assert_eq!(&reply.body[..], b"hello");
    let dead = site.until("job", "2", TaskState::Dead).await;
    let said = dead.history.last_error.unwrap();
    assert!(said.contains("it is bad"), "{said}");
    assert_eq!(runs.load(Ordering::Relaxed), 4);
    callee.shutdown(Duration::from_secs(5)).await;
    // It ends: its tasks wait for another instance.
    site.send(job("3", "hello")).await;
    until_given_back(&site, "3").await;
    site.push.close(Duration::from_secs(5)).await;
    serving.abort();
}

/// A call of a server, signed at `timestamp`.
fn signed(path: &str, task: &str, timestamp: i64, body: &str) -> Request<Body> {
    let id = format!("{task}/1795537806611");
    let hook = Webhook::new(SECRET).unwrap();
    let signature = hook.sign(&id, timestamp, body.as_bytes()).unwrap();
    Request::post(path)
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp.to_string())
        .header("webhook-signature", signature)
        .header("delayq-task-type", "job")
        .header("delayq-task-id", "1")
        .header("delayq-fence", "7")
        .header("delayq-attempt", "2")
        .header("delayq-header-tenant", "acme")
        .body(Body::from(body.to_owned()))
        .unwrap()
}

#[tokio::test]
async fn a_callee_runs_what_is_signed_and_serves_and_nothing_else() {
    let (callee, runs) = greeter().await;
    let ask = async |request: Request<Body>| {
        let response = callee.router().oneshot(request).await.unwrap();
        let outcome = response.headers().get("delayq-outcome").cloned();
        let outcome = outcome.map(|one| one.to_str().unwrap().to_owned());
        (response.status().as_u16(), outcome.unwrap_or_default())
    };
    let now = SystemClock.now().as_millis() / 1_000;
    let work = |task: &str, timestamp| signed("/delayq/work", task, timestamp, "hello");
    assert_eq!(ask(work("job/1", now)).await, (200, "done".to_owned()));
    let refused = (401, "refused".to_owned());
    assert_eq!(ask(work("job/1", now - 3_600)).await, refused, "it is old");
    assert_eq!(ask(work("job/2", now)).await, refused, "it is another task");
    let mut unsigned = work("job/1", now);
    unsigned.headers_mut().remove("webhook-signature");
    assert_eq!(ask(unsigned).await, refused);
    let spring = |task: &str, task_type: &str| {
        let body = json!({
            "taskId": "1", "taskType": task_type, "appName": "shop", "params": "hello",
        });
        signed("/hf/delay_queue/work", task, now, &body.to_string())
    };
    let done = (200, "done".to_owned());
    assert_eq!(ask(spring("job/1", "job")).await, done);
    assert_eq!(ask(spring("shop-job/1", "job")).await, done);
    let unserved = ask(spring("other/1", "other")).await;
    assert_eq!(unserved, (404, "refused".to_owned()));
    for another in ["job/2", "mail/1", "mail-job/1", "shopjob/1", "job"] {
        assert_eq!(ask(spring(another, "job")).await, refused, "{another}");
    }
    assert_eq!(
        ask(signed("/hf/delay_queue/work", "job/1", now, "{}"))
            .await
            .0,
        400
    );
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    callee.shutdown(Duration::from_secs(1)).await;
    assert_eq!(ask(work("job/1", now)).await, (503, "refused".to_owned()));
}
