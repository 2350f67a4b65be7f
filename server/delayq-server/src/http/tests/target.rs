//! Targets of push: what is never shown.

use delayq_service::access::Scope;
use serde_json::json;

use super::Site;

const TARGET: &str = "/v1/default/types/mail.send/target";

#[tokio::test]
async fn what_is_never_shown_goes_to_no_other_server() {
    let site = Site::open().await;
    let admin = site.token(&[Scope::Admin], "default", &[]).await;
    let target = |url: &str, value: &str, secret: &str| {
        let http = json!({"url": url, "headers": {"x-key": value}, "secrets": [secret]});
        json!({ "http": http }).to_string()
    };
    let own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let none = target("https://example.org/hook", "***", own);
    assert_eq!(site.ask(&admin, "PUT", TARGET, &none).await.status, 400);
    let unsigned = target("https://example.org/hook", "hush", "***");
    assert_eq!(site.ask(&admin, "PUT", TARGET, &unsigned).await.status, 400);
    let first = target("https://example.org/hook", "hush", own);
    assert_eq!(site.ask(&admin, "PUT", TARGET, &first).await.status, 200);
    let near = target("https://example.org/other", "***", "***");
    assert_eq!(site.ask(&admin, "PUT", TARGET, &near).await.status, 200);
    let stolen = target("https://example.com/hook", "***", "***");
    let refused = site.ask(&admin, "PUT", TARGET, &stolen).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body["detail"].to_string().contains("x-key"));
}
