//! One admitted request: its viewer, its origin and its fields.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, OriginalUri};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use delayq_ops::Operator;
use delayq_plugin::TaskSubmitService;

use crate::app::App;
use crate::asset;
use crate::fields::{Fields, Link};
use crate::flash::Flash;
use crate::surroundings::Surroundings;
use crate::viewer::{Role, Viewer};

/// The longest forwarded address or path, in characters.
const MAX_FORWARDED: usize = 100;
/// How often the viewer of a long job is identified again.
const RECHECK: Duration = Duration::from_millis(500);

/// An admitted request.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) app: Arc<App>,
    pub(crate) viewer: Viewer,
    /// The path under which the page is mounted: empty, or for example `/delayq`.
    pub(crate) prefix: String,
    /// The token of this viewer's forms.
    pub(crate) token: String,
    pub(crate) flash: Option<Flash>,
    /// The origin of the request, for the log of actions.
    pub(crate) origin: String,
    /// The fields of the query or of the form.
    pub(crate) fields: Arc<Fields>,
    /// The request, by which the viewer is identified again while an answer or a job goes on.
    asked: Arc<Parts>,
}

impl Visit {
    /// A visit with the fields of the request's query.
    pub(crate) fn new(app: &Arc<App>, viewer: Viewer, parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        Self {
            app: Arc::clone(app),
            prefix: prefix(app, parts),
            token: app.key.token(&viewer),
            flash: Flash::of(&parts.headers),
            origin: origin(app, parts),
            fields: Arc::new(Fields::read(query.as_bytes())),
            asked: Arc::new(parts.clone()),
            viewer,
        }
    }

    pub(crate) fn tasks(&self) -> &TaskSubmitService {
        &self.app.tasks
    }

    /// Returns true if the viewer has at least this role.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.viewer.role >= role
    }

    /// What stands around the page.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let around = self.app.around.as_ref();
        around.map_or_else(Surroundings::new, |around| around(&self.asked))
    }

    /// Returns true while the request still identifies this viewer, in the same role.
    pub(crate) fn is_still_admitted(&self) -> bool {
        self.app.viewer(&self.asked).as_ref() == Some(&self.viewer)
    }

    /// Completes once the request no longer identifies this viewer.
    pub(crate) async fn ended(&self) {
        let clock = self.tasks().clock();
        while self.is_still_admitted() {
            clock
                .sleep_until(clock.elapsed().saturating_add(RECHECK))
                .await;
        }
    }

    /// The operator that makes changes under the viewer's name.
    pub(crate) fn operator(&self) -> Operator {
        Operator::new(self.tasks(), &self.viewer.name, &self.origin)
    }

    /// The URL of a link on the page.
    pub(crate) fn href(&self, link: &Link) -> String {
        let path = link.to_string();
        if self.prefix.is_empty() {
            return path;
        }
        match path.strip_prefix('/') {
            Some(rest) if rest.is_empty() || rest.starts_with('?') => {
                format!("{}{rest}", self.prefix)
            }
            _ => format!("{}{path}", self.prefix),
        }
    }

    /// The URL of a path without a query.
    pub(crate) fn at(&self, path: &str) -> String {
        self.href(&Link::to(path))
    }

    /// The URL of a file.
    pub(crate) fn asset(&self, name: &str) -> String {
        format!("{}/assets/{}/{name}", self.prefix, &*asset::HASH)
    }

    /// After an action: redirects to a page with a message.
    pub(crate) fn go(&self, link: &Link, flash: &Flash) -> Response {
        self.app.outdate();
        let mut headers = HeaderMap::new();
        if let Ok(location) = self.href(link).parse() {
            headers.insert(header::LOCATION, location);
        }
        if let Some(cookie) = flash.cookie(&self.prefix) {
            headers.insert(header::SET_COOKIE, cookie);
        }
        (StatusCode::SEE_OTHER, headers).into_response()
    }
}

/// The path under which the router is mounted, as seen by the browser.
fn prefix(app: &App, parts: &Parts) -> String {
    let original = parts.extensions.get::<OriginalUri>();
    let original = original.map_or(parts.uri.path(), |original| original.0.path());
    let own = original.strip_suffix(parts.uri.path()).unwrap_or(original);
    let own = own.trim_end_matches('/');
    let before = forwarded(app, parts, "x-forwarded-prefix");
    let is_path = |path: &&str| {
        path.starts_with('/') && !path.starts_with("//") && !path.contains(['?', '#', '\\', ';'])
    };
    let before = before.filter(is_path).unwrap_or_default();
    format!("{}{own}", before.trim_end_matches('/'))
}

/// The address of the client.
fn origin(app: &App, parts: &Parts) -> String {
    // The nearest proxy appends the last address; the client may have forged the earlier ones.
    let last = forwarded(app, parts, "x-forwarded-for");
    let last = last.and_then(|list| list.rsplit(',').next()).map(str::trim);
    if let Some(address) = last.filter(|address| !address.is_empty()) {
        return address.to_owned();
    }
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map_or_else(|| "page".to_owned(), |peer| peer.0.ip().to_string())
}

fn forwarded<'a>(app: &App, parts: &'a Parts, name: &str) -> Option<&'a str> {
    let value = parts.headers.get_all(name).iter().next_back();
    let value = value.filter(|_| app.trusts_forwarded)?.to_str().ok()?;
    (value.len() <= MAX_FORWARDED).then_some(value)
}
