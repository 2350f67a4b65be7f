//! The admin listener, asked without a network.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response, StatusCode, header};
use delayq_plugin::Namespace;
use delayq_service::access::Scope;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::router;
use crate::server::Server;

struct Site {
    server: Server,
    app: Router,
}

impl Site {
    async fn open() -> Self {
        let server = Server::in_memory().await;
        let app = router(server.app.clone(), true);
        Self { server, app }
    }

    async fn token(&self, scope: Scope, namespace: &str, types: &[&str]) -> String {
        self.server
            .new_token("kim", &[scope], namespace, types)
            .await
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        let peer = SocketAddr::from(([10, 0, 0, 1], 5));
        self.send_from(peer, request).await
    }

    async fn send_from(&self, peer: SocketAddr, mut request: Request<Body>) -> Response<Body> {
        request.extensions_mut().insert(ConnectInfo(peer));
        self.app.clone().oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str, cookie: &str) -> (StatusCode, String) {
        let request = Request::get(path).header(header::COOKIE, cookie);
        let reply = self.send(request.body(Body::empty()).unwrap()).await;
        let status = reply.status();
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn post(&self, path: &str, cookie: &str, body: String) -> Response<Body> {
        let request = Request::post(path)
            .header(header::COOKIE, cookie)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    /// The cookie of a new session, with all that is said of it.
    async fn login(&self, token: &str) -> Result<String, StatusCode> {
        let reply = self.post("/login", "", format!("token={token}")).await;
        let cookie = reply.headers().get(header::SET_COOKIE);
        let cookie = cookie.map(|cookie| cookie.to_str().unwrap().to_owned());
        cookie.ok_or(reply.status())
    }
}

fn pair(cookie: &str) -> &str {
    cookie.split(';').next().unwrap()
}

#[tokio::test]
async fn a_token_opens_the_pages_of_its_namespace_in_the_role_of_its_scope() {
    let site = Site::open().await;
    let token = site.token(Scope::Read, "shop", &[]).await;
    let cookie = site.login(&token).await.unwrap();
    for word in [
        "__Host-",
        "HttpOnly",
        "SameSite=Strict",
        "Secure",
        "Path=/",
        "Max-Age=28800",
    ] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = pair(&cookie);
    let (_, list) = site.get("/", cookie).await;
    assert!(
        list.contains("/n/shop") && !list.contains("/n/default"),
        "{list}"
    );
    let (status, page) = site.get("/n/shop", cookie).await;
    assert!(
        status == 200 && page.contains("/n/shop/assets/"),
        "{status} {page}"
    );
    assert!(page.contains("viewer"), "{page}");
    // The way out, and the way to other namespaces, are on every page; others' are not named.
    let switch = page.split_once("id=\"places\"").unwrap().1;
    let switch = switch.split_once("</details>").unwrap().0;
    assert!(
        switch.contains("aria-current=\"true\">shop</a>"),
        "{switch}"
    );
    assert!(
        switch.contains("href=\"/\"") && !switch.contains("default"),
        "{switch}"
    );
    assert!(page.contains("action=\"/logout\""), "{page}");
    let (_, none) = site.get("/?q=nothing", cookie).await;
    assert!(!none.contains("/n/shop"), "{none}");
    assert_eq!(
        site.get("/n/default", cookie).await.0,
        StatusCode::FORBIDDEN
    );
    let paused = site
        .post("/n/shop/type/pause?type=a", cookie, String::new())
        .await;
    assert_eq!(paused.status(), StatusCode::FORBIDDEN);
    let operator = site
        .login(&site.token(Scope::Operate, "*", &[]).await)
        .await
        .unwrap();
    let (_, page) = site.get("/n/default", pair(&operator)).await;
    assert!(page.contains("operator"), "{page}");
}

#[tokio::test]
async fn without_a_session_there_is_nothing_but_the_login() {
    let site = Site::open().await;
    for path in [
        "/",
        "/n/shop",
        "/n/shop/",
        "/n/shop/tasks",
        "/n/shop/log.jsonl",
        "/n/none",
    ] {
        for cookie in ["", "__Host-delayq=", "__Host-delayq=x", "delayq-session=x"] {
            assert_eq!(
                site.get(path, cookie).await.0,
                StatusCode::SEE_OTHER,
                "{path}"
            );
        }
    }
    assert_eq!(site.get("/metrics", "").await.0, StatusCode::UNAUTHORIZED);
    for (scope, types) in [
        (Scope::Submit, &[][..]),
        (Scope::Work, &[]),
        (Scope::Read, &["a"]),
    ] {
        let token = site.token(scope, "*", types).await;
        assert_eq!(
            site.login(&token).await,
            Err(StatusCode::FORBIDDEN),
            "{scope}"
        );
    }
}

#[tokio::test]
async fn a_session_ends_with_a_logout_and_with_its_token() {
    let site = Site::open().await;
    let token = site.token(Scope::Admin, "*", &[]).await;
    let one = site.login(&token).await.unwrap();
    let other = site.login(&token).await.unwrap();
    assert_eq!(site.get("/metrics", pair(&one)).await.0, StatusCode::OK);
    let out = site.post("/logout", pair(&one), String::new()).await;
    assert_eq!(out.status(), StatusCode::SEE_OTHER);
    assert_eq!(site.get("/", pair(&one)).await.0, StatusCode::SEE_OTHER);
    assert_eq!(site.get("/", pair(&other)).await.0, StatusCode::OK);
    let id = token.split('_').nth(1).unwrap();
    assert!(site.server.app.tokens.revoke(id).await.unwrap());
    assert_eq!(site.get("/", pair(&other)).await.0, StatusCode::SEE_OTHER);
}

/// The stream of a page that is open shows nothing more, and the login is asked for again.
#[tokio::test]
async fn whatever_a_session_has_open_ends_with_the_secret_that_it_began_with() {
    let site = Site::open().await;
    let tokens = &site.server.app.tokens;
    for ends_by_rotation in [true, false] {
        let token = site.token(Scope::Read, "*", &[]).await;
        let session = site.login(&token).await.unwrap();
        let request = Request::get("/n/default")
            .header(header::COOKIE, pair(&session))
            .header(header::ACCEPT, "text/event-stream");
        let stream = site.send(request.body(Body::empty()).unwrap()).await;
        let mut events = stream.into_body().into_data_stream();
        let first = events.next().await.unwrap().unwrap();
        assert!(first.starts_with(b"data: "), "{first:?}");
        let id = token.split('_').nth(1).unwrap();
        if ends_by_rotation {
            tokens.rotate(id, Duration::ZERO).await.unwrap().unwrap();
        } else {
            let out = site.post("/logout", pair(&session), String::new()).await;
            assert_eq!(out.status(), StatusCode::SEE_OTHER);
        }
        assert!(
            events.next().await.is_none(),
            "rotation: {ends_by_rotation}"
        );
        assert_eq!(site.get("/", pair(&session)).await.0, StatusCode::SEE_OTHER);
    }
}

/// Behind a balancer each request may reach another server.
#[tokio::test]
async fn a_session_and_its_forms_are_good_on_every_server_of_a_store() {
    let mut site = Site::open().await;
    let namespace = Namespace::default();
    let space = site.server.app.spaces.of(&namespace).await.unwrap();
    let mail = "mail".parse().unwrap();
    space.tasks.store().register_type(&mail).await.unwrap();
    let token = site.token(Scope::Operate, "*", &[]).await;
    let cookie = site.login(&token).await.unwrap();
    let path = "/n/default/type?name=mail";
    let (_, page) = site.get(path, pair(&cookie)).await;
    site.app = router(site.server.app.clone(), true);
    let (_, on_the_other) = site.get(path, pair(&cookie)).await;
    let form_token = |page: &str| {
        let (_, rest) = page.split_once("name=\"token\" value=\"").expect(page);
        rest.split('"').next().unwrap().to_owned()
    };
    assert_eq!(form_token(&page), form_token(&on_the_other));
}

#[tokio::test]
async fn guessing_a_token_brakes_nobody_else() {
    let site = Site::open().await;
    let [token, other] = [
        site.token(Scope::Read, "*", &[]).await,
        site.token(Scope::Read, "*", &[]).await,
    ];
    // Inventing ids gains nothing, and costs nobody anything.
    for n in 0..200 {
        let wanted = if n < 5 { 401 } else { 429 };
        let said = site.login(&format!("dq_{n}_b")).await.unwrap_err();
        assert_eq!(said.as_u16(), wanted, "{n}");
    }
    let id = token.split('_').nth(1).unwrap();
    for _ in 0..5 {
        let wrong = site.login(&format!("dq_{id}_b")).await;
        assert_eq!(wrong, Err(StatusCode::UNAUTHORIZED));
    }
    let braked = site.login(&token).await;
    assert_eq!(braked, Err(StatusCode::TOO_MANY_REQUESTS));
    assert!(site.login(&other).await.is_ok(), "another token");
    let elsewhere = SocketAddr::from(([10, 0, 0, 2], 5));
    let login = Request::post("/login").body(Body::from(format!("token={token}")));
    let reply = site.send_from(elsewhere, login.unwrap()).await;
    assert_eq!(reply.status(), StatusCode::SEE_OTHER, "another address");
}

#[tokio::test]
async fn guessing_is_braked_and_a_form_of_another_site_is_refused() {
    let site = Site::open().await;
    let token = site.token(Scope::Read, "*", &[]).await;
    let id = token.split('_').nth(1).unwrap();
    for _ in 0..10 {
        assert!(
            site.login(&token).await.is_ok(),
            "a login that succeeds costs nothing"
        );
    }
    for _ in 0..5 {
        let wrong = site.login(&format!("dq_{id}_b")).await;
        assert_eq!(wrong, Err(StatusCode::UNAUTHORIZED));
    }
    let braked = site.post("/login", "", format!("token={token}")).await;
    assert_eq!(braked.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(braked.headers().contains_key(header::RETRY_AFTER));
    for (path, name, from) in [
        ("/login", "sec-fetch-site", "cross-site"),
        ("/login", "sec-fetch-site", "none"),
        ("/logout", "sec-fetch-site", "none"),
        ("/login", "origin", "null"),
        ("/logout", "origin", "null"),
        ("/login", "origin", "https://evil.example"),
    ] {
        let request = Request::post(path)
            .header(name, from)
            .header(header::HOST, "shop.example")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(format!("token={token}")));
        let status = site.send(request.unwrap()).await.status();
        assert_eq!(status, StatusCode::FORBIDDEN, "{path} {name} {from}");
    }
}
