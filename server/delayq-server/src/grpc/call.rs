//! One call: who asks, for which namespace, and with which right.

use std::future::Future;
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use delayq_core::{Bucket, Limits};
use delayq_ops::Operator;
use delayq_plugin::{Store, TaskId, TaskType, TypePattern};
use delayq_proto::{namespace, pb, required, required_type};
use delayq_service::access::{Caller, Scope};
use delayq_service::app::App;
use delayq_service::limits::Charge;
use delayq_service::space::Space;

use super::refusal::Refusal;

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
    fn run(self, call: &Call) -> impl Future<Output = Result<Self::Answer, Refusal>> + Send;
}

/// An admitted call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) app: App,
    pub(super) caller: Caller,
    /// Whether the caller is an application with the server as its store, which writes the log of
    /// actions and counts its attempts itself.
    pub(super) is_store_of_caller: bool,
    /// The header that the caller was admitted by.
    pub(super) credentials: Option<HeaderValue>,
    pub(super) space: Arc<Space>,
}

impl Call {
    /// Admits a call with the right `scope` on a namespace.
    pub(super) async fn admit(
        app: &App,
        headers: &HeaderMap,
        extensions: &Extensions,
        named: &str,
        scope: Option<Scope>,
    ) -> Result<Self, Refusal> {
        // Before anything else is said about the request.
        let mut credentials = headers.get(AUTHORIZATION).cloned();
        let caller = Caller::presenting(credentials.as_ref(), extensions, &app.tokens)?;
        if let Some(header) = &mut credentials {
            header.set_sensitive(true);
        }
        let namespace = namespace(named)?;
        match scope {
            Some(scope) => caller.require(scope, &namespace)?,
            None => caller.require_namespace(&namespace)?,
        }
        caller.charge(&app.limits, &namespace, extensions.get())?;
        Ok(Self {
            app: app.clone(),
            caller,
            space: app
                .spaces
                .of(&namespace)
                .await
                .map_err(Refusal::untouched)?,
            is_store_of_caller: headers.contains_key(LOGS_ITSELF),
            credentials,
        })
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        self.space.tasks.store()
    }

    /// Charges so many further requests that the call brought, once the rates allow them.
    pub(super) async fn pace(&self, requests: usize) -> Charge {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        let (limits, namespace) = (&self.app.limits, &self.space.namespace);
        self.caller.pace(limits, namespace, requests).await
    }

    /// Gives back what was charged for requests that failed for the server's reasons.
    pub(super) fn refund(&self, charge: &mut Charge, requests: usize) {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        self.app.limits.refund(charge, requests);
    }

    /// The limits of a task of this caller.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_message_bytes: self.max_message_bytes(),
            ..Limits::default()
        }
    }

    /// Most bytes of a message of this caller.
    fn max_message_bytes(&self) -> usize {
        let own = [
            self.caller.token.max_message_bytes,
            self.space.max_message_bytes(),
        ];
        let general = self.app.config.max_message_bytes;
        own.into_iter().flatten().fold(general, usize::min)
    }

    /// A type that the token is for.
    pub(super) fn task_type(&self, named: &str) -> Result<TaskType, Refusal> {
        let task_type = required_type(named)?;
        Ok(self.caller.require_type(task_type.as_str())?)
    }

    /// A type, or a pattern that ends with `*`, that the token is for.
    pub(super) fn types<'a>(&self, named: &'a str) -> Result<&'a str, Refusal> {
        if named.is_empty() {
            required_type(named)?;
        }
        self.caller.require_types(named)?;
        Ok(named)
    }

    /// The same, for what may be set for a pattern.
    pub(super) fn pattern(&self, named: &str) -> Result<TypePattern, Refusal> {
        Ok(TypePattern::new(self.types(named)?)?)
    }

    /// An operator whose actions are logged under the name of the token.
    pub(super) fn operator(&self) -> Operator {
        self.caller.operator(&self.space)
    }

    /// The same, for an operation of the store: the application whose store it is logs it itself.
    pub(super) fn store_operator(&self) -> Operator {
        let operator = self.operator();
        if self.is_store_of_caller {
            operator.silent()
        } else {
            operator
        }
    }

    /// A task of a type that the token is for.
    pub(super) fn task(&self, task_type: &str, id: &str) -> Result<(TaskType, TaskId), Refusal> {
        Ok((self.task_type(task_type)?, TaskId::new(id)?))
    }

    /// A bucket of a type that the token is for.
    pub(super) fn bucket(&self, named: Option<pb::Bucket>) -> Result<Bucket, Refusal> {
        let named = required("bucket", named)?;
        self.task_type(&named.task_type)?;
        Ok(named.try_into()?)
    }
}

/// Refuses a batch that would keep everybody else waiting.
pub(super) fn check_batch(what: &'static str, count: usize) -> Result<(), Refusal> {
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
