//! The web page and its options.

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
use crate::surroundings::Surroundings;
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
/// Without [`authorize`](Self::authorize), everybody who can reach the page may look, but nobody
/// may change anything.
#[derive(Debug)]
#[must_use = "it is seen once its router is served"]
pub struct Admin {
    app: App,
}

impl Admin {
    /// The web page of the store behind `tasks`.
    pub fn new(tasks: TaskSubmitService) -> Self {
        let app = App::new(tasks);
        Self { app }
    }

    /// Sets the rule that identifies the viewer of a request by its headers and extensions. `None`
    /// is answered with 401. A rule that has to wait, for example for a session, belongs in a
    /// middleware of the application that puts its result into the extensions.
    pub fn authorize(
        mut self,
        authorize: impl Fn(&Parts) -> Option<Viewer> + Send + Sync + 'static,
    ) -> Self {
        self.app.authorize = Some(Arc::new(authorize));
        self
    }

    /// Sets the rule that says what stands around the page of a request: a switch between several
    /// pages, and a button to sign out. Without it the page stands alone.
    pub fn surroundings(
        mut self,
        around: impl Fn(&Parts) -> Surroundings + Send + Sync + 'static,
    ) -> Self {
        self.app.around = Some(Arc::new(around));
        self
    }

    /// Allows no changes, whatever the viewer's role.
    pub fn read_only(mut self) -> Self {
        self.app.is_read_only = true;
        self
    }

    /// Trusts `X-Forwarded-For` (its last address), `X-Forwarded-Host` and `X-Forwarded-Prefix`.
    /// Use this only behind a proxy that sets these headers itself. Otherwise any client can forge
    /// the address in the log.
    pub fn trust_forwarded(mut self) -> Self {
        self.app.trusts_forwarded = true;
        self
    }

    /// Sets the secret that signs forms. The default is a random secret for each process. Several
    /// processes behind one address need the same secret.
    pub fn secret(mut self, secret: [u8; 32]) -> Self {
        self.app.key = Key::new(secret);
        self
    }

    /// All routes of the page, for the rules of a proxy or for tests.
    #[must_use]
    pub fn routes() -> &'static [Route] {
        ROUTES
    }

    /// The router, to be [nested](Router::nest) under any path or served alone. It detects the path
    /// under which it is mounted. Serve it with
    /// `into_make_service_with_connect_info::<SocketAddr>()`, so that the log of actions contains
    /// addresses.
    pub fn router(self) -> Router {
        router(&Arc::new(self.app))
    }

    /// The router below `path`, such as `/delayq`, for [`merge`](Router::merge). Unlike plain
    /// nesting in axum, `/delayq/` works, too.
    ///
    /// # Panics
    /// As [`nest`](Router::nest): `path` must begin with `/` and must not be `/` alone.
    pub fn at<S: Clone + Send + Sync + 'static>(self, path: &str) -> Router<S> {
        let path = path.trim_end_matches('/');
        // Relative, so that it also works behind a proxy with its own prefix.
        let own = path.rsplit('/').next().unwrap_or_default();
        let redirect = Redirect::permanent(&format!("../{own}"));
        let with_slash = get(move || async { redirect });
        let nested = Router::new().nest(path, self.router().with_state(()));
        nested.route(&format!("{path}/"), with_slash)
    }

    /// Serves the page alone, until the process ends.
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
