//! Rights of a request: the only way from a route to a namespace.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRef, FromRequestParts, RawPathParams};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue};
use delayq_ops::Operator;
use delayq_plugin::{DelayQueueJob, Namespace, TaskType, TypePattern};

use super::{Scope, Token, TokenBook};
use crate::limits::{Bounded, Charge, Ledger, Limits, Payer};
use crate::problem::Problem;
use crate::space::{Space, Spaces};

/// How often it is checked whether the token of work that goes on is still valid.
const RECHECK: Duration = Duration::from_millis(500);

/// A right, as a type, so that a handler says which one it needs.
pub trait Right: Send + Sync + 'static {
    /// The scope that gives it.
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

/// The token that a header `Authorization` has.
pub(super) fn bearer(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// With which token.
    pub token: Arc<Token>,
    /// From where.
    pub origin: String,
}

impl Caller {
    /// The caller of a request.
    pub fn of(parts: &Parts, tokens: &TokenBook) -> Result<Self, Problem> {
        Self::presenting(parts.headers.get(AUTHORIZATION), &parts.extensions, tokens)
    }

    /// Whoever presents this header.
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
        let token = tokens.admit(text).ok_or_else(|| {
            let text = "this token is not known, has expired or was revoked";
            Problem::unauthorized(text)
        })?;
        let origin = Self::origin_of(extensions);
        Ok(Self { token, origin })
    }

    /// From where a request came.
    pub fn origin_of(extensions: &Extensions) -> String {
        let peer = extensions.get::<ConnectInfo<SocketAddr>>();
        peer.map_or("?".to_owned(), |peer| peer.0.ip().to_string())
    }

    /// Refuses a token that was revoked, changed or has expired since the request began.
    pub fn is_still(&self, tokens: &TokenBook) -> Result<(), Problem> {
        if tokens.is_valid(&self.token) {
            return Ok(());
        }
        let text = "this token has expired or was revoked while the request waited";
        Err(Problem::unauthorized(text))
    }

    /// Completes once the token is valid no more, with the refusal.
    pub async fn ended(&self, tokens: &TokenBook) -> Problem {
        loop {
            if let Err(problem) = self.is_still(tokens) {
                return problem;
            }
            tokio::time::sleep(RECHECK).await;
        }
    }

    /// Refuses what the token has no right to.
    pub fn require(&self, scope: Scope, namespace: &Namespace) -> Result<(), Problem> {
        self.require_namespace(namespace)?;
        if !self.token.has(scope) {
            let text = format!("this needs a token of scope {scope}");
            return Err(Problem::forbidden(text));
        }
        Ok(())
    }

    /// Charges one request to the token and its namespace, or refuses it.
    pub fn charge(
        &self,
        limits: &Limits,
        namespace: &Namespace,
        ledger: Option<&Ledger>,
    ) -> Result<(), Problem> {
        let payer = Payer {
            token: &self.token.id,
            rate: self.token.rate,
            namespace,
        };
        let charge = limits.charge(payer, 1);
        let refusal = (!charge.is_granted()).then(|| charge.refusal());
        if let Some(ledger) = ledger {
            ledger.put(charge);
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Refuses a message that is too large for the token or the namespace.
    pub fn fits(&self, space: &Space, bytes: usize) -> Result<(), Problem> {
        if let Some(max) = self.token.max_message_bytes
            && bytes > max
        {
            let text = format!("a message of {bytes} bytes: this token may send {max}");
            return Err(Problem::too_large(text));
        }
        space.fits(bytes)
    }

    /// Makes room for `tasks` new tasks of the token in the namespace, or refuses them.
    pub async fn make_room(&self, space: &Space, tasks: u64) -> Result<(), Problem> {
        if let Some(max) = self.token.max_pending {
            let bounded = Bounded::Token {
                id: &self.token.id,
                covers: &|task_type| self.token.covers(task_type),
            };
            space.admit_within(bounded, tasks, max).await?;
        }
        space.admit(tasks).await
    }

    /// Makes room for a new task, or refuses it, unless it is there already.
    pub async fn make_room_for(
        &self,
        space: &Space,
        task_type: &str,
        id: &str,
    ) -> Result<(), Problem> {
        if let Err(full) = self.make_room(space, 1).await {
            return space.unless_known(full, task_type, id).await;
        }
        Ok(())
    }

    /// Makes room for new tasks, each given as its type and id, and says of each why it is refused:
    /// one too many stops no other.
    pub async fn make_room_for_each(
        &self,
        space: &Space,
        tasks: &[(&str, &str)],
    ) -> Vec<Option<Problem>> {
        if self.make_room(space, tasks.len() as u64).await.is_ok() {
            return vec![None; tasks.len()];
        }
        let mut refused = Vec::with_capacity(tasks.len());
        for (task_type, id) in tasks {
            refused.push(self.make_room_for(space, task_type, id).await.err());
        }
        refused
    }

    /// Charges many requests that one brought, once there is room for them.
    pub async fn pace(&self, limits: &Limits, namespace: &Namespace, cost: u32) -> Charge {
        let payer = Payer {
            token: &self.token.id,
            rate: self.token.rate,
            namespace,
        };
        limits.pace(payer, cost).await
    }

    /// Refuses a namespace that the token is not for.
    pub fn require_namespace(&self, namespace: &Namespace) -> Result<(), Problem> {
        if self.token.is_for(namespace) {
            return Ok(());
        }
        let text = format!("this token is not for the namespace {namespace}");
        Err(Problem::forbidden(text))
    }

    /// Refuses a type that the token is not for.
    pub fn require_type(&self, task_type: &str) -> Result<TaskType, Problem> {
        let task_type = TaskType::new(task_type)?;
        if self.token.covers(&task_type) {
            return Ok(task_type);
        }
        let text = format!("this token is not for the type {task_type}");
        Err(Problem::forbidden(text))
    }

    /// Refuses a token that is for some types only, where the answer is about all.
    pub fn require_all_types(&self) -> Result<(), Problem> {
        if self.token.types.is_empty() {
            return Ok(());
        }
        Err(Problem::forbidden("this needs a token for all types"))
    }

    /// Refuses a target of its own for a task, where it takes a right more.
    pub fn require_own_target(&self, space: &Space) -> Result<(), Problem> {
        if space.push.is_open() || self.token.has(Scope::Operate) {
            return Ok(());
        }
        let text = "a target of its own takes a token of scope operate as well: or set \
                    push.allow_task_targets = true";
        Err(Problem::forbidden(text))
    }

    /// An operator whose actions are logged under the name of the token.
    pub fn operator(&self, space: &Space) -> Operator {
        let Token { id, name, .. } = &*self.token;
        let actor = format!("{name} ({id})");
        Operator::new(&space.tasks, actor, &self.origin)
    }

    /// Refuses a type, or a pattern that ends with `*`, with a type that the token is not for.
    pub fn require_types(&self, named: &str) -> Result<(), Problem> {
        match named.strip_suffix('*') {
            Some(_) => self.require_pattern(named).map(drop),
            None => self.require_type(named).map(drop),
        }
    }

    /// Refuses a type or pattern with a type that the token is not for.
    pub fn require_pattern(&self, pattern: &str) -> Result<TypePattern, Problem> {
        let pattern = TypePattern::new(pattern)?;
        if self.token.covers_all(&pattern) {
            return Ok(pattern);
        }
        let text = format!("this token is not for all of {pattern}");
        Err(Problem::forbidden(text))
    }
}

/// A caller with the right `R` on the namespace of the path, and on its type if it names one.
#[derive(Debug)]
pub struct Allowed<R> {
    /// The namespace, with all that it offers.
    pub space: Arc<Space>,
    /// Who asks.
    pub caller: Caller,
    right: PhantomData<R>,
}

impl<R> Allowed<R> {
    /// Refuses a message that is too large for the token or its namespace.
    pub fn fits(&self, bytes: usize) -> Result<(), Problem> {
        self.caller.fits(&self.space, bytes)
    }

    /// Makes room for a new task, or refuses it.
    pub async fn make_room_for(&self, job: &DelayQueueJob) -> Result<(), Problem> {
        let (caller, space) = (&self.caller, &self.space);
        let made = caller.make_room_for(space, job.task_type(), job.task_id());
        made.await
    }

    /// An operator whose actions are logged under the name of the token.
    pub fn operator(&self) -> Operator {
        self.caller.operator(&self.space)
    }
}

impl<R, S> FromRequestParts<S> for Allowed<R>
where
    R: Right,
    S: Send + Sync,
    Arc<TokenBook>: FromRef<S>,
    Arc<Spaces>: FromRef<S>,
    Arc<Limits>: FromRef<S>,
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
            caller.require_types(task_type)?;
        }
        if let Some((_, types)) = named("types") {
            for task_type in types.split(',') {
                caller.require_type(task_type)?;
            }
        }
        let limits = Arc::<Limits>::from_ref(state);
        caller.charge(&limits, &namespace, parts.extensions.get())?;
        Ok(Self {
            space: Arc::<Spaces>::from_ref(state).of(&namespace).await?,
            caller,
            right: PhantomData,
        })
    }
}
