//! The context of an operation: the caller and the namespace.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Extensions;
use axum::http::request::Parts;
use delayq_core::Limits;
use delayq_core::job::{MAX_MESSAGE_BYTES, check_message};
use delayq_ops::Operator;
use delayq_plugin::{Namespace, Store, TaskSubmitService};

use crate::access::{Caller, Right, Scope};
use crate::app::App;
use crate::limits::{Charge, Ledger, Payer};
use crate::problem::Problem;
use crate::space::Space;

/// An admitted request: its caller and its namespace.
#[derive(Clone, Debug)]
pub struct Context {
    /// State shared by all requests.
    pub app: App,
    /// The caller of the request.
    pub caller: Caller,
    /// The namespace.
    pub space: Arc<Space>,
    /// True if the caller is an application that uses the server as its store. Such an application
    /// counts its own attempts and writes its own log of actions.
    pub is_store_of_caller: bool,
    /// The largest message at this entry, in bytes; the namespace or the token may allow less.
    pub max_message_bytes: usize,
    /// True if the times of tasks must be within the limits of delayq. The protocols of other
    /// systems have their own limits.
    pub checks_times: bool,
}

impl Context {
    /// Admits a caller with the right `scope` and charges one request. With `None`, any token of
    /// the namespace is admitted.
    ///
    /// # Errors
    /// `forbidden`, `rate-limited`, `not-found` for a namespace that is not declared, and
    /// `unavailable` if its store cannot be opened.
    pub async fn admit(
        app: &App,
        caller: Caller,
        namespace: &Namespace,
        scope: Option<Scope>,
        extensions: &Extensions,
    ) -> Result<Self, Problem> {
        match scope {
            Some(scope) => caller.require(scope, namespace)?,
            None => caller.require_namespace(namespace)?,
        }
        charge(app, payer(&caller, namespace), extensions)?;
        let space = app.spaces.of(namespace).await?;
        Ok(Self::within(app, caller, space))
    }

    /// The context of a caller that a front admitted by its own rules.
    pub fn within(app: &App, caller: Caller, space: Arc<Space>) -> Self {
        Self {
            app: app.clone(),
            caller,
            space,
            is_store_of_caller: false,
            max_message_bytes: app.config.max_message_bytes,
            checks_times: true,
        }
    }

    /// Charges one request of a caller that a front admitted.
    pub fn charge(&self, extensions: &Extensions) -> Result<(), Problem> {
        charge(&self.app, self.payer(), extensions)
    }

    /// The tasks of the namespace. Calls of an application that uses the server as its store are
    /// not counted here, because the application counts them.
    pub fn tasks(&self) -> &TaskSubmitService {
        if self.is_store_of_caller {
            &self.space.uncounted
        } else {
            &self.space.tasks
        }
    }

    /// The store of the namespace.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.space.tasks.store()
    }

    /// The largest message of this caller, in bytes, and the source of the limit.
    fn max_message(&self) -> (usize, &'static str) {
        let bounds = [
            (Some(self.max_message_bytes), "the server takes"),
            (self.space.limits.max_message_bytes, "the namespace allows"),
            (self.caller.token.max_message_bytes, "this token may send"),
        ];
        let known = bounds
            .into_iter()
            .filter_map(|(max, who)| Some((max?, who)));
        known.min().unwrap_or((MAX_MESSAGE_BYTES, "a store takes"))
    }

    /// The largest message of this caller, in bytes: the smallest limit of entry, namespace and
    /// token.
    pub fn max_message_size(&self) -> usize {
        self.max_message().0
    }

    /// Refuses a message that exceeds the limit of the entry, the namespace or the token.
    ///
    /// # Errors
    /// `limit-exceeded`.
    pub fn check_message(&self, message: &[u8]) -> Result<(), Problem> {
        let (max, who) = self.max_message();
        let limits = Limits {
            max_message_bytes: max,
            ..Limits::default()
        };
        check_message(message, &limits).map_err(|error| {
            let text = format!("a message of {} bytes: {who} {max}", message.len());
            Problem::from(error).saying(text)
        })
    }

    /// True if the token or the namespace limits the number of pending tasks.
    pub fn limits_pending(&self) -> bool {
        self.caller
            .token
            .max_pending
            .or(self.space.limits.max_pending)
            .is_some()
    }

    /// Refuses a caller that may not create tasks, where `what` does.
    ///
    /// # Errors
    /// `forbidden` without the scope `submit`.
    pub fn require_submit(&self, what: &str) -> Result<(), Problem> {
        let checked = self.caller.require(Scope::Submit, &self.space.namespace);
        checked.map_err(|_| {
            let text = format!("{what} need a token of scope submit as well, for their types");
            Problem::forbidden(text)
        })
    }

    /// Refuses a token that was revoked or expired since the request began.
    pub fn recheck(&self) -> Result<(), Problem> {
        self.caller.is_still(&self.app.tokens)
    }

    /// Runs `work` while the token of the caller is valid. Afterwards stops it as if the client had
    /// disconnected.
    pub async fn while_admitted<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        tokio::select! {
            done = work => done,
            problem = self.caller.ended(&self.app.tokens) => Err(problem),
        }
    }

    /// An operator that logs its actions under the name of the token.
    pub fn operator(&self) -> Operator {
        let token = Arc::clone(&self.caller.token);
        Operator::new(
            &self.space.tasks,
            self.caller.to_string(),
            &self.caller.origin,
        )
        .naming(move |task_type| token.covers(task_type))
    }

    /// An operator for store operations. An application that uses the server as its store writes
    /// its own log.
    pub fn store_operator(&self) -> Operator {
        let operator = self.operator();
        if self.is_store_of_caller {
            operator.silent()
        } else {
            operator
        }
    }

    /// Charges `requests` more and returns true, if the rate allows them now.
    pub fn may_ask(&self, requests: usize) -> bool {
        let charge = self.app.limits.charge(self.payer(), cost(requests));
        charge.is_granted()
    }

    /// Waits until the rate allows `requests` more, and charges them.
    pub async fn throttle(&self, requests: usize) -> Charge {
        self.app.limits.pace(self.payer(), cost(requests)).await
    }

    /// Refunds requests that failed through no fault of the client.
    pub fn refund(&self, charge: &mut Charge, requests: usize) {
        self.app.limits.refund(charge, cost(requests));
    }

    fn payer(&self) -> Payer<'_> {
        payer(&self.caller, &self.space.namespace)
    }
}

/// Charges one request and refuses it if the rate does not allow it. Records the remaining quota
/// for the headers of the answer.
fn charge(app: &App, payer: Payer<'_>, extensions: &Extensions) -> Result<(), Problem> {
    let charge = app.limits.charge(payer, 1);
    let refusal = (!charge.is_granted()).then(|| charge.refusal());
    if let Some(ledger) = extensions.get::<Ledger>() {
        ledger.put(charge);
    }
    refusal.map_or(Ok(()), Err)
}

fn cost(requests: usize) -> u32 {
    u32::try_from(requests).unwrap_or(u32::MAX)
}

fn payer<'a>(caller: &'a Caller, namespace: &'a Namespace) -> Payer<'a> {
    Payer {
        token: &caller.token.id,
        rate: caller.token.rate,
        namespace,
    }
}

/// A part of a request that its route does not read. It is found before the caller is known, and
/// refused once the caller is admitted.
#[derive(Clone, Debug)]
pub struct Stray(pub Problem);

/// The context of a caller with the right `R` on the namespace of the path and on the types named
/// there.
#[derive(Debug)]
pub struct Allowed<R> {
    context: Context,
    right: PhantomData<R>,
}

impl<R> Deref for Allowed<R> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl<R: Right> FromRequestParts<App> for Allowed<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        // The token is checked before any other part of the request.
        let caller = Caller::of(parts, &app.tokens)?;
        let path = RawPathParams::from_request_parts(parts, app).await;
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
        let scope = Some(R::SCOPE);
        let context = Context::admit(app, caller, &namespace, scope, &parts.extensions).await?;
        if let Some(Stray(problem)) = parts.extensions.remove() {
            return Err(problem);
        }
        Ok(Self {
            context,
            right: PhantomData,
        })
    }
}

/// A caller with the right `R` on every namespace and type.
#[derive(Debug)]
pub struct Everywhere<R>(PhantomData<R>);

impl<R: Right> FromRequestParts<App> for Everywhere<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = Caller::of(parts, &app.tokens)?;
        let token = &caller.token;
        if token.namespace == "*" && token.types.is_empty() && token.has(R::SCOPE) {
            return Ok(Self(PhantomData));
        }
        let text = format!(
            "this needs a token of scope {} for every namespace and type",
            R::SCOPE
        );
        Err(Problem::forbidden(text))
    }
}
