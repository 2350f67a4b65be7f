//! One call: its caller, its namespace and its right.

use std::future::Future;
use std::ops::Deref;

use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap};
use delayq_core::Bucket;
use delayq_plugin::{TaskId, TaskType, TypePattern};
use delayq_proto::{namespace, pb, required, required_type};
use delayq_service::access::{Caller, Scope};
use delayq_service::app::App;
use delayq_service::context::Context;

use super::refusal::CallError;

/// The metadata key by which an application declares that the server is its store.
const LOGS_ITSELF: &str = "delayq-logs-itself";

/// The largest number of tasks, settlements or locks in one call.
const MAX_BATCH: usize = 1_024;

/// A method of the service, identified by its request.
pub(super) trait Operation: Send + Sized + 'static {
    /// The type of the answer.
    type Answer: Send;
    /// The required scope; `None` means any token of the namespace.
    const SCOPE: Option<Scope>;

    /// The namespace named in the request.
    fn namespace(&self) -> &str;
}

/// The work of a service method.
pub(super) trait Run: Operation {
    /// Runs the method. The namespace and the scope are already checked, but types are not.
    fn run(self, call: &Call) -> impl Future<Output = Result<Self::Answer, CallError>> + Send;
}

/// An admitted call.
#[derive(Debug)]
pub(super) struct Call {
    context: Context,
}

impl Deref for Call {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Call {
    /// Admits a call with the right `scope` to a namespace.
    pub(super) async fn admit(
        app: &App,
        headers: &HeaderMap,
        extensions: &Extensions,
        named: &str,
        scope: Option<Scope>,
    ) -> Result<Self, CallError> {
        // The token is checked before any other part of the request.
        let header = headers.get(AUTHORIZATION);
        let caller = Caller::presenting(header, extensions, &app.tokens)?;
        let namespace = namespace(named)?;
        let context = Context::admit(app, caller, &namespace, scope, extensions);
        let mut context = context.await.map_err(CallError::untouched)?;
        context.is_store_of_caller = headers.contains_key(LOGS_ITSELF);
        Ok(Self { context })
    }

    /// A type; refused if the token does not cover it.
    pub(super) fn task_type(&self, named: &str) -> Result<TaskType, CallError> {
        let task_type = required_type(named)?;
        Ok(self.caller.require_type(task_type.as_str())?)
    }

    /// A type, or a pattern ending in `*`; refused if the token does not cover it.
    pub(super) fn types<'a>(&self, named: &'a str) -> Result<&'a str, CallError> {
        if named.is_empty() {
            required_type(named)?;
        }
        self.caller.require_types(named)?;
        Ok(named)
    }

    /// A type or pattern for a setting; refused if the token does not cover it.
    pub(super) fn pattern(&self, named: &str) -> Result<TypePattern, CallError> {
        Ok(TypePattern::new(self.types(named)?)?)
    }

    /// A task; refused if the token does not cover its type.
    pub(super) fn task(&self, task_type: &str, id: &str) -> Result<(TaskType, TaskId), CallError> {
        Ok((self.task_type(task_type)?, TaskId::new(id)?))
    }

    /// A bucket; refused if the token does not cover its type.
    pub(super) fn bucket(&self, named: Option<pb::Bucket>) -> Result<Bucket, CallError> {
        let named = required("bucket", named)?;
        self.task_type(&named.task_type)?;
        Ok(named.try_into()?)
    }
}

/// Refuses a batch so large that it would delay other clients.
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
