//! The caller of a request, and the rights of its token.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue};
use delayq_plugin::{Namespace, TaskType, TypePattern};

use super::{Admission, Scope, Token, TokenBook};
use crate::problem::Problem;

/// How often a long-running call checks that its token is still valid.
const RECHECK: Duration = Duration::from_millis(500);

/// A right as a type, so that a handler's signature names the right that it needs.
pub trait Right: Send + Sync + 'static {
    /// The scope that grants this right.
    const SCOPE: Scope;
}

macro_rules! rights {
    ($($name:ident = $scope:ident),*) => {$(
        #[doc = concat!("The right of scope `", stringify!($scope), "`.")]
        #[derive(Debug)]
        pub struct $name;

        impl Right for $name {
            const SCOPE: Scope = Scope::$scope;
        }
    )*};
}

rights!(
    Submit = Submit,
    Work = Work,
    Read = Read,
    Operate = Operate,
    Admin = Admin
);

/// The token in an `Authorization` header.
pub(super) fn bearer(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The IP address of the client of a request, if known.
pub fn client_address(extensions: &Extensions) -> Option<IpAddr> {
    let client = extensions.get::<ConnectInfo<SocketAddr>>();
    client.map(|client| client.0.ip())
}

/// The caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The token of the caller.
    pub token: Arc<Token>,
    /// The IP address of the caller.
    pub origin: String,
    /// The token as admitted. `None` if a front admitted the caller by its own rules; the token is
    /// then not one of the server's.
    admission: Option<Admission>,
}

impl fmt::Display for Caller {
    /// Writes the name under which actions are logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Token { id, name, .. } = &*self.token;
        if self.admission.is_none() {
            return f.write_str(name);
        }
        write!(f, "{name} ({id})")
    }
}

impl Caller {
    /// The id and the name of a client without a token.
    pub const ANYBODY: &str = "anybody";

    /// The caller of a request.
    pub fn of(parts: &Parts, tokens: &TokenBook) -> Result<Self, Problem> {
        Self::presenting(parts.headers.get(AUTHORIZATION), &parts.extensions, tokens)
    }

    /// The caller that presents this header.
    pub fn presenting(
        header: Option<&HeaderValue>,
        extensions: &Extensions,
        tokens: &TokenBook,
    ) -> Result<Self, Problem> {
        let header = header.ok_or_else(|| {
            let text = "send the header `Authorization: Bearer TOKEN`";
            Problem::unauthorized(text)
        })?;
        let text = bearer(header).ok_or_else(|| {
            let text = "send the token as `Authorization: Bearer TOKEN`: another scheme, such as \
                        Basic, is not read";
            Problem::unauthorized(text)
        })?;
        let admission = tokens.admit(text).ok_or_else(|| match tokens.loss() {
            Some(loss) => Problem::not_ready(loss),
            None => Problem::unauthorized("this token is not known, has expired or was revoked"),
        })?;
        Ok(Self {
            token: Arc::clone(&admission.token),
            origin: Self::origin_of(extensions),
            admission: Some(admission),
        })
    }

    /// A caller that a front admitted by its own rules. It may do everything in one namespace. Its
    /// requests are charged to `id`, and its actions are logged under `name`.
    pub fn of_front(id: &str, name: &str, namespace: &str, origin: String) -> Self {
        let token = Token {
            v: Token::VERSION,
            id: id.to_owned(),
            name: name.to_owned(),
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
        Self {
            token: Arc::new(token),
            origin,
            admission: None,
        }
    }

    /// A client of a front that needs no token.
    pub fn anybody(namespace: &str, extensions: &Extensions) -> Self {
        let origin = Self::origin_of(extensions);
        Self::of_front(Self::ANYBODY, Self::ANYBODY, namespace, origin)
    }

    /// The IP address that a request came from; `?` if unknown.
    pub fn origin_of(extensions: &Extensions) -> String {
        client_address(extensions).map_or("?".to_owned(), |address| address.to_string())
    }

    /// Refuses a token that was revoked, rotated or expired since the request began.
    pub fn is_still(&self, tokens: &TokenBook) -> Result<(), Problem> {
        let admission = self.admission.as_ref();
        if admission.is_none_or(|admission| tokens.is_valid(admission)) {
            return Ok(());
        }
        let text = "this token has expired, or was revoked or rotated, while the request waited";
        Err(Problem::unauthorized(text))
    }

    /// Completes with the refusal once the token is no longer valid.
    pub async fn ended(&self, tokens: &TokenBook) -> Problem {
        loop {
            if let Err(problem) = self.is_still(tokens) {
                return problem;
            }
            tokio::time::sleep(RECHECK).await;
        }
    }

    /// Refuses a scope or a namespace that the token does not cover.
    pub fn require(&self, scope: Scope, namespace: &Namespace) -> Result<(), Problem> {
        self.require_namespace(namespace)?;
        if !self.token.has(scope) {
            let text = format!("this needs a token of scope {scope}");
            return Err(Problem::forbidden(text));
        }
        Ok(())
    }

    /// Refuses a namespace that the token does not cover.
    pub fn require_namespace(&self, namespace: &Namespace) -> Result<(), Problem> {
        if self.token.is_for(namespace) {
            return Ok(());
        }
        let text = format!("this token is not for the namespace {namespace}");
        Err(Problem::forbidden(text))
    }

    /// Refuses a type that the token does not cover.
    pub fn require_type(&self, task_type: &str) -> Result<TaskType, Problem> {
        let task_type = TaskType::new(task_type)?;
        if self.token.covers(&task_type) {
            return Ok(task_type);
        }
        let text = format!("this token is not for the type {task_type}");
        Err(Problem::forbidden(text))
    }

    /// Refuses a token that is restricted to some types. For answers about all types.
    pub fn require_all_types(&self) -> Result<(), Problem> {
        if self.token.types.is_empty() {
            return Ok(());
        }
        Err(Problem::forbidden("this needs a token for all types"))
    }

    /// Refuses a type, or a pattern ending in `*`, that the token does not cover completely.
    pub fn require_types(&self, named: &str) -> Result<(), Problem> {
        match named.strip_suffix('*') {
            Some(_) => self.require_pattern(named).map(drop),
            None => self.require_type(named).map(drop),
        }
    }

    /// Refuses a pattern that the token does not cover completely.
    pub fn require_pattern(&self, pattern: &str) -> Result<TypePattern, Problem> {
        let pattern = TypePattern::new(pattern)?;
        if self.token.covers_all(&pattern) {
            return Ok(pattern);
        }
        let text = format!("this token is not for all of {pattern}");
        Err(Problem::forbidden(text))
    }
}
