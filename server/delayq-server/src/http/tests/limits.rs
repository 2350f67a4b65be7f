//! Limits, as a client meets them.

use axum::http::HeaderMap;
use delayq_core::memory::MemoryStore;
use delayq_plugin::Namespace;
use delayq_service::access::NewToken;
use delayq_service::config::NamespaceConfig;
use delayq_testing::{Fault, FaultyStore};

use super::*;

const TYPE: &str = "/v1/shop/types/mail";

async fn open() -> Site {
    let mut config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        ..Config::default()
    };
    config.limits.token_rate = Some(1_000);
    let mut shop = NamespaceConfig::default();
    shop.limits.max_pending = Some(3);
    shop.limits.max_message_bytes = Some(100);
    config.namespaces.insert("shop".to_owned(), shop);
    Site::of(config).await
}

async fn token(site: &Site, rate: Option<u32>, bytes: Option<usize>) -> String {
    let new = NewToken {
        rate,
        max_message_bytes: bytes,
        ..new_token()
    };
    site.server.app.tokens.create(new).await.unwrap().1
}

fn new_token() -> NewToken {
    NewToken {
        name: "test".to_owned(),
        scopes: Scope::ALL.into(),
        namespace: "shop".to_owned(),
        types: Vec::new(),
        expires_at: None,
        rate: None,
        max_message_bytes: None,
        max_pending: None,
    }
}

async fn head(site: &Site, token: &str, path: &str) -> (u16, HeaderMap) {
    let request = Request::builder().method("GET").uri(path);
    let request = request.header("authorization", format!("Bearer {token}"));
    let request = request.body(Body::empty()).unwrap();
    let response = site.app.clone().oneshot(request).await.unwrap();
    (response.status().as_u16(), response.headers().clone())
}

/// The remaining requests of a header such as `"token";r=1;t=1`.
fn remaining(headers: &HeaderMap) -> u32 {
    let text = headers["ratelimit"].to_str().unwrap();
    let (_, rest) = text.split_once(";r=").unwrap();
    rest.split([';', ',']).next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_how_many_requests_are_left_and_a_refusal_when_there_are_more() {
    let site = open().await;
    let token = token(&site, Some(3), None).await;
    let mut left = Vec::new();
    for _ in 0..3 {
        let (status, headers) = head(&site, &token, TYPE).await;
        assert_eq!(status, 200);
        assert_eq!(headers["ratelimit-policy"], "\"token\";q=3;w=1");
        left.push(remaining(&headers));
    }
    assert_eq!(left, [2, 1, 0]);
    let (status, headers) = head(&site, &token, TYPE).await;
    assert_eq!((status, remaining(&headers)), (429, 0));
    let after: u64 = headers["retry-after"].to_str().unwrap().parse().unwrap();
    let refused = site.ask(&token, "GET", TYPE, "").await;
    assert_eq!(refused.body["type"], "urn:delayq:problem:rate-limited");
    assert_eq!(refused.body["is_repeatable"], true);
    tokio::time::advance(Duration::from_secs(after)).await;
    assert_eq!(head(&site, &token, TYPE).await.0, 200);
}

#[tokio::test]
async fn a_message_fits_the_token_and_the_namespace() {
    let site = open().await;
    let narrow = token(&site, None, Some(10)).await;
    let wide = token(&site, None, Some(1_000)).await;
    for (token, bytes, word) in [
        (&narrow, 10, ""),
        (&narrow, 11, "this token may send 10"),
        (&wide, 100, ""),
        (&wide, 101, "the namespace allows 100"),
    ] {
        let message = "x".repeat(bytes);
        // The way of a change is no way around it.
        for path in [format!("a{bytes}?delay=1h"), "a10/message".to_owned()] {
            let path = format!("{TYPE}/tasks/{path}");
            let sent = site.ask(token, "PUT", &path, &message).await;
            let refused = (sent.status.as_u16() == 413).then_some(word);
            assert_eq!(refused.is_none(), sent.status.is_success(), "{sent:?}");
            assert_eq!(refused.is_some(), !word.is_empty(), "{bytes}: {sent:?}");
            assert!(sent.body["detail"].to_string().contains(word), "{sent:?}");
        }
    }
}

#[tokio::test]
async fn a_token_has_no_more_tasks_of_its_types_than_it_allows() {
    let site = open().await;
    let create = async |types: &str| {
        let new = NewToken {
            types: vec![types.to_owned()],
            max_pending: Some(1),
            ..new_token()
        };
        site.server.app.tokens.create(new).await.unwrap().1
    };
    let (mail, order) = (create("mail").await, create("order.*").await);
    let put = async |token: &str, path: &str| {
        let path = format!("/v1/shop/types/{path}?delay=1h");
        site.ask(token, "PUT", &path, "x").await
    };
    assert_eq!(put(&mail, "mail/tasks/a").await.status, StatusCode::CREATED);
    let full = put(&mail, "mail/tasks/b").await;
    assert_eq!(full.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(full.body["type"], "urn:delayq:problem:token-full");
    let other = put(&order, "order.cancel/tasks/a").await;
    assert_eq!(other.status, StatusCode::CREATED, "{:?}", other.body);
    let full = put(&order, "order.ship/tasks/a").await;
    assert_eq!(full.body["type"], "urn:delayq:problem:token-full");
}

#[tokio::test(start_paused = true)]
async fn lines_that_fail_for_the_servers_reasons_cost_nothing() {
    let site = open().await;
    let token = token(&site, Some(20), None).await;
    let store = FaultyStore::new(Arc::new(MemoryStore::default()), |call| match call {
        "submit" => Fault::NotApplied,
        _ => Fault::None,
    });
    let shop = Namespace::new("shop").unwrap();
    site.server.app.spaces.offer(shop, Arc::new(store)).await;
    let (known, _) = head(&site, &token, TYPE).await;
    assert_eq!(known, 200);
    let lines = "{\"delay\": \"1h\"}\n".repeat(3);
    let bulk = format!("{TYPE}/bulk");
    for line in site.lines(&token, &bulk, Body::from(lines)).await {
        assert_eq!(line["problem"]["type"], "urn:delayq:problem:unavailable");
    }
    // The first request, the one that brought the lines, and this one.
    let (_, headers) = head(&site, &token, TYPE).await;
    assert_eq!(remaining(&headers), 17);
}

#[tokio::test]
async fn the_largest_message_is_what_the_configuration_says() {
    for most in [1_000, 1 << 20] {
        let config = Config {
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            max_message_bytes: most,
            ..Config::default()
        };
        let site = Site::of(config).await;
        let token = site.token(&Scope::ALL, "default", &[]).await;
        for (bytes, status, outcome) in [
            (most, 201, "\"accepted\""),
            (most + 1, 413, "\"status\":413"),
        ] {
            let message = "x".repeat(bytes);
            let task = format!("/v1/default/types/mail/tasks/{bytes}?delay=1h");
            let one = site.ask(&token, "PUT", &task, &message).await;
            assert_eq!(one.status.as_u16(), status, "{most}: {one:?}");
            let line = json!({"message": message, "delay": "1h"}).to_string();
            let lines = site.lines(&token, "/v1/default/types/mail/bulk", Body::from(line));
            let line = lines.await[0].to_string();
            assert!(line.contains(outcome), "{most}: {line}");
        }
    }
}
