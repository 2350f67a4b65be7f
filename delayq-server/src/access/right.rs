//! Rights of a request: the only way from a route to a namespace.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRef, FromRequestParts, RawPathParams};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use delayq_ops::Operator;
use delayq_plugin::{Namespace, TaskType};

use super::{Scope, Token, TokenBook};
use crate::problem::Problem;
use crate::space::{Space, Spaces};

/// A right, as a type, so that a handler says which one it needs.
pub(crate) trait Right: Send + Sync + 'static {
    /// The scope that gives it.
    const SCOPE: Scope;
}

macro_rules! rights {
    ($($name:ident = $scope:ident),*) => {$(
        #[doc = concat!("The right of scope `", stringify!($scope), "`.")]
        #[derive(Debug)]
        pub(crate) struct $name;

        impl Right for $name {
            const SCOPE: Scope = Scope::$scope;
        }
    )*};
}

rights!(Submit = Submit, Read = Read, Operate = Operate);

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// With which token.
    pub(crate) token: Arc<Token>,
    /// From where.
    pub(crate) origin: String,
}

impl Caller {
    /// The caller of a request.
    pub(crate) fn of(parts: &Parts, tokens: &TokenBook) -> Result<Self, Problem> {
        let header = parts.headers.get(AUTHORIZATION);
        let header = header.ok_or_else(|| {
            let text = "send the header `Authorization: Bearer TOKEN`";
            Problem::unauthorized(text)
        })?;
        let text = header.to_str().unwrap_or_default();
        let token = match text.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            _ => "",
        };
        let token = tokens.admit(token).ok_or_else(|| {
            let text = "this token is not known, has expired or was revoked";
            Problem::unauthorized(text)
        })?;
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let origin = peer.map_or("?".to_owned(), |peer| peer.0.ip().to_string());
        Ok(Self { token, origin })
    }

    /// Refuses what the token has no right to.
    pub(crate) fn require(&self, scope: Scope, namespace: &Namespace) -> Result<(), Problem> {
        if !self.token.is_for(namespace) {
            let text = format!("this token is not for the namespace {namespace}");
            return Err(Problem::forbidden(text));
        }
        if !self.token.has(scope) {
            let text = format!("this needs a token of scope {scope}");
            return Err(Problem::forbidden(text));
        }
        Ok(())
    }

    /// Refuses a type that the token is not for.
    pub(crate) fn require_type(&self, task_type: &str) -> Result<TaskType, Problem> {
        let task_type = TaskType::new(task_type)?;
        if self.token.covers(&task_type) {
            return Ok(task_type);
        }
        let text = format!("this token is not for the type {task_type}");
        Err(Problem::forbidden(text))
    }
}

/// A caller with the right `R` on the namespace of the path, and on its type if it names one.
#[derive(Debug)]
pub(crate) struct Allowed<R> {
    /// The namespace, with all that it offers.
    pub(crate) space: Arc<Space>,
    /// Who asks.
    pub(crate) caller: Caller,
    right: PhantomData<R>,
}

impl<R> Allowed<R> {
    /// An operator whose actions are logged under the name of the token.
    pub(crate) fn operator(&self) -> Operator {
        let Token { id, name, .. } = &*self.caller.token;
        let actor = format!("{name} ({id})");
        Operator::new(&self.space.tasks, actor, &self.caller.origin)
    }
}

impl<R, S> FromRequestParts<S> for Allowed<R>
where
    R: Right,
    S: Send + Sync,
    Arc<TokenBook>: FromRef<S>,
    Arc<Spaces>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // Before anything else is said about the request.
        let caller = Caller::of(parts, &Arc::<TokenBook>::from_ref(state))?;
        let path = RawPathParams::from_request_parts(parts, state).await;
        let path = path.map_err(|error| Problem::bad_request(error.to_string()))?;
        let named = |name: &str| path.iter().find(|(key, _)| *key == name);
        let (_, namespace) = named("namespace").unwrap_or_default();
        let namespace = Namespace::new(namespace)?;
        caller.require(R::SCOPE, &namespace)?;
        if let Some((_, task_type)) = named("task_type") {
            caller.require_type(task_type)?;
        }
        Ok(Self {
            space: Arc::<Spaces>::from_ref(state).of(&namespace).await?,
            caller,
            right: PhantomData,
        })
    }
}
