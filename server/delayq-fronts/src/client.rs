//! Client of a front: a token, or anybody where the configuration says so.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_ops::Operator;
use delayq_plugin::{Namespace, TaskType};
use delayq_service::access::{Caller, Scope, Token};
use delayq_service::app::App;
use delayq_service::config::TokenRule;
use delayq_service::problem::Problem;
use delayq_service::space::Space;

/// The id and name of a client without a token.
pub(super) const ANYBODY: &str = "anybody";

/// Whom a front lets in, and where.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// Whether a client needs a token.
    pub(super) token: TokenRule,
    /// The namespace, unless the token is for another one.
    pub(super) namespace: &'a str,
}

/// A client with a right on a namespace.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) space: Arc<Space>,
    caller: Caller,
    has_token: bool,
}

impl Client {
    /// Checks who asks, and charges one request.
    pub(super) async fn admit(
        app: &App,
        entry: &Entry<'_>,
        headers: &HeaderMap,
        extensions: &Extensions,
        scope: Scope,
    ) -> Result<Self, Problem> {
        let header = headers.get(AUTHORIZATION).map(bearer);
        let has_token = header.is_some() || entry.token == TokenRule::Required;
        let caller = if has_token {
            Caller::presenting(header.as_ref(), extensions, &app.tokens)?
        } else {
            anybody(entry.namespace, extensions)
        };
        let namespace = match caller.token.namespace.as_str() {
            "*" => entry.namespace,
            own => own,
        };
        let namespace = Namespace::new(namespace)?;
        caller.require(scope, &namespace)?;
        caller.charge(&app.limits, &namespace, extensions.get())?;
        Ok(Self {
            space: app.spaces.of(&namespace).await?,
            caller,
            has_token,
        })
    }

    /// Refuses a type that the client has no right to.
    pub(super) fn require_type(&self, task_type: &str) -> Result<TaskType, Problem> {
        self.caller.require_type(task_type)
    }

    /// Whether the client has a right to a type.
    pub(super) fn covers(&self, task_type: &TaskType) -> bool {
        self.caller.token.covers(task_type)
    }

    /// Whether the client has a further right.
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.caller.token.has(scope)
    }

    /// Refuses a token that has become invalid since the request began.
    pub(super) fn is_still(&self, app: &App) -> Result<(), Problem> {
        if self.has_token {
            return self.caller.is_still(&app.tokens);
        }
        Ok(())
    }

    /// Refuses a message that is too large for the token or its namespace.
    pub(super) fn fits(&self, bytes: usize) -> Result<(), Problem> {
        self.caller.fits(&self.space, bytes)
    }

    /// Makes room for a new task, or refuses it, unless it is there already.
    pub(super) async fn make_room_for(&self, task_type: &str, id: &str) -> Result<(), Problem> {
        self.caller.make_room_for(&self.space, task_type, id).await
    }

    /// An operator whose actions are logged under the name of the token.
    pub(super) fn operator(&self) -> Operator {
        self.caller.operator(&self.space)
    }
}

/// The header as `Bearer`. Clients that know only a user and a password send the token as the
/// password.
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

/// Somebody without a token, who may do everything in one namespace.
pub(super) fn anybody(namespace: &str, extensions: &Extensions) -> Caller {
    let token = Token {
        v: Token::VERSION,
        id: ANYBODY.to_owned(),
        name: ANYBODY.to_owned(),
        scopes: [Scope::Admin].into(),
        namespace: namespace.to_owned(),
        types: Vec::new(),
        created_at: 0,
        expires_at: None,
        rate: None,
        max_message_bytes: None,
        max_pending: None,
        hash: String::new(),
        earlier: None,
    };
    Caller {
        token: Arc::new(token),
        origin: Caller::origin_of(extensions),
    }
}
