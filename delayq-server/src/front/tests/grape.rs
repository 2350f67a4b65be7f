//! The verbs of Grape, and its web page.

use axum::http::header::SET_COOKIE;
use serde_json::Value;

use super::*;
use crate::config::{Config, TokenRule};
use crate::front::grape::{admin_router, router};

/// Far away, in milliseconds.
const HOUR: &str = "3600000";
const JOBS: &str = include_str!("../grape/job_routes.rs");
const TUBES: &str = include_str!("../grape/tube_routes.rs");
const PAGE: &str = include_str!("../grape/web.rs");

/// The routes of tubes: those that change something, and those that show all.
fn tube_routes() -> Vec<Route> {
    vec![
        Route::new("POST", "/api/tube/create?tube=fresh", &[Scope::Submit]),
        Route::new("POST", "/api/tube/delete?tube=mail", &[Scope::Admin]),
        Route::new("GET", "/api/tube/list", &[Scope::Read]).of_all_types(),
        Route::new("GET", "/api/tube/set", &[Scope::Read]).of_all_types(),
        Route::new("GET", "/api/tube/stats", &[Scope::Read]).of_all_types(),
        Route::new("GET", "/api/tube/stats/mail", &[Scope::Read]),
    ]
}

fn named_tubes() -> BTreeSet<(String, String)> {
    let named = routes_of("/api/tube", TUBES).into_iter();
    let named = named.map(|(method, path)| (method, path.replace("{tube}", "mail")));
    named.collect()
}

/// A server with a tube that has a job of each state.
async fn server(token: TokenRule) -> Server {
    let mut config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        namespaces: [("shop".to_owned(), crate::config::NamespaceConfig::default())].into(),
        ..Config::default()
    };
    config.grape.token = token;
    config
        .grape
        .users
        .insert("admin".to_owned(), "grape".to_owned());
    let server = Server::open(config).await.unwrap();
    let token = server
        .new_token("all", &[Scope::Admin], "default", &[])
        .await;
    let everybody = Intruder::new("all", None).with("authorization", format!("Bearer {token}"));
    let api = router(server.app.clone());
    let (dead, runs, due) = (
        "tube=mail&jid=dead",
        "tube=mail&jid=runs",
        "tube=mail&jid=due",
    );
    for (method, path) in [
        ("POST", "/api/tube/create?tube=mail".to_owned()),
        ("POST", format!("/api/job/produce?{dead}&ttr={HOUR}")),
        ("GET", "/api/job/consume?tube=mail".to_owned()),
        ("PUT", format!("/api/job/bury?{dead}")),
        ("POST", format!("/api/job/produce?{runs}&ttr={HOUR}")),
        ("GET", "/api/job/consume?tube=mail".to_owned()),
        ("POST", format!("/api/job/produce?{due}&ttr={HOUR}")),
        (
            "POST",
            format!("/api/job/produce?tube=mail&jid=later&dtr={HOUR}"),
        ),
    ] {
        let route = Route::new(method, path.leak(), &[]).body("a secret");
        let answer = ask(&api, &route, &everybody).await;
        assert_eq!(answer.status, 200, "{route:?}: {answer:?}");
    }
    server
}

/// Whether it is a refusal in the form of Grape.
fn is_refusal(answer: &Answer) -> bool {
    let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
    body["code"] == answer.status && body["desc"].is_string()
}

pub(super) struct Verbs {
    router: Router,
    server: Server,
}

impl Verbs {
    pub(super) async fn open() -> Self {
        let server = server(TokenRule::Required).await;
        let router = router(server.app.clone());
        Self { router, server }
    }
}

impl Guarded for Verbs {
    fn router(&self) -> &Router {
        &self.router
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn routes(&self) -> Vec<Route> {
        use Scope::{Operate, Read, Submit, Work};
        let produce = "/api/job/produce?tube=mail&jid=new&dtr=3600000";
        let mut routes = vec![
            Route::new("POST", produce, &[Submit]).body("x"),
            Route::new("GET", "/api/job/consume?tube=mail", &[Work]),
            Route::new("DELETE", "/api/job/delete?tube=mail&jid=later", &[Submit]),
            Route::new("PUT", "/api/job/release?tube=mail&jid=runs", &[Work]),
            Route::new("PUT", "/api/job/bury?tube=mail&jid=runs", &[Work]),
            Route::new("PUT", "/api/job/failure?tube=mail&jid=runs", &[Work]),
            Route::new("DELETE", "/api/job/finish?tube=mail&jid=runs", &[Work]),
            Route::new("GET", "/api/job/peek?tube=mail", &[Read]),
            Route::new("PUT", "/api/job/kick?tube=mail&jid=dead", &[Operate]),
            Route::new("DELETE", "/api/job/discard?tube=mail&jid=dead", &[Operate]),
        ];
        routes.extend(tube_routes());
        routes
    }

    fn named(&self) -> BTreeSet<(String, String)> {
        let jobs = routes_of("/api/job", JOBS);
        jobs.union(&named_tubes()).cloned().collect()
    }

    fn is_own(&self, answer: &Answer) -> bool {
        is_refusal(answer)
    }
}

/// The web page: whoever has logged in may do everything, and a token is none of its keys.
pub(super) struct Page {
    router: Router,
    server: Server,
    session: String,
    ended: String,
}

impl Page {
    pub(super) async fn open() -> Self {
        let server = server(TokenRule::Optional).await;
        let router = admin_router(server.app.clone());
        let nobody = Intruder::new("nobody", None);
        let mut sessions = Vec::new();
        for _ in 0..2 {
            let login = Route::new("POST", "/api/authen/login", &[]);
            let login = login.body(r#"{"username": "admin", "password": "grape"}"#);
            let answer = ask(&router, &login, &nobody).await;
            let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
            sessions.push(cookie.split(';').next().unwrap().to_owned());
        }
        let (session, ended) = (sessions.remove(0), sessions.remove(0));
        let logout = Route::new("GET", "/api/authen/logout", &[]);
        ask(&router, &logout, &nobody.with("cookie", ended.clone())).await;
        Self {
            router,
            server,
            session,
            ended,
        }
    }
}

/// What everybody may ask of the page.
const OPEN: [&str; 3] = ["/login.html", "/api/authen/login", "/api/authen/logout"];

impl Guarded for Page {
    fn router(&self) -> &Router {
        &self.router
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn routes(&self) -> Vec<Route> {
        let pages = ["/", "/index.html", "/chart.html"];
        let mut routes: Vec<_> = pages.map(|path| Route::new("GET", path, &[])).into();
        routes.extend(tube_routes());
        routes
    }

    fn named(&self) -> BTreeSet<(String, String)> {
        let mut named = routes_of("", PAGE);
        for path in OPEN {
            let all = named.len();
            named.retain(|(_, one)| one != path);
            assert_eq!(named.len(), all - 1, "{path}");
        }
        named.union(&named_tubes()).cloned().collect()
    }

    async fn intruders(&self, route: &Route) -> Vec<Intruder> {
        let status = Some(if route.path.starts_with("/api/") {
            401
        } else {
            302
        });
        let token = self
            .server
            .new_token("all", &[Scope::Admin], "default", &[])
            .await;
        vec![
            Intruder::new("nobody", status),
            Intruder::new("unknown", status).with("cookie", "grape.session=x"),
            Intruder::new("logged out", status).with("cookie", self.ended.clone()),
            Intruder::new("a token", status).with("authorization", format!("Bearer {token}")),
        ]
    }

    async fn owner(&self, _: &Route) -> Intruder {
        Intruder::new("its owner", None).with("cookie", self.session.clone())
    }

    fn is_own(&self, answer: &Answer) -> bool {
        match answer.status {
            302 => answer.headers["location"] == "/login.html",
            _ => answer.text.is_empty(),
        }
    }
}
