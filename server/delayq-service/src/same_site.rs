//! Requests of browsers from other sites.

use axum::http::HeaderMap;
use axum::http::uri::Authority;

use crate::problem::Problem;

/// Returns true unless the browser says that a request comes from another site.
pub fn is_same_site(headers: &HeaderMap, authority: Option<&Authority>) -> bool {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    delayq_ops::is_same_site(header, authority.map(Authority::as_str))
}

/// Refuses a request without a token that a page of another site sent. It comes from within the
/// trusted network, and is not meant by anybody there.
pub fn refuse_foreign(headers: &HeaderMap) -> Result<(), Problem> {
    if is_same_site(headers, None) {
        return Ok(());
    }
    let text = "a page of another site sent this request: it needs a token";
    Err(Problem::forbidden(text))
}
