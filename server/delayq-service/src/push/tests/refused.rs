//! Targets that are refused, or not called.

use axum::http::Method;

use super::*;

/// Targets, and what their refusal names.
fn refused_targets() -> Vec<(Value, &'static str)> {
    let url = "https://example.org/";
    vec![
        (json!({}), "exactly one"),
        (
            json!({"http": {"url": url}, "grpc": {"url": url, "service": "a", "method": "b"}}),
            "exactly one",
        ),
        (json!({"http": {"url": "https://10.0.0.1/"}}), "private"),
        (json!({"http": {"url": url, "method": "TRACE"}}), "method"),
        (
            json!({"http": {"url": url}, "retry": {"wait": "5m", "max_wait": "1m"}}),
            "retry.max_wait",
        ),
        // The first wait is a second where none is given.
        (
            json!({"http": {"url": url}, "retry": {"max_wait": 500}}),
            "retry.max_wait",
        ),
        (
            json!({"http": {"url": url, "headers": {"Host": "x"}}}),
            "Host",
        ),
        (
            json!({"http": {"url": url, "headers": {"webhook-id": "x"}}}),
            "webhook-id",
        ),
        (
            json!({"http": {"url": url, "headers": {"a b": "x"}}}),
            "a b",
        ),
        (
            json!({"http": {"url": url, "headers": {"a": "x\ny"}}}),
            "visible",
        ),
        (
            json!({"http": {"url": url, "secrets": ["whsec_c2hvcnQ="]}}),
            "secrets",
        ),
        (
            json!({"http": {"url": url, "secrets": ["***", "x"]}}),
            "secrets",
        ),
        (json!({"http": {"url": url, "color": "red"}}), "color"),
        (json!({"http": {"url": url}, "timeout": "31m"}), "timeout"),
        (json!({"http": {"url": url}, "timeout": "soon"}), "soon"),
        (
            json!({"http": {"url": url}, "concurrency": 0}),
            "concurrency",
        ),
        (json!({"http": {"url": url}, "rate": {"pushes": 0}}), "rate"),
        (
            json!({"http": {"url": url}, "retry": {"attempts": 0}}),
            "attempts",
        ),
        (
            json!({"grpc": {"url": url, "service": "a/b", "method": "c"}}),
            "service",
        ),
        (
            json!({"grpc": {"url": "https://example.org/x", "service": "a", "method": "c"}}),
            "no path",
        ),
        (
            json!({"kafka": {"cluster": "x", "topic": "t"}}),
            if cfg!(feature = "kafka") {
                "cluster"
            } else {
                "feature"
            },
        ),
    ]
}

#[tokio::test]
async fn a_target_that_cannot_be_is_refused() {
    let site = Site::open(&near());
    let refused = async |target: Value| {
        let target = serde_json::from_value(target).map_err(|error| error.to_string())?;
        let set = site
            .push
            .set(&TypePattern::new("job").unwrap(), target)
            .await;
        set.map(drop).map_err(|problem| problem.to_string())
    };
    for (target, word) in refused_targets() {
        let said = refused(target.clone()).await.unwrap_err();
        assert!(said.contains(word), "{target}: {said}");
    }
    site.push.close(Duration::ZERO).await;
}

/// The options of servers change one after the other: those that may push, and those that may not
/// yet.
#[tokio::test]
async fn tasks_wait_for_a_server_that_may_push_them_and_lose_no_attempt() {
    let store = memory();
    let closed = Site::on(&store, &PushConfig::default());
    // It stores targets, and runs later.
    let open = Site::on(&store, &near());
    open.push.close(Duration::ZERO).await;
    let mut target = Receiver::open(Vec::new()).await;
    let own = json!({"http": {"url": target.url, "method": "PUT"}, "retry": {"attempts": 1}});
    open.set(
        "job",
        json!({"http": {"url": target.url}, "retry": {"attempts": 1}}),
    )
    .await;
    let named = (&TaskType::new("own").unwrap(), &TaskId::new("2").unwrap());
    let own = own.to_string();
    let headers = open.push.headers_of_own(named, b"x", &own);
    let headers = headers.await.unwrap();
    closed.push.refresh().await.unwrap();
    let served: Vec<_> = closed.push.wanted().into_keys().collect();
    assert_eq!(served, [TypePattern::new("own").unwrap()]);
    open.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let job = DelayQueueJob::raw("own", "x").id("2");
    let job = headers
        .iter()
        .fold(job, |job, (name, value)| job.header(name, value));
    open.send(job).await;
    let given_back = async || {
        loop {
            let task = open.tasks.find("own", "2").await.unwrap().unwrap();
            assert_ne!(task.state, TaskState::Dead, "{task:?}");
            if task.history.releases > 0 && task.state == TaskState::Scheduled {
                return task.attempt;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(given_back().await, 0);
    assert!(target.got.try_recv().is_err());
    // Now one that may.
    let open = Site::on(&store, &near());
    let mut methods = [target.next().await.method, target.next().await.method];
    methods.sort_by_key(ToString::to_string);
    assert_eq!(methods, [Method::POST, Method::PUT]);
    for (task_type, id) in [("job", "1"), ("own", "2")] {
        let done = open.until(task_type, id, TaskState::Done).await;
        assert_eq!(done.history.failures, 0, "{done:?}");
    }
    closed.push.close(Duration::ZERO).await;
    open.push.close(Duration::from_secs(5)).await;
}
