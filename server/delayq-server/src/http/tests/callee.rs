//! Applications that announce themselves.

use delayq_endpoint::{Announcement, Endpoint};
use delayq_plugin::{DelayQueuePlugin, TaskContext, TaskResult, TaskWorker, WorkerOptions};

use super::*;

const CALLEES: &str = "/v1/default/callees";

struct Idle;

#[delayq_plugin::async_trait]
impl TaskWorker for Idle {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

async fn listed(site: &Site, token: &str) -> Vec<Value> {
    let all = site.ask(token, "GET", CALLEES, "").await;
    assert_eq!(all.status, StatusCode::OK, "{}", all.body);
    all.body.as_array().unwrap().clone()
}

#[tokio::test]
async fn an_application_announces_what_its_token_is_for_and_withdraws_it() {
    let site = Site::open().await;
    let shop = site.token(&[Scope::Work], "default", &["order.*"]).await;
    let all = site.token(&[Scope::Read], "default", &[]).await;
    let body = |types: &[&str], url: &str, lease: &str| {
        json!({"url": url, "types": types, "lease": lease}).to_string()
    };
    let url = "https://shop.example.org/delayq/work";
    let one = format!("{CALLEES}/shop-1");
    let good = body(&["order.cancel"], url, "30s");
    let announced = site.ask(&shop, "PUT", &one, &good).await;
    assert_eq!(announced.status, StatusCode::OK, "{}", announced.body);
    let found = listed(&site, &all).await;
    assert_eq!((found.len(), &found[0]["url"]), (1, &json!(url)));
    assert_eq!(found[0]["types"], json!(["order.cancel"]));
    for (refused, status) in [
        (body(&["mail.send"], url, "30s"), 403),
        (body(&[], url, "30s"), 400),
        (body(&["order.cancel"], url, "1s"), 400),
        (body(&["order.cancel"], "https://10.0.0.1/", "30s"), 400),
        (body(&["order.cancel"], "nonsense", "30s"), 400),
        ("{}".to_owned(), 400),
    ] {
        let answer = site.ask(&shop, "PUT", &one, &refused).await;
        assert_eq!(answer.status.as_u16(), status, "{refused}: {}", answer.body);
    }
    let bad = format!("{CALLEES}/a%20b");
    assert_eq!(
        site.ask(&shop, "PUT", &bad, &good).await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        site.ask(&all, "PUT", &one, &good).await.status,
        StatusCode::FORBIDDEN
    );
    let mail = site.token(&[Scope::Work], "default", &["mail.*"]).await;
    let own = body(&["mail.send"], url, "30s");
    let taken = site.ask(&mail, "PUT", &one, &own).await;
    assert_eq!(taken.status, StatusCode::FORBIDDEN, "{}", taken.body);
    let mine = format!("{CALLEES}/mail-1");
    assert_eq!(
        site.ask(&mail, "PUT", &mine, &own).await.status,
        StatusCode::OK
    );
    let withdrawn = site.ask(&mail, "DELETE", &mine, "").await;
    assert_eq!(withdrawn.body["outcome"], "withdrawn");
    assert_eq!(
        site.ask(&mail, "DELETE", &one, "").await.status,
        StatusCode::FORBIDDEN
    );
    let withdrawn = site.ask(&shop, "DELETE", &one, "").await;
    assert_eq!(withdrawn.body["outcome"], "withdrawn");
    assert!(listed(&site, &all).await.is_empty());
}

#[tokio::test]
async fn a_callee_announces_its_types_at_a_server_until_it_withdraws() {
    let site = Site::open().await;
    let work = site.token(&[Scope::Work], "default", &[]).await;
    let read = site.token(&[Scope::Read], "default", &[]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = site.app.clone();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let builder = DelayQueuePlugin::builder().without_registered_workers();
    let builder = builder.worker("mail.send", WorkerOptions::DEFAULT, Idle);
    let builder = builder.worker("report.*", WorkerOptions::DEFAULT, Idle);
    let callee = Endpoint::of(builder).await.unwrap();
    let address = "https://shop.example.org";
    let announcement = Announcement::at_server(&url, "default", &work, address);
    let announced = callee.announce(announcement).unwrap();
    let wait = async {
        loop {
            let found = listed(&site, &read).await;
            if let Some(found) = found.first() {
                return found.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .unwrap();
    assert_eq!(found["name"], "shop.example.org:callee:443");
    assert_eq!(found["url"], "https://shop.example.org/delayq/work");
    assert_eq!(found["types"], json!(["mail.send"]));
    announced.deregister().await;
    assert!(listed(&site, &read).await.is_empty());
    for bad in ["shop.example.org", "ftp://shop", ""] {
        let announcement = Announcement::at_server(&url, "default", &work, bad);
        assert!(callee.announce(announcement).is_err(), "{bad}");
    }
    serving.abort();
}
