//! One call: who asks, for which namespace, and with which right.

use std::future::Future;
use std::ops::Deref;

use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use delayq_core::Bucket;
use delayq_plugin::{TaskId, TaskType, TypePattern};
use delayq_proto::{namespace, pb, required, required_type};
use delayq_service::access::{Caller, Scope};
use delayq_service::app::App;
use delayq_service::context::Context;

use super::refusal::CallError;

/// The metadata with which an application says that the server is its store.
const LOGS_ITSELF: &str = "delayq-logs-itself";

/// Most tasks, settlements or locks of one call.
const MAX_BATCH: usize = 1_024;

/// A method of the service, as its request says it.
pub(super) trait Operation: Send + Sized + 'static {
    /// What it answers.
    type Answer: Send;
    /// The scope that it needs; `None`: any token of the namespace.
    const SCOPE: Option<Scope>;

    /// The namespace that the request names.
    fn namespace(&self) -> &str;
}

/// What a method of the service does.
pub(super) trait Run: Operation {
    /// Does it. The namespace and the scope are checked; types are not.
    fn run(self, call: &Call) -> impl Future<Output = Result<Self::Answer, CallError>> + Send;
}

/// An admitted call.
#[derive(Debug)]
pub(super) struct Call {
    context: Context,
    /// The header that the caller was admitted by.
    pub(super) credentials: Option<HeaderValue>,
}

impl Deref for Call {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Call {
    /// Admits a call with the right `scope` on a namespace.
    pub(super) async fn admit(
        app: &App,
        headers: &HeaderMap,
        extensions: &Extensions,
        named: &str,
        scope: Option<Scope>,
    ) -> Result<Self, CallError> {
        // Before anything else is said about the request.
        let mut credentials = headers.get(AUTHORIZATION).cloned();
        let caller = Caller::presenting(credentials.as_ref(), extensions, &app.tokens)?;
        if let Some(header) = &mut credentials {
            header.set_sensitive(true);
        }
        let namespace = namespace(named)?;
        let context = Context::admit(app, caller, &namespace, scope, extensions);
        let mut context = context.await.map_err(CallError::untouched)?;
        context.is_store_of_caller = headers.contains_key(LOGS_ITSELF);
        Ok(Self {
            context,
            credentials,
        })
    }

    /// A type that the token is for.
    pub(super) fn task_type(&self, named: &str) -> Result<TaskType, CallError> {
        let task_type = required_type(named)?;
        Ok(self.caller.require_type(task_type.as_str())?)
    }

    /// A type, or a pattern that ends with `*`, that the token is for.
    pub(super) fn types<'a>(&self, named: &'a str) -> Result<&'a str, CallError> {
        if named.is_empty() {
            required_type(named)?;
        }
        self.caller.require_types(named)?;
        Ok(named)
    }

    /// The same, for what may be set for a pattern.
    pub(super) fn pattern(&self, named: &str) -> Result<TypePattern, CallError> {
        Ok(TypePattern::new(self.types(named)?)?)
    }

    /// A task of a type that the token is for.
    pub(super) fn task(&self, task_type: &str, id: &str) -> Result<(TaskType, TaskId), CallError> {
        Ok((self.task_type(task_type)?, TaskId::new(id)?))
    }

    /// A bucket of a type that the token is for.
    pub(super) fn bucket(&self, named: Option<pb::Bucket>) -> Result<Bucket, CallError> {
        let named = required("bucket", named)?;
        self.task_type(&named.task_type)?;
        Ok(named.try_into()?)
    }
}

/// Refuses a batch that would keep everybody else waiting.
pub(super) fn check_batch(what: &'static str, count: usize) -> Result<(), CallError> {
    if count <= MAX_BATCH {
        return Ok(());
    }
    let error = delayq_plugin::Error::LimitExceeded {
        what,
        actual: count as u64,
        limit: MAX_BATCH as u64,
    };
    Err(error.into())
}
