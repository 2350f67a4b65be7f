//! The web page of all namespaces, on its own listener and behind a login.

mod entrance;
mod notice;
mod pages;
mod seat;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{any, get, post};
use delayq_admin::Admin;
use delayq_plugin::{Namespace, SystemClock};
use delayq_service::app::App;
use delayq_service::brake::Brake;
use delayq_service::problem::Problem;

use self::pages::Pages;
use self::sessions::Sessions;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// State shared by the routes of the web page.
#[derive(Debug)]
pub(crate) struct Panel {
    app: App,
    sessions: Sessions,
    brake: Brake,
    pages: Pages,
    /// True if the listener uses TLS; the session cookie is then sent over TLS only.
    is_secure: bool,
}

impl Panel {
    fn cookie_name(&self) -> &'static str {
        if self.is_secure {
            "__Host-delayq"
        } else {
            "delayq-session"
        }
    }

    /// The session secret in a request's cookie.
    fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        seat::cookie(headers, self.cookie_name())
    }

    /// The `Set-Cookie` header of a session, hidden from scripts and other sites.
    fn set_cookie(&self, secret: &str, lasts: Duration) -> String {
        let name = self.cookie_name();
        let secure = if self.is_secure { "; Secure" } else { "" };
        let seconds = lasts.as_secs();
        format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }

    /// The page of a namespace.
    async fn page(&self, namespace: &Namespace) -> Result<Router, Problem> {
        let make = async || {
            let space = self.app.spaces.of(namespace).await?;
            let secret = self.sessions.form_secret().await?;
            let admin = Admin::new(space.tasks.clone()).secret(secret);
            Ok(pages::mounted(admin, namespace))
        };
        self.pages.of(namespace, make).await
    }
}

/// All routes of the admin listener.
pub(crate) fn router(app: App, is_secure: bool) -> Router {
    let minutes = u64::from(app.config.admin.session_minutes);
    let lasts = Duration::from_secs(minutes * 60);
    let panel = Arc::new(Panel {
        sessions: Sessions::new(Arc::clone(&app.own), Arc::new(SystemClock), lasts),
        brake: Brake::default(),
        pages: Pages::default(),
        is_secure,
        app,
    });
    let own = Router::new()
        .route("/", get(entrance::namespaces))
        .route("/login", get(entrance::form).post(entrance::login))
        .route("/logout", post(entrance::logout))
        .route("/style.css", get(entrance::style))
        .route("/theme.js", get(entrance::theme))
        .route("/metrics", get(entrance::metrics))
        .fallback(entrance::lost)
        .layer(map_response(secure));
    own.route("/n/{namespace}", any(pages::show))
        .route("/n/{namespace}/", any(pages::show))
        .route("/n/{namespace}/{*rest}", any(pages::show))
        .with_state(panel)
}

/// Adds security headers: no foreign or inline content, no framing, no caching.
async fn secure(mut reply: Response) -> Response {
    let headers = reply.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // A page without a referrer sends `Origin: null` with its forms.
    set(header::REFERRER_POLICY, "same-origin");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::CACHE_CONTROL, "no-store");
    reply
}

#[cfg(test)]
mod tests;
