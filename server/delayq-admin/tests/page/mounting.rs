//! The page finds out where it is mounted, and from where it is asked.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use delayq_admin::{Admin, Role, Viewer};
use scraper::{Html, Selector};

use crate::shop::{Shop, ask, encoded, get};

fn admin(shop: &Shop) -> Admin {
    let admin = Admin::new(shop.tasks.clone()).secret([7; 32]);
    admin.authorize(|_| Some(Viewer::new("ann", Role::Admin)))
}

#[tokio::test]
async fn every_link_of_a_page_stays_below_its_prefix_and_leads_somewhere() {
    let shop = Shop::busy().await;
    let page = admin(&shop).router();
    let nested = Router::new().nest("/ops/{team}", Router::new().nest("/delayq", page.clone()));
    for (router, prefix) in [(page, ""), (nested, "/ops/red/delayq")] {
        for path in [
            "/",
            "/type?name=mail.send",
            "/tasks?type=mail.send",
            "/dead",
            "/log",
            "/history",
        ] {
            let path = match (prefix, path) {
                ("", path) => path.to_owned(),
                (prefix, "/") => prefix.to_owned(),
                (prefix, path) => format!("{prefix}{path}"),
            };
            let answer = get(&router, &path).await;
            assert_eq!(answer.status, 200, "{path}");
            let links: Vec<_> = {
                let html = Html::parse_document(&answer.text);
                let links = Selector::parse("a[href], link[href], script[src]").unwrap();
                let links = html.select(&links);
                links
                    .map(|link| link.attr("href").or(link.attr("src")).unwrap().to_owned())
                    .collect()
            };
            assert!(links.len() > 10, "{path}");
            for link in links.iter().filter(|link| !link.starts_with(['#', 'd'])) {
                assert!(link.starts_with(prefix), "{path}: {link}");
                let status = get(&router, link).await.status;
                assert!(
                    [200, 303].contains(&status.as_u16()),
                    "{path}: {link}: {status}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_redirect_and_its_cookie_stay_below_the_prefix() {
    let shop = Shop::busy().await;
    let app = Router::new().nest("/delayq", admin(&shop).router());
    let page = get(&app, "/delayq/type?name=mail.send").await.text;
    let (_, rest) = page.split_once("name=\"token\" value=\"").unwrap();
    let token = rest.split('"').next().unwrap();
    let form = encoded(&[("token", token), ("name", "mail.send")]);
    let request = Request::post("/delayq/type/pause")
        .body(Body::from(form))
        .unwrap();
    let answer = ask(&app, request).await;
    assert_eq!(answer.header("location"), "/delayq/type?name=mail.send");
    assert!(answer.header("set-cookie").contains("Path=/delayq;"));
}

/// Pauses from `10.0.0.7` with these headers; what the log has as the origin.
async fn origin(shop: &Shop, admin: Admin, headers: &[(&str, &str)]) -> String {
    let page = admin.router();
    let token = crate::shop::token(&page).await;
    let mut request = Request::post("/type/pause");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let form = encoded(&[("token", &token), ("name", "mail.send")]);
    let mut request = request.body(Body::from(form)).unwrap();
    let peer = SocketAddr::from(([10, 0, 0, 7], 999));
    request.extensions_mut().insert(ConnectInfo(peer));
    assert_eq!(ask(&page, request).await.status, 303);
    shop.log().await[0].action.origin.clone()
}

#[tokio::test]
async fn the_log_has_the_address_that_can_be_trusted() {
    let shop = Shop::busy().await;
    let forwarded = [("x-forwarded-for", "1.1.1.1, 192.0.2.9")];
    assert_eq!(origin(&shop, admin(&shop), &forwarded).await, "10.0.0.7");
    let trusting = admin(&shop).trust_forwarded();
    assert_eq!(origin(&shop, trusting, &forwarded).await, "192.0.2.9");
    let trusting = admin(&shop).trust_forwarded();
    assert_eq!(origin(&shop, trusting, &[]).await, "10.0.0.7");
}

#[tokio::test]
async fn a_prefix_that_a_trusted_proxy_takes_away_is_put_back() {
    let shop = Shop::busy().await;
    let link = |text: &str| text.contains("href=\"/tools/dead\"");
    let asked = |prefix: &'static str| {
        let request = Request::get("/").header("x-forwarded-prefix", prefix);
        request.body(Body::empty()).unwrap()
    };
    let trusting = admin(&shop).trust_forwarded().router();
    assert!(link(&ask(&trusting, asked("/tools/")).await.text));
    for evil in ["//evil.example", "javascript:alert(1)", "/a?b"] {
        let text = ask(&trusting, asked(evil)).await.text;
        assert!(text.contains("href=\"/dead\""), "{evil}");
    }
    assert!(!link(
        &ask(&admin(&shop).router(), asked("/tools")).await.text
    ));
}
