//! Targets that are refused, or not called.

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

#[tokio::test]
async fn a_target_that_this_server_does_not_allow_is_not_called() {
    // Stored while it was allowed, and by a server that allows it.
    let store = memory();
    let (open, closed) = (
        Site::on(&store, &near()),
        Site::on(&store, &PushConfig::default()),
    );
    open.push.close(Duration::ZERO).await;
    let mut target = Receiver::open(Vec::new()).await;
    let wanted = json!({"http": {"url": target.url}, "retry": {"attempts": 1}});
    open.set("job", wanted).await;
    open.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let dead = closed.until("job", "1", TaskState::Dead).await;
    assert!(dead.history.last_error.unwrap().contains("push.allow_http"));
    assert!(target.got.try_recv().is_err());
    closed.push.close(Duration::ZERO).await;
}
