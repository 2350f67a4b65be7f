//! Requests that pages of other sites send by a browser, and guesses of secrets.

use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, RETRY_AFTER};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_service::config::{Config, TokenRule};

use super::*;
use crate::lmstfy::Lmstfy;
use crate::{grape, spring, task_service};

const NAME: &str = "lmstfy.example";
const FOREIGN: [(&str, &str); 4] = [
    ("origin", "https://evil.example"),
    ("origin", "null"),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-site", "same-site"),
];

fn config() -> Config {
    let mut config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        ..Config::default()
    };
    config.grape.token = TokenRule::Optional;
    config.task_service.token = TokenRule::Optional;
    "optional".clone_into(&mut config.spring.token);
    config
}

fn request(method: &str, path: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, NAME)
}

async fn send(router: &Router, request: axum::http::request::Builder, from: &str) -> Response {
    let mut request = request.body(Body::from("x")).unwrap();
    let address = SocketAddr::new(from.parse().unwrap(), 1);
    request.extensions_mut().insert(ConnectInfo(address));
    router.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing_where_no_secret_is_asked_for() {
    let server = Server::open(config()).await.unwrap();
    let app = || server.app.clone();
    let front = Lmstfy::new(app());
    let admin = crate::lmstfy::admin(&front);
    let (grape, spring) = (grape::router(app()), spring::router(app()));
    let tasks = task_service::router(app());
    let routes = [
        (&admin, "POST", "/token/shop?description=x", 201),
        (&admin, "POST", "/accesslog?status=enable", 200),
        (&admin, "DELETE", "/token/shop/a", 204),
        (&grape, "POST", "/api/tube/create?tube=mail", 200),
        (&spring, "POST", "/job/add", 400),
        (&tasks, "POST", "/CreateHttpTask", 400),
    ];
    for (router, method, path, own) in routes {
        for (name, value) in FOREIGN {
            let foreign = request(method, path).header(name, value);
            let refused = send(router, foreign, "10.0.0.1").await;
            assert_eq!(refused.status(), 403, "{path} {name}: {value}");
        }
        for (name, value) in [("x-none", ""), ("origin", "https://lmstfy.example")] {
            let own_site = request(method, path).header(name, value);
            let answer = send(router, own_site, "10.0.0.1").await;
            assert_eq!(answer.status(), own, "{path} {name}: {value}");
        }
    }
    // With a secret that no browser adds by itself the request is meant.
    let token = server.new_token("a", &Scope::ALL, "default", &[]).await;
    let meant = request("POST", "/api/tube/create?tube=mail")
        .header(ORIGIN, "https://evil.example")
        .header(AUTHORIZATION, format!("Bearer {token}"));
    assert_eq!(send(&grape, meant, "10.0.0.1").await.status(), 200);
}

#[tokio::test]
async fn guessing_a_password_of_lmstfy_is_braked_and_brakes_nobody_else() {
    let mut config = config();
    let accounts = [("admin", "right"), ("other", "right")];
    let accounts = accounts.map(|(user, password)| (user.to_owned(), password.to_owned()));
    config.lmstfy.accounts = accounts.into();
    let server = Server::open(config).await.unwrap();
    let admin = crate::lmstfy::admin(&Lmstfy::new(server.app.clone()));
    let asked = async |user: &str, password: &str, from: &str| {
        let pair = STANDARD.encode(format!("{user}:{password}"));
        let request = request("GET", "/limits").header(AUTHORIZATION, format!("Basic {pair}"));
        let answer = send(&admin, request, from).await;
        let is_told_when = answer.headers().contains_key(RETRY_AFTER);
        let is_braked = answer.status() == StatusCode::TOO_MANY_REQUESTS;
        assert_eq!(is_told_when, is_braked);
        answer.status().as_u16()
    };
    for attempt in 0..20 {
        let wanted = if attempt < 5 { 401 } else { 429 };
        assert_eq!(
            asked("admin", "wrong", "10.0.0.1").await,
            wanted,
            "{attempt}"
        );
        let invented = asked(&format!("user{attempt}"), "wrong", "10.0.0.1").await;
        assert_eq!(invented, wanted, "{attempt}");
    }
    assert_eq!(asked("admin", "right", "10.0.0.1").await, 429);
    assert_eq!(asked("admin", "right", "10.0.0.2").await, 200);
    for _ in 0..20 {
        assert_eq!(asked("other", "right", "10.0.0.1").await, 200);
    }
}

#[tokio::test]
async fn the_right_token_waits_for_no_wrong_ones() {
    let mut config = config();
    config.grape.token = TokenRule::Required;
    let server = Server::open(config).await.unwrap();
    let grape = grape::router(server.app.clone());
    let token = server.new_token("a", &Scope::ALL, "default", &[]).await;
    let id = token.split('_').nth(1).unwrap();
    let list = async |token: &str| {
        let basic = STANDARD.encode(format!("any:{token}"));
        let list = request("GET", "/api/tube/list").header(AUTHORIZATION, format!("Basic {basic}"));
        send(&grape, list, "10.0.0.1").await.status().as_u16()
    };
    for _ in 0..200 {
        assert_eq!(list(&format!("dq_{id}_wrong")).await, 401);
    }
    assert_eq!(list(&token).await, 200);
}
