//! Every route of every front, with everybody who has no right to it: refused in the front's own
//! words, and nothing done. The routes are those of the source: a new one cannot be forgotten.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request};
use delayq_plugin::store::TypeStats;
use delayq_plugin::{Namespace, Timestamp};
use delayq_service::access::{NewToken, Scope};
use http_body_util::BodyExt;
use tower::ServiceExt;

use server::Server;

pub(crate) mod exchange;
mod foreign;
mod grape;
mod lmstfy;
pub(crate) mod server;
mod spring;
mod task_service;

/// What the messages of the tests say, as it stands and in the forms of base64.
const SECRETS: [&str; 2] = ["a secret", "YSBzZWNyZX"];

/// A route, with its names filled in.
#[derive(Clone, Debug)]
struct Route {
    method: &'static str,
    path: &'static str,
    body: Bytes,
    /// What a token has to give, each of them.
    scopes: &'static [Scope],
    /// Whether a token for other types is refused, instead of shown nothing of these.
    is_typed: bool,
}

impl Route {
    fn new(method: &'static str, path: &'static str, scopes: &'static [Scope]) -> Self {
        Self {
            method,
            path,
            body: Bytes::new(),
            scopes,
            is_typed: true,
        }
    }

    fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// The same, which is about all types.
    fn of_all_types(mut self) -> Self {
        self.is_typed = false;
        self
    }
}

/// Somebody who asks without a right, and the status that answers it.
#[derive(Clone, Debug)]
struct Intruder {
    who: &'static str,
    header: Option<(&'static str, String)>,
    /// What stands before the path.
    before: String,
    /// `None`: let in, and shown and given nothing of all this.
    status: Option<u16>,
}

impl Intruder {
    fn new(who: &'static str, status: Option<u16>) -> Self {
        Self {
            who,
            header: None,
            before: String::new(),
            status,
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.header = Some((name, value.into()));
        self
    }
}

/// An answer. The status of gRPC is that of HTTP which says the same.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

/// A client at an address of its own, so that no failure of one brakes another.
fn somebody() -> ConnectInfo<SocketAddr> {
    static ASKED: AtomicU32 = AtomicU32::new(1);
    let address = IpAddr::from(ASKED.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    ConnectInfo(SocketAddr::new(address, 1))
}

/// Asks a front; a path of gRPC is called.
async fn ask(router: &Router, route: &Route, as_whom: &Intruder) -> Answer {
    let path = format!("{}{}", as_whom.before, route.path);
    let is_grpc = route.method == "RPC";
    let method = if is_grpc { "POST" } else { route.method };
    let mut request = Request::builder().method(method).uri(path);
    if is_grpc {
        request = request.header("content-type", "application/grpc");
        request = request.header("te", "trailers");
    }
    if let Some((name, value)) = &as_whom.header {
        request = request.header(*name, value);
    }
    let mut request = request.body(Body::from(route.body.clone())).unwrap();
    request.extensions_mut().insert(somebody());
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let code = head
        .headers
        .get("grpc-status")
        .or(trailers.get("grpc-status"));
    let status = match code.map(axum::http::HeaderValue::as_bytes) {
        Some(b"16") => 401,
        Some(b"7") => 403,
        _ => head.status.as_u16(),
    };
    Answer {
        status,
        headers: head.headers,
        text: String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    }
}

/// A front, and who has no right to its routes.
trait Guarded {
    fn router(&self) -> &Router;
    fn server(&self) -> &Server;
    fn routes(&self) -> Vec<Route>;
    /// Method and path of what the source names, with the names of the routes filled in.
    fn named(&self) -> BTreeSet<(String, String)>;
    /// Everybody without a right; a token of another namespace is for what is there.
    async fn intruders(&self, route: &Route) -> Vec<Intruder> {
        let mut intruders = vec![Intruder::new("nobody", Some(401))];
        for (who, token, status) in tokens(self.server(), route).await {
            let status = status.filter(|_| who != "foreign");
            let intruder = Intruder::new(who, status);
            intruders.push(intruder.with("authorization", format!("Bearer {token}")));
        }
        intruders
    }
    /// Somebody with the right to a route and to nothing else.
    async fn owner(&self, route: &Route) -> Intruder {
        token_owner(self.server(), route).await
    }
    /// What there is, which nobody without a right may change.
    async fn state(&self) -> String {
        contents(self.server()).await
    }
    /// Whether this is how the front refuses.
    fn is_own(&self, answer: &Answer) -> bool;
}

/// The routes of a source, each in a line of its own.
fn routes_of(prefix: &str, source: &str) -> BTreeSet<(String, String)> {
    let mut routes = BTreeSet::new();
    for line in source.lines().filter(|line| line.contains(".route(")) {
        let (_, rest) = line.split_once(".route(").unwrap();
        let parts = rest
            .strip_prefix('"')
            .and_then(|rest| rest.split_once("\", "));
        let (path, methods) = parts.unwrap_or_else(|| panic!("no route in one line: {line}"));
        let before = routes.len();
        for method in ["get", "post", "put", "delete", "patch", "any"] {
            if methods.contains(&format!("{method}(")) {
                routes.insert((method.to_uppercase(), format!("{prefix}{path}")));
            }
        }
        assert!(
            routes.len() > before,
            "no method, or the route of another line: {line}"
        );
    }
    routes
}

/// What there is in the namespace that nobody has a right to.
async fn contents(server: &Server) -> String {
    let space = server.app.spaces.of(&Namespace::default()).await.unwrap();
    let store = space.tasks.store();
    let mut contents = Vec::new();
    for task_type in store.types().await.unwrap() {
        let TypeStats {
            scheduled,
            running,
            dead,
            totals,
            ..
        } = store.stats(&task_type).await.unwrap();
        contents.push(format!(
            "{task_type} {scheduled} {running} {dead} {totals:?}"
        ));
    }
    contents.sort();
    contents.join("\n")
}

/// Tokens of a server that give no right to a route, each with the status that answers it.
async fn tokens(server: &Server, route: &Route) -> Vec<(&'static str, String, Option<u16>)> {
    let token = async |scopes: &[Scope], namespace: &str, types: &[&str], ends: Option<i64>| {
        let new = NewToken {
            name: "test".to_owned(),
            scopes: scopes.iter().copied().collect(),
            namespace: namespace.to_owned(),
            types: types.iter().map(ToString::to_string).collect(),
            expires_at: ends.map(Timestamp::from_millis),
            rate: None,
            max_message_bytes: None,
            max_pending: None,
        };
        server.app.tokens.create(new).await.unwrap().1
    };
    let revoked = token(&Scope::ALL, "default", &[], None).await;
    let id = revoked.split('_').nth(1).unwrap();
    assert!(server.app.tokens.revoke(id).await.unwrap());
    let narrow = token(&Scope::ALL, "default", &["order.*"], None).await;
    let mut tokens = vec![
        ("unknown", "dq_x_y".to_owned(), Some(401)),
        (
            "expired",
            token(&Scope::ALL, "default", &[], Some(1)).await,
            Some(401),
        ),
        ("revoked", revoked, Some(401)),
        (
            "foreign",
            token(&Scope::ALL, "shop", &[], None).await,
            Some(403),
        ),
        ("of other types", narrow, route.is_typed.then_some(403)),
    ];
    for lacking in route.scopes {
        let others = Scope::ALL.into_iter();
        let others = others.filter(|one| one != lacking && *one != Scope::Admin);
        let others: Vec<_> = others.collect();
        tokens.push((
            "too narrow",
            token(&others, "default", &[], None).await,
            Some(403),
        ));
    }
    tokens
}

/// Somebody with a token of a server for a route alone.
async fn token_owner(server: &Server, route: &Route) -> Intruder {
    let token = server.new_token("own", route.scopes, "default", &[]).await;
    Intruder::new("its owner", None).with("authorization", format!("Bearer {token}"))
}

async fn check(front: &impl Guarded) {
    let path_of = |route: &Route| route.path.split('?').next().unwrap().to_owned();
    let routes = front.routes();
    let listed = routes
        .iter()
        .map(|route| (route.method.to_owned(), path_of(route)));
    assert_eq!(listed.collect::<BTreeSet<_>>(), front.named());
    let before = front.state().await;
    assert!(!before.is_empty());
    for route in &routes {
        for intruder in front.intruders(route).await {
            let place = format!("{} {} as {}", route.method, route.path, intruder.who);
            let answer = ask(front.router(), route, &intruder).await;
            if let Some(status) = intruder.status {
                assert_eq!(answer.status, status, "{place}: {answer:?}");
                assert!(front.is_own(&answer), "{place}: {answer:?}");
            } else {
                let is_shown = answer.status == 200 && answer.text.contains("mail");
                assert!(answer.status < 500 && !is_shown, "{place}: {answer:?}");
            }
            let is_shown = SECRETS.iter().any(|secret| answer.text.contains(secret));
            assert!(!is_shown, "{place}: {answer:?}");
            assert_eq!(front.state().await, before, "{place}");
        }
    }
    for route in &routes {
        let answer = ask(front.router(), route, &front.owner(route).await).await;
        let is_let_in = ![302, 401, 403].contains(&answer.status) && answer.status < 500;
        assert!(is_let_in, "{} {}: {answer:?}", route.method, route.path);
    }
}

#[tokio::test]
async fn no_route_of_a_front_is_reached_without_its_own_right() {
    check(&grape::Verbs::open().await).await;
    check(&task_service::Service::open().await).await;
    check(&spring::Paths::open().await).await;
    check(&lmstfy::Api::open().await).await;
    check(&lmstfy::Administration::open().await).await;
}
