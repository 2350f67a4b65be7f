//! The verbs of Grape.

use delayq_service::config::{Config, TokenRule};
use serde_json::Value;

use super::*;
use crate::grape::router;

/// Far away, in milliseconds.
const HOUR: &str = "3600000";
const JOBS: &str = include_str!("../grape/job_routes.rs");
const TUBES: &str = include_str!("../grape/tube_routes.rs");

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
        namespaces: [(
            "shop".to_owned(),
            delayq_service::config::NamespaceConfig::default(),
        )]
        .into(),
        ..Config::default()
    };
    config.grape.token = token;
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
