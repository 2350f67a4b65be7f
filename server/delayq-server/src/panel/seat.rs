//! The user of a request to the web page, identified by a session cookie.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use delayq_admin::{Role, Viewer};
use delayq_service::access::{Scope, Token};

use super::Panel;
use super::notice::Notice;

/// A signed-in user whose token is valid now.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) token: Arc<Token>,
    pub(super) role: Role,
}

impl Seat {
    /// The seat for a token, or the reason why it may not sign in.
    pub(super) fn of(token: Arc<Token>) -> Result<Self, &'static str> {
        if !token.types.is_empty() {
            return Err("This token is for some types only, and the page shows all of them.");
        }
        let roles = [
            (Scope::Admin, Role::Admin),
            (Scope::Operate, Role::Operator),
            (Scope::Read, Role::Viewer),
        ];
        let role = roles.into_iter().find(|(scope, _)| token.has(*scope));
        let (_, role) = role.ok_or("The page takes a token of scope read, operate or admin.")?;
        Ok(Self { token, role })
    }

    /// The user for the page and for the log of actions.
    pub(super) fn viewer(&self) -> Viewer {
        let name = format!("{} ({})", self.token.name, self.token.id);
        Viewer::new(name, self.role)
    }
}

impl FromRequestParts<Arc<Panel>> for Seat {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, panel: &Arc<Panel>) -> Result<Self, Response> {
        let token = match panel.cookie(&parts.headers) {
            Some(secret) => panel.sessions.token(secret).await,
            None => Ok(None),
        };
        let token = token.map_err(|error| Notice::unavailable(&error.into()))?;
        let token = token.and_then(|id| panel.app.tokens.valid(&id));
        let seat = token.and_then(|token| Self::of(token).ok());
        seat.ok_or_else(|| Redirect::to("/login").into_response())
    }
}

/// The value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter();
    let pairs = lines.filter_map(|line| line.to_str().ok());
    let mut pairs = pairs.flat_map(|line| line.split(';'));
    pairs.find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })
}
