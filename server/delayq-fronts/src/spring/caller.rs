//! Who asks, and what they may do.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, OriginalUri, RawPathParams};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use delayq_plugin::{Namespace, TaskType};
use delayq_service::access::{Caller, Right, Token};
use delayq_service::app::App;
use delayq_service::problem::Problem;
use delayq_service::space::Space;

use super::answer::{Refusal, shown};
use crate::client::anybody;

/// A caller with the right `R` on the namespace of service mode.
pub(super) struct Asking<R> {
    pub(super) space: Arc<Space>,
    /// `None`: whoever has no token, where that is enough.
    caller: Option<Caller>,
    pub(super) path: String,
    right: PhantomData<R>,
}

impl<R: Right> FromRequestParts<App> for Asking<R> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let uri = OriginalUri::from_request_parts(parts, app).await;
        let OriginalUri(uri) = uri.unwrap_or_else(|never| match never {});
        let path = shown(uri.path());
        let in_path = RawPathParams::from_request_parts(parts, app).await.ok();
        let in_path = in_path.as_ref().and_then(|params| {
            let token = params.iter().find(|(name, _)| *name == "token");
            token.map(|(_, token)| token.to_owned())
        });
        let asking = Self::of(parts, in_path, app).await;
        let (space, caller) = asking.map_err(|problem| Refusal::of(&path, problem))?;
        Ok(Self {
            space,
            caller,
            path,
            right: PhantomData,
        })
    }
}

impl<R: Right> Asking<R> {
    async fn of(
        parts: &Parts,
        in_path: Option<String>,
        app: &App,
    ) -> Result<(Arc<Space>, Option<Caller>), Problem> {
        let given = parts.headers.get(AUTHORIZATION).cloned();
        let namespace = Namespace::new(&app.config.service.namespace)?;
        let spring = &app.config.spring;
        if given.is_none() && in_path.is_none() && spring.is_open() {
            let caller = anybody(namespace.as_str(), &parts.extensions);
            caller.charge(&app.limits, &namespace, parts.extensions.get())?;
            return Ok((app.spaces.of(&namespace).await?, None));
        }
        let usual = spring.usual_token().filter(|_| given.is_none());
        let text = in_path.as_deref().or(usual);
        let header = match text {
            Some(token) => HeaderValue::from_str(&format!("Bearer {token}")).ok(),
            None => given,
        };
        let caller = Caller::presenting(header.as_ref(), &parts.extensions, &app.tokens)?;
        caller.require(R::SCOPE, &namespace)?;
        caller.charge(&app.limits, &namespace, parts.extensions.get())?;
        Ok((app.spaces.of(&namespace).await?, Some(caller)))
    }

    /// A type that the caller may use.
    pub(super) fn require_type(&self, task_type: &str) -> Result<TaskType, Problem> {
        match &self.caller {
            Some(caller) => caller.require_type(task_type),
            None => Ok(TaskType::new(task_type)?),
        }
    }

    /// Refuses a message that is too large for the token or the namespace.
    pub(super) fn fits(&self, bytes: usize) -> Result<(), Problem> {
        match &self.caller {
            Some(caller) => caller.fits(&self.space, bytes),
            None => self.space.fits(bytes),
        }
    }

    /// Makes room for a new task, or refuses it.
    pub(super) async fn make_room(&self) -> Result<(), Problem> {
        match &self.caller {
            Some(caller) => caller.make_room(&self.space, 1).await,
            None => self.space.admit(1).await,
        }
    }

    /// The token of the caller.
    pub(super) fn token(&self) -> Option<&Token> {
        self.caller.as_ref().map(|caller| &*caller.token)
    }

    /// A refusal of what was asked.
    pub(super) fn refused(&self, problem: Problem) -> Refusal {
        Refusal::of(&self.path, problem)
    }

    /// A refusal of what is not understood.
    pub(super) fn bad_request(&self, message: impl Into<String>) -> Refusal {
        Refusal::new(&self.path, StatusCode::BAD_REQUEST, message)
    }
}
