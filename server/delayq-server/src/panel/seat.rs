//! The user of a request to the web page, identified by a session cookie.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use delayq_admin::{Role, Surroundings, Viewer};
use delayq_plugin::Namespace;
use delayq_service::access::{Scope, Token};

use super::Panel;
use super::notice::Notice;

/// The largest number of namespaces in the switch of a page; the list of all has the others.
const MOST_IN_SWITCH: usize = 50;

/// A signed-in user whose token is valid now.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) token: Arc<Token>,
    role: Role,
    session: Session,
}

/// The session of a user.
#[derive(Clone, Debug)]
struct Session {
    panel: Arc<Panel>,
    /// The secret of the session.
    secret: String,
}

/// The role of a token on the page, or the reason why it may not sign in.
pub(super) fn role_of(token: &Token) -> Result<Role, &'static str> {
    if !token.types.is_empty() {
        return Err("This token is for some types only, and the page shows all of them.");
    }
    let roles = [
        (Scope::Admin, Role::Admin),
        (Scope::Operate, Role::Operator),
        (Scope::Read, Role::Viewer),
    ];
    let role = roles.into_iter().find(|(scope, _)| token.has(*scope));
    let role = role.map(|(_, role)| role);
    role.ok_or("The page takes a token of scope read, operate or admin.")
}

impl Seat {
    /// The seat of a request, if its session is valid now.
    async fn of(parts: &Parts, panel: &Arc<Panel>) -> delayq_plugin::Result<Option<Self>> {
        let Some(secret) = panel.cookie(&parts.headers) else {
            return Ok(None);
        };
        let admitted = panel.sessions.admission(secret, &panel.app.tokens).await?;
        let seat = admitted.and_then(|admitted| {
            let role = role_of(&admitted.token).ok()?;
            let session = Session {
                panel: Arc::clone(panel),
                secret: secret.to_owned(),
            };
            Some(Self {
                token: admitted.token,
                role,
                session,
            })
        });
        Ok(seat)
    }

    /// The namespaces of this server that the token covers, by name.
    pub(super) fn namespaces(&self) -> Vec<Namespace> {
        let mut names = self.session.panel.app.spaces.names();
        names.retain(|name| self.token.is_for(name));
        names.sort();
        names
    }

    /// What stands around the page of a namespace: the others, and the way out.
    pub(super) fn surroundings(&self, here: &Namespace) -> Surroundings {
        let names = self.namespaces();
        let around = Surroundings::new().home("All namespaces", "/");
        let shown = names.iter().take(MOST_IN_SWITCH);
        // The one that is shown is in the switch, however many there are.
        let is_left_out = !names.iter().take(MOST_IN_SWITCH).any(|name| name == here);
        let shown = shown.chain(Some(here).filter(|_| is_left_out));
        let places = shown.fold(around, |around, name| {
            around.place(name.as_str(), format!("/n/{name}"))
        });
        places.here(here.as_str()).sign_out("/logout")
    }

    /// The viewer, unless the session or its token has ended since.
    pub(super) fn present_viewer(&self) -> Option<Viewer> {
        let Session { panel, secret } = &self.session;
        let known = panel.sessions.known_admission(secret, &panel.app.tokens);
        known.map(|_| self.viewer())
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
        let seat = Self::of(parts, panel).await;
        let seat = seat.map_err(|error| Notice::unavailable(&error.into()))?;
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
