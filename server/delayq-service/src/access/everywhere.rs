//! Rights on all namespaces together.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;

use super::TokenBook;
use super::right::{Caller, Right};
use crate::problem::Problem;

/// A caller with the right `R` on every namespace and type.
#[derive(Debug)]
pub struct Everywhere<R>(PhantomData<R>);

impl<R, S> FromRequestParts<S> for Everywhere<R>
where
    R: Right,
    S: Send + Sync,
    Arc<TokenBook>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let caller = Caller::of(parts, &Arc::<TokenBook>::from_ref(state))?;
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
