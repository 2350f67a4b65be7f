//! Refuses the parts of a request that its route does not read. Ignored, they would let the work be
//! done with a default instead.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use delayq_service::context::Stray;
use delayq_service::problem::Problem;
use http_body_util::BodyExt;
use serde_json::Value;

use super::form::TASK_HEADER;
use delayq_service::push::OWN_TARGET;

/// The prefix of the headers of delayq.
const PREFIX: &str = "delayq-";

/// The parts that each route reads, by its method and path.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    known: Arc<HashMap<String, HashMap<String, Reads>>>,
    body_timeout: Duration,
}

/// What a route reads.
#[derive(Debug)]
struct Reads {
    /// The names of its query.
    query: BTreeSet<String>,
    has_body: bool,
    /// Whether it creates a task, whose headers and target are in headers of the request.
    is_create: bool,
}

impl Routes {
    /// Those of a document.
    pub(super) fn of(document: &Value, body_timeout: Duration) -> Self {
        let mut known: HashMap<_, HashMap<_, _>> = HashMap::new();
        let paths = document.get("paths").and_then(Value::as_object);
        for (path, methods) in paths.into_iter().flatten() {
            for (method, route) in methods.as_object().into_iter().flatten() {
                let of_path = known.entry(path.clone()).or_default();
                of_path.insert(method.to_ascii_uppercase(), Reads::of(route));
            }
        }
        Self {
            known: Arc::new(known),
            body_timeout,
        }
    }
}

impl Reads {
    fn of(route: &Value) -> Self {
        let parameters = route.get("parameters").and_then(Value::as_array);
        let named = |parameter: &Value| {
            let is_query = parameter.get("in").and_then(Value::as_str) == Some("query");
            let name = parameter.get("name").and_then(Value::as_str)?;
            is_query.then(|| name.to_owned())
        };
        let operation = route.get("operationId").and_then(Value::as_str);
        Self {
            query: parameters.into_iter().flatten().filter_map(named).collect(),
            has_body: route.get("requestBody").is_some(),
            is_create: matches!(operation, Some("create" | "create_with_id")),
        }
    }

    /// The options of the route, in words.
    fn takes(&self) -> String {
        let body = if self.has_body { " and a body" } else { "" };
        let query: Vec<_> = self.query.iter().map(String::as_str).collect();
        match query.as_slice() {
            [] if self.has_body => "it takes a body".to_owned(),
            [] => "it takes no options".to_owned(),
            query => format!("it takes {} in its query{body}", query.join(", ")),
        }
    }

    /// The problem with a request of this query and these headers, if there is one.
    fn problem(&self, query: &str, headers: &HeaderMap) -> Option<Problem> {
        let mut names = url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
        if let Some(stray) = names.find(|name| !self.query.contains(name.as_ref())) {
            let takes = self.takes();
            let text = format!("{stray}: this route has no such option in its query: {takes}");
            return Some(Problem::bad_request(text));
        }
        let own = |name: &&str| *name == OWN_TARGET || name.starts_with(TASK_HEADER);
        let mut headers = headers.keys().map(axum::http::HeaderName::as_str);
        let stray = headers.find(|name| name.starts_with(PREFIX) && !(self.is_create && own(name)));
        let stray = stray?;
        let text = if self.is_create {
            format!(
                "{stray}: there is no such header. Options are in the query, such as ?delay=30m; \
                 headers of the task begin with {TASK_HEADER}, and {OWN_TARGET} is its target"
            )
        } else {
            let takes = self.takes();
            format!("{stray}: this route reads no `{PREFIX}` headers: {takes}")
        };
        Some(Problem::bad_request(text))
    }
}

/// Finds what is stray, for the route to refuse once the caller is admitted.
pub(super) async fn note(State(routes): State<Routes>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let of_path = path.and_then(|path| routes.known.get(path.as_str()));
    let Some(reads) = of_path.and_then(|known| known.get(request.method().as_str())) else {
        return next.run(request).await;
    };
    let (mut parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let mut problem = reads.problem(query, &parts.headers);
    let body = if reads.has_body {
        body
    } else if !body.is_end_stream() && Box::pin(has_content(body, routes.body_timeout)).await {
        let text = format!("this route reads no body: {}", reads.takes());
        problem = problem.or_else(|| Some(Problem::bad_request(text)));
        Body::empty()
    } else {
        Body::empty()
    };
    if let Some(problem) = problem {
        parts.extensions.insert(Stray(problem));
    }
    next.run(Request::from_parts(parts, body)).await
}

/// Returns true if a body has content. A body that does not arrive in time counts as content.
async fn has_content(mut body: Body, within: Duration) -> bool {
    let first = async {
        while let Some(Ok(frame)) = body.frame().await {
            if frame.data_ref().is_some_and(|data| !data.is_empty()) {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(within, first).await.unwrap_or(true)
}
