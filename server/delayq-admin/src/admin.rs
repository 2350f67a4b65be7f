//! The page, before it is mounted.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use axum::response::Redirect;
use axum::routing::get;
use delayq_plugin::TaskSubmitService;
use tokio::net::TcpListener;

use crate::app::App;
use crate::key::Key;
use crate::route::{ROUTES, Route, router};
use crate::viewer::Viewer;

/// The web page of a store, to be mounted in an axum application or served alone.
///
/// ```
/// use axum::Router;
/// use delayq_admin::{Admin, Role, Viewer};
/// # use delayq_plugin::TaskSubmitService;
///
/// # fn mount(tasks: TaskSubmitService) -> Router {
/// let admin = Admin::new(tasks).authorize(|parts| {
///     let user = parts.headers.get("x-user")?.to_str().ok()?;
///     Some(Viewer::new(user, Role::Operator))
/// });
/// Router::new().merge(admin.at("/delayq"))
/// # }
/// ```
///
/// Without [`authorize`](Self::authorize) everybody who reaches it may look, and nobody may change
/// anything.
#[derive(Debug)]
#[must_use = "it is seen once its router is served"]
pub struct Admin {
    app: App,
}

impl Admin {
    /// The page of the store behind `tasks`.
    pub fn new(tasks: TaskSubmitService) -> Self {
        let app = App::new(tasks);
        Self { app }
    }

    /// Who a request is, by its headers and extensions; `None` is answered with 401. A rule that
    /// has to wait, such as for a session, is a middleware of the application before this router,
    /// which leaves its answer in the extensions.
    pub fn authorize(
        mut self,
        authorize: impl Fn(&Parts) -> Option<Viewer> + Send + Sync + 'static,
    ) -> Self {
        self.app.authorize = Some(Arc::new(authorize));
        self
    }

    /// Nobody changes anything, whatever his role.
    pub fn read_only(mut self) -> Self {
        self.app.is_read_only = true;
        self
    }

    /// Believes `X-Forwarded-For` (its last address), `X-Forwarded-Host` and `X-Forwarded-Prefix`.
    /// Only behind a proxy that sets them itself: else anybody writes what he likes into the log.
    pub fn trust_forwarded(mut self) -> Self {
        self.app.trusts_forwarded = true;
        self
    }

    /// The secret that signs forms. By default it is a random one of this process; several
    /// processes behind one address need the same.
    pub fn secret(mut self, secret: [u8; 32]) -> Self {
        self.app.key = Key::new(secret);
        self
    }

    /// The routes that there are, for rules of a proxy or a test.
    #[must_use]
    pub fn routes() -> &'static [Route] {
        ROUTES
    }

    /// The router, for [`nest`](Router::nest) under any path, or to be served alone. It finds out
    /// by itself where it is mounted. For the log of actions to know addresses, serve the whole
    /// with `into_make_service_with_connect_info::<SocketAddr>()`.
    pub fn router(self) -> Router {
        router(&Arc::new(self.app))
    }

    /// The router below `path`, such as `/delayq`, for [`merge`](Router::merge): as nesting does,
    /// and `/delayq/` leads to it, too, which axum leaves alone.
    ///
    /// # Panics
    /// As [`nest`](Router::nest): `path` begins with `/`, and is more than that.
    pub fn at<S: Clone + Send + Sync + 'static>(self, path: &str) -> Router<S> {
        let path = path.trim_end_matches('/');
        // Relative, so that it is right behind a proxy with a prefix of its own.
        let own = path.rsplit('/').next().unwrap_or_default();
        let redirect = Redirect::permanent(&format!("../{own}"));
        let with_slash = get(move || async { redirect });
        let nested = Router::new().nest(path, self.router().with_state(()));
        nested.route(&format!("{path}/"), with_slash)
    }

    /// Serves it alone, until the process ends.
    ///
    /// # Errors
    /// Those of the listener.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let service = self
            .router()
            .into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).await
    }
}
