//! The client of a front: a token, or anybody if the configuration allows it.

use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_plugin::Namespace;
use delayq_service::access::{Caller, Scope};
use delayq_service::app::App;
use delayq_service::config::TokenRule;
use delayq_service::context::Context;
use delayq_service::problem::Problem;
use delayq_service::same_site::refuse_foreign;

/// Admission rules of a front.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// Whether a client needs a token.
    pub(super) token: TokenRule,
    /// The namespace, unless the token names another.
    pub(super) namespace: &'a str,
}

/// The caller, if it may enter.
pub(super) fn caller_of(
    app: &App,
    entry: &Entry<'_>,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<Caller, Problem> {
    let header = headers.get(AUTHORIZATION).map(bearer);
    if header.is_some() || entry.token == TokenRule::Required {
        return Caller::presenting(header.as_ref(), extensions, &app.tokens);
    }
    refuse_foreign(headers)?;
    Ok(Caller::anybody(entry.namespace, extensions))
}

/// Admits the caller and charges one request.
pub(super) async fn admit(
    app: &App,
    entry: &Entry<'_>,
    headers: &HeaderMap,
    extensions: &Extensions,
    scope: Scope,
) -> Result<Context, Problem> {
    let caller = caller_of(app, entry, headers, extensions)?;
    let namespace = match caller.token.namespace.as_str() {
        "*" => entry.namespace,
        own => own,
    };
    let namespace = Namespace::new(namespace)?;
    Context::admit(app, caller, &namespace, Some(scope), extensions).await
}

/// Converts the header to `Bearer`. A client that supports only user and password sends the token
/// as the password.
pub(super) fn bearer(header: &HeaderValue) -> HeaderValue {
    let password = || {
        let (scheme, encoded) = header.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
        let (_, password) = decoded.split_once(':')?;
        HeaderValue::try_from(format!("Bearer {password}")).ok()
    };
    password().unwrap_or_else(|| header.clone())
}
