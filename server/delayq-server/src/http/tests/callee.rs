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
