//! The API of lmstfy, which has tokens of its own, and its administration, which has users.
//!
//! A token is for everything in its namespace, for ever: none expires, and none is narrower.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_service::config::{Config, LmstfyConfig, NamespaceConfig};
use serde_json::Value;

use super::*;
use crate::lmstfy::{Lmstfy, admin, router};

const OPERATIONS: &str = include_str!("../lmstfy/wire.rs");
const ADMIN: &str = include_str!("../lmstfy/admin.rs");
/// What everybody may ask, as in the original.
const PUBLIC: [&str; 2] = ["/api/shop/mail/size", "/api/shop/mail/deadletter/size"];
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

/// A front with a job that waits, and the tokens of its namespace and of another one.
struct Site {
    server: Server,
    api: Router,
    admin: Router,
    token: String,
    foreign: String,
    deleted: String,
    elsewhere: String,
}

fn user(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

impl Site {
    async fn open() -> Self {
        let text = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            let owned = pairs.map(|(one, other)| ((*one).to_owned(), (*other).to_owned()));
            owned.collect::<std::collections::BTreeMap<_, _>>()
        };
        let config = Config {
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            namespaces: [("second".to_owned(), NamespaceConfig::default())].into(),
            lmstfy: LmstfyConfig {
                accounts: text(&[("admin", "grape")]),
                pools: text(&[("default", "default"), ("second", "second")]),
                ..LmstfyConfig::default()
            },
            ..Config::default()
        };
        let server = Server::open(config).await.unwrap();
        let front: Arc<Lmstfy> = Lmstfy::new(server.app.clone());
        let (api, admin) = (router(&front), admin(&front));
        let admins = Intruder::new("admin", None).with("authorization", user("admin", "grape"));
        let mut tokens = Vec::new();
        for path in [
            "/token/shop?description=own",
            "/token/shop?description=deleted",
            "/token/other?description=foreign",
            "/token/shop?description=elsewhere&pool=second",
        ] {
            let made = ask(&admin, &Route::new("POST", path, &[]), &admins).await;
            let made: Value = serde_json::from_str(&made.text).unwrap();
            tokens.push(made["token"].as_str().unwrap().to_owned());
        }
        let [token, deleted, foreign, elsewhere] = tokens.try_into().unwrap();
        let elsewhere = elsewhere.strip_prefix("second:").unwrap().to_owned();
        let path: &str = format!("/token/shop/{deleted}").leak();
        let gone = ask(&admin, &Route::new("DELETE", path, &[]), &admins).await;
        assert_eq!(gone.status, 204);
        let own = Intruder::new("own", None).with("x-token", &token);
        let later = Route::new("PUT", "/api/shop/mail?delay=3600", &[]).body("a secret");
        let due = Route::new("PUT", "/api/shop/mail", &[]).body("a secret");
        for route in [later, due] {
            assert_eq!(ask(&api, &route, &own).await.status, 201);
        }
        Self {
            server,
            api,
            admin,
            token,
            foreign,
            deleted,
            elsewhere,
        }
    }
}

pub(super) struct Api(Site);

impl Api {
    pub(super) async fn open() -> Self {
        let site = Site::open().await;
        for path in PUBLIC {
            let route = Route::new("GET", path, &[]);
            let answer = ask(&site.api, &route, &Intruder::new("nobody", None)).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
        }
        Self(site)
    }
}

impl Guarded for Api {
    fn router(&self) -> &Router {
        &self.0.api
    }

    fn server(&self) -> &Server {
        &self.0.server
    }

    fn routes(&self) -> Vec<Route> {
        let route = |method, path| Route::new(method, path, &[]).body("x");
        vec![
            route("PUT", "/api/shop/mail?delay=3600"),
            route("PUT", "/api/shop/mail/bulk?delay=3600").body(r#"["x"]"#),
            route("PUT", "/api/shop/mail/job/a?delay=3600"),
            route("GET", "/api/shop/mail?ttr=3600"),
            route("GET", "/api/shop/mail/peek"),
            route("GET", "/api/shop/mail/job/a"),
            route("DELETE", "/api/shop/mail/job/a"),
            route("GET", "/api/shop/mail/deadletter"),
            route("PUT", "/api/shop/mail/deadletter?limit=9"),
            route("DELETE", "/api/shop/mail/deadletter?limit=9"),
            route("DELETE", "/api/shop/mail"),
        ]
    }

    /// Arms such as `("PUT", ["job", _]) => Some`: what stands behind the queue.
    fn named(&self) -> BTreeSet<(String, String)> {
        let arms = OPERATIONS.lines().filter_map(|line| {
            let (pattern, _) = line
                .trim()
                .strip_prefix("(\"")?
                .split_once("]) => Self::")?;
            let (method, tail) = pattern.split_once("\", [")?;
            let tail = tail.split(", ").filter(|part| !part.is_empty());
            let tail = tail.map(|part| match part.trim_matches('"') {
                "_" => "/a".to_owned(),
                word => format!("/{word}"),
            });
            let path = format!("/api/shop/mail{}", tail.collect::<String>());
            Some((method.to_owned(), path))
        });
        let mut named: BTreeSet<_> = arms.collect();
        let operations = OPERATIONS.matches("]) => Self::").count();
        assert_eq!(named.len(), operations, "{named:?}");
        named.retain(|(_, path)| !PUBLIC.contains(&path.as_str()));
        named
    }

    async fn intruders(&self, _: &Route) -> Vec<Intruder> {
        let intruder = |who, token: &str| Intruder::new(who, Some(401)).with("x-token", token);
        let Site { token, server, .. } = &self.0;
        let of_server = server.new_token("all", &Scope::ALL, "default", &[]).await;
        vec![
            Intruder::new("nobody", Some(401)),
            intruder("unknown", "01HNOBODYKNOWSTHISTOKEN000"),
            intruder("deleted", &self.0.deleted),
            intruder("foreign", &self.0.foreign),
            intruder("of another pool", &self.0.elsewhere),
            intruder("its own in another pool", &format!("second:{token}")),
            intruder("a token of the server", &of_server),
        ]
    }

    async fn owner(&self, _: &Route) -> Intruder {
        Intruder::new("its owner", None).with("x-token", &self.0.token)
    }

    fn is_own(&self, answer: &Answer) -> bool {
        let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        ["token not found", "invalid token"].contains(&body["error"].as_str().unwrap_or_default())
    }
}

pub(super) struct Administration(Site);

impl Administration {
    pub(super) async fn open() -> Self {
        let site = Site::open().await;
        let route = Route::new("GET", "/version", &[]);
        let answer = ask(&site.admin, &route, &Intruder::new("nobody", None)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Self(site)
    }
}

impl Guarded for Administration {
    fn router(&self) -> &Router {
        &self.0.admin
    }

    fn server(&self) -> &Server {
        &self.0.server
    }

    fn routes(&self) -> Vec<Route> {
        let route = |method, path| Route::new(method, path, &[]);
        let limit = r#"{"read": 9, "write": 9, "interval": 1}"#;
        let (token, its_limit) = ("/token/shop/TOKEN", "/token/shop/TOKEN/limit");
        vec![
            route("GET", "/metrics"),
            route("GET", "/pools"),
            route("GET", "/info"),
            route("GET", "/accesslog"),
            route("POST", "/accesslog?status=disable"),
            route("GET", "/limits"),
            route("GET", "/token/shop"),
            route("POST", "/token/shop?description=new"),
            route("POST", its_limit).body(limit),
            route("GET", its_limit),
            route("PUT", its_limit).body(limit),
            route("DELETE", its_limit),
            route("DELETE", token),
        ]
    }

    /// Its paths are patterns of several parts: that there is no new one is told by how often a
    /// method is named, 7 with a path, 3 of a token, and 5 of its limit.
    fn named(&self) -> BTreeSet<(String, String)> {
        let named = METHODS.map(|method| ADMIN.matches(&format!("\"{method}\"")).count());
        assert_eq!(
            named.iter().sum::<usize>(),
            15,
            "add the new route: {named:?}"
        );
        let routes = self.routes().into_iter();
        let path = |route: &Route| route.path.split('?').next().unwrap().to_owned();
        routes
            .map(|route| (route.method.to_owned(), path(&route)))
            .collect()
    }

    async fn intruders(&self, _: &Route) -> Vec<Intruder> {
        let intruder = |who, value| Intruder::new(who, Some(401)).with("authorization", value);
        let of_server = self.0.server.new_token("all", &Scope::ALL, "*", &[]).await;
        vec![
            Intruder::new("nobody", Some(401)),
            Intruder::new("a token", Some(401)).with("x-token", &self.0.token),
            intruder("unknown", user("nobody", "grape")),
            intruder("with a wrong password", user("admin", "wrong")),
            intruder("without a password", user("admin", "")),
            intruder("a token of the server", format!("Bearer {of_server}")),
        ]
    }

    async fn owner(&self, _: &Route) -> Intruder {
        Intruder::new("its owner", None).with("authorization", user("admin", "grape"))
    }

    /// With the tokens, their limits, and whether requests are logged.
    async fn state(&self) -> String {
        let mut state = contents(&self.0.server).await;
        for path in ["/token/shop", "/limits", "/accesslog"] {
            let route = Route::new("GET", path, &[]);
            let answer = ask(&self.0.admin, &route, &self.owner(&route).await).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            state += &answer.text;
        }
        state
    }

    fn is_own(&self, answer: &Answer) -> bool {
        answer.text.is_empty() && answer.headers.contains_key("www-authenticate")
    }
}
