//! The caller and its right.

use std::marker::PhantomData;
use std::ops::Deref;

use axum::extract::{FromRequestParts, OriginalUri, RawPathParams};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use delayq_plugin::Namespace;
use delayq_service::access::{Caller, Right};
use delayq_service::app::App;
use delayq_service::context::Context;
use delayq_service::problem::Problem;
use delayq_service::same_site::refuse_foreign;

use super::answer::{SpringError, shown};

/// A caller with the right `R` on the namespace of service mode.
pub(super) struct Asking<R> {
    context: Context,
    pub(super) path: String,
    right: PhantomData<R>,
}

impl<R> Deref for Asking<R> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl<R: Right> FromRequestParts<App> for Asking<R> {
    type Rejection = SpringError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, SpringError> {
        let uri = OriginalUri::from_request_parts(parts, app).await;
        let OriginalUri(uri) = uri.unwrap_or_else(|never| match never {});
        let path = shown(uri.path());
        let in_path = RawPathParams::from_request_parts(parts, app).await.ok();
        let in_path = in_path.as_ref().and_then(|params| {
            let token = params.iter().find(|(name, _)| *name == "token");
            token.map(|(_, token)| token.to_owned())
        });
        let context = Self::admit(parts, in_path, app).await;
        Ok(Self {
            context: context.map_err(|problem| SpringError::of(&path, problem))?,
            path,
            right: PhantomData,
        })
    }
}

impl<R: Right> Asking<R> {
    async fn admit(parts: &Parts, in_path: Option<String>, app: &App) -> Result<Context, Problem> {
        let given = parts.headers.get(AUTHORIZATION).cloned();
        let namespace = Namespace::new(&app.config.service.namespace)?;
        let spring = &app.config.spring;
        if given.is_none() && in_path.is_none() {
            refuse_foreign(&parts.headers)?;
        }
        let caller = if given.is_none() && in_path.is_none() && spring.is_open() {
            Caller::anybody(namespace.as_str(), &parts.extensions)
        } else {
            let usual = spring.usual_token().filter(|_| given.is_none());
            let header = match in_path.as_deref().or(usual) {
                Some(token) => HeaderValue::from_str(&format!("Bearer {token}")).ok(),
                None => given,
            };
            Caller::presenting(header.as_ref(), &parts.extensions, &app.tokens)?
        };
        Context::admit(app, caller, &namespace, Some(R::SCOPE), &parts.extensions).await
    }

    /// Refuses the request with a problem.
    pub(super) fn refused(&self, problem: Problem) -> SpringError {
        SpringError::of(&self.path, problem)
    }

    /// Refuses an invalid request.
    pub(super) fn bad_request(&self, message: impl Into<String>) -> SpringError {
        SpringError::new(&self.path, StatusCode::BAD_REQUEST, message)
    }
}
