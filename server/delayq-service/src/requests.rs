//! Accounting of every request, whatever its result.

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::time::Instant;
use tonic::Code;

use crate::app::App;
use crate::limits::Ledger;
use crate::server_metric::{REFUSED, REQUEST_TIME, REQUESTS};

/// The route label of a request, set on the answer by a front that finds routes itself.
#[derive(Clone, Copy, Debug)]
pub struct Route(pub &'static str);

/// Adds accounting to routes.
pub fn counted(app: &App, router: Router) -> Router {
    router.layer(from_fn_with_state(app.clone(), keep))
}

/// Writes the rate limits to the headers of the answer, refunds a request that failed through no
/// fault of the client, and counts the request.
pub async fn keep(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none".to_owned(), |path| path.as_str().to_owned());
    let method = known(request.method());
    let ledger = Ledger::default();
    request.extensions_mut().insert(ledger.clone());
    let mut response = next.run(request).await;
    let own = response.extensions().get::<Route>();
    let route = own.map_or(route, |own| own.0.to_owned());
    let status = response.status();
    if let Some(mut charge) = ledger.take() {
        if status.is_server_error() || is_own_fault(response.headers()) {
            app.limits.refund(&mut charge, 1);
        }
        charge.write(response.headers_mut());
    }
    let failure = grpc_failure(response.headers());
    if let Some(reason) = failure.map_or_else(|| refusal(status), refusal_of_grpc) {
        metrics::counter!(REFUSED, "reason" => reason).increment(1);
    }
    let status = failure.map_or_else(|| status.as_str().to_owned(), |code| format!("{code:?}"));
    metrics::counter!(
        REQUESTS,
        "route" => route.clone(), "method" => method, "status" => status
    )
    .increment(1);
    metrics::histogram!(REQUEST_TIME, "route" => route, "method" => method)
        .record(started.elapsed().as_secs_f64());
    response
}

/// The code of a gRPC call that failed before its answer began.
fn grpc_failure(headers: &HeaderMap) -> Option<Code> {
    let code = Code::from_bytes(headers.get("grpc-status")?.as_bytes());
    (code != Code::Ok).then_some(code)
}

/// Returns true if a gRPC call failed through the server's fault.
fn is_own_fault(headers: &HeaderMap) -> bool {
    matches!(
        grpc_failure(headers),
        Some(Code::Unknown | Code::Internal | Code::Unavailable | Code::DataLoss)
    )
}

/// The method as a metric label; unknown methods share one.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

fn refusal(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::UNAUTHORIZED => Some("unauthorized"),
        StatusCode::FORBIDDEN => Some("forbidden"),
        StatusCode::TOO_MANY_REQUESTS => Some("limit"),
        StatusCode::PAYLOAD_TOO_LARGE => Some("too-large"),
        _ => None,
    }
}

fn refusal_of_grpc(code: Code) -> Option<&'static str> {
    match code {
        Code::Unauthenticated => Some("unauthorized"),
        Code::PermissionDenied => Some("forbidden"),
        Code::ResourceExhausted => Some("limit"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_grpc_is_told_by_its_code_and_not_by_200() {
        let said = |code: &'static str| {
            let headers = [("grpc-status".parse().unwrap(), code.parse().unwrap())];
            let headers = HeaderMap::from_iter(headers);
            let failure = grpc_failure(&headers);
            (
                failure,
                failure.and_then(refusal_of_grpc),
                is_own_fault(&headers),
            )
        };
        assert_eq!(said("0"), (None, None, false));
        assert_eq!(said("5"), (Some(Code::NotFound), None, false));
        assert_eq!(
            said("8"),
            (Some(Code::ResourceExhausted), Some("limit"), false)
        );
        assert_eq!(said("14"), (Some(Code::Unavailable), None, true));
        let unauthorized = Some("unauthorized");
        assert_eq!(
            said("16"),
            (Some(Code::Unauthenticated), unauthorized, false)
        );
        assert_eq!(grpc_failure(&HeaderMap::new()), None);
    }
}
