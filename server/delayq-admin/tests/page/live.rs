//! The stream of a page, and what it costs the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use delayq_admin::Admin;
use delayq_plugin::{SystemClock, TaskSubmitService};
use delayq_testing::{Fault, FaultyStore};
use futures_util::StreamExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::shop::{Shop, get};

async fn stream(page: &Router, path: &str) -> BodyDataStream {
    let request = Request::get(path).header("accept", "text/event-stream");
    let request = request.body(Body::empty()).unwrap();
    let reply = page.clone().oneshot(request).await.unwrap();
    assert_eq!(reply.headers()["content-type"], "text/event-stream");
    reply.into_body().into_data_stream()
}

async fn event(stream: &mut BodyDataStream) -> Value {
    let bytes = stream.next().await.unwrap().unwrap();
    let text = str::from_utf8(&bytes).unwrap();
    serde_json::from_str(text.trim().strip_prefix("data: ").unwrap()).unwrap()
}

/// Lets the stream come to its wait, then passes the time.
async fn pass(shop: &Shop, stream: &mut BodyDataStream, time: Duration) -> Value {
    let next = event(stream);
    tokio::pin!(next);
    for _ in 0..20 {
        tokio::task::yield_now().await;
        tokio::select! { biased; event = &mut next => return event, () = std::future::ready(()) => {} }
    }
    shop.clock.advance(time);
    next.await
}

#[tokio::test]
async fn a_stream_has_the_page_and_then_what_changes() {
    let shop = Shop::busy().await;
    let page = Admin::new(shop.tasks.clone()).router();
    let mut stream = stream(&page, "/tasks?type=mail.send").await;
    let first = event(&mut stream).await;
    let html = first["html"].as_str().unwrap();
    assert!(html.contains("order-1") && html.contains("data-live"));
    let shown = get(&page, "/tasks?type=mail.send").await.text;
    assert!(shown.contains(&format!(
        "data-boot=\"{}\"",
        first["boot"].as_str().unwrap()
    )));
    shop.send("mail.send", "fresh-1", Duration::from_mins(15))
        .await;
    let next = pass(&shop, &mut stream, Duration::from_secs(2)).await;
    assert!(next["html"].as_str().unwrap().contains("fresh-1"));
}

/// The lamp was green as long as the connection was, while the store had not answered for minutes.
#[tokio::test]
async fn a_stream_says_that_the_store_does_not_answer_and_that_it_is_back() {
    let shop = Shop::busy().await;
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |_| {
        if down.load(Ordering::Relaxed) {
            Fault::NotApplied
        } else {
            Fault::None
        }
    });
    let tasks = TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(shop.clock.clone()));
    let page = Admin::new(tasks).router();
    let mut stream = stream(&page, "/").await;
    assert_eq!(event(&mut stream).await["trouble"], Value::Null);
    for (down, trouble) in [(true, "error".into()), (false, Value::Null)] {
        is_down.store(down, Ordering::Relaxed);
        shop.clock.advance(Duration::from_secs(3));
        let next = pass(&shop, &mut stream, Duration::from_secs(2)).await;
        assert_eq!(next["trouble"], trouble, "{next}");
    }
}

/// A large overview is read once in minutes. Its lamp was green for as long after the store was
/// gone.
#[tokio::test]
async fn a_view_that_is_read_rarely_says_at_once_that_the_store_does_not_answer() {
    let shop = Shop::busy().await;
    let is_down = Arc::new(AtomicBool::new(false));
    let (down, clock) = (Arc::clone(&is_down), shop.clock.clone());
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |operation| {
        if operation == "types" {
            clock.advance(Duration::from_millis(900));
        }
        if down.load(Ordering::Relaxed) {
            Fault::NotApplied
        } else {
            Fault::None
        }
    });
    let tasks = TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(shop.clock.clone()));
    let page = Admin::new(tasks).router();
    for _ in 0..2 {
        get(&page, "/").await;
        shop.clock.advance(Duration::from_mins(3));
    }
    let mut stream = stream(&page, "/").await;
    assert_eq!(event(&mut stream).await["trouble"], Value::Null);
    is_down.store(true, Ordering::Relaxed);
    let next = pass(&shop, &mut stream, Duration::from_secs(3)).await;
    assert_eq!(
        (&next["trouble"], &next["html"]),
        (&"error".into(), &Value::Null),
        "{next}"
    );
}

/// A hang is no error: the read goes on, and what is shown is old.
#[tokio::test(start_paused = true)]
async fn a_stream_says_that_the_store_hangs() {
    let shop = Shop::busy().await;
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, |_| Fault::Hang);
    let store = store.with_delay(Arc::new(SystemClock), Duration::from_hours(1));
    let tasks = TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(shop.clock.clone()));
    let page = Admin::new(tasks).router();
    let mut stream = stream(&page, "/").await;
    assert_eq!(event(&mut stream).await["trouble"], "slow");
}

#[tokio::test]
async fn all_viewers_share_one_read_and_nobody_costs_nothing() {
    let shop = Shop::busy().await;
    let calls: Arc<Mutex<BTreeMap<&'static str, u64>>> = Arc::default();
    let counted = Arc::clone(&calls);
    let store = FaultyStore::new(Arc::clone(&shop.store) as _, move |operation| {
        *counted.lock().unwrap().entry(operation).or_default() += 1;
        Fault::None
    });
    let tasks = TaskSubmitService::new(Arc::new(store)).with_clock(Arc::new(shop.clock.clone()));
    let page = Admin::new(tasks).router();
    let types = || calls.lock().unwrap().get("types").copied().unwrap_or(0);
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = stream(&page, "/").await;
        event(&mut stream).await;
        streams.push(stream);
        get(&page, "/?q=mail").await;
        get(&page, "/instances").await;
    }
    assert_eq!(types(), 1, "one read for all");
    shop.clock.advance(Duration::from_secs(1));
    get(&page, "/").await;
    assert_eq!(types(), 1, "it is fresh for two seconds");
    shop.clock.advance(Duration::from_secs(1));
    get(&page, "/").await;
    get(&page, "/").await;
    assert_eq!(types(), 2);
    drop(streams);
    shop.clock.advance(Duration::from_hours(1));
    tokio::task::yield_now().await;
    assert_eq!(types(), 2, "nobody looks");
}

#[tokio::test]
async fn a_stream_ends_after_a_while_so_that_the_viewer_is_asked_again() {
    let shop = Shop::busy().await;
    let page = Admin::new(shop.tasks.clone()).router();
    let mut stream = stream(&page, "/health").await;
    event(&mut stream).await;
    shop.clock.advance(Duration::from_mins(11));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn only_so_many_streams_are_open() {
    let shop = Shop::busy().await;
    let page = Admin::new(shop.tasks.clone()).router();
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(stream(&page, "/").await);
    }
    let request = || {
        let request = Request::get("/").header("accept", "text/event-stream");
        request.body(Body::empty()).unwrap()
    };
    let refused = page.clone().oneshot(request()).await.unwrap();
    assert_eq!(refused.status(), 503);
    streams.pop();
    let reply = page.clone().oneshot(request()).await.unwrap();
    assert_eq!(reply.status(), 200);
}
