//! The table of routes, each with its lowest role.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{MethodRouter, any, get, post};

use crate::action::{
    dead as dead_action, many, recurring as recurring_action, selected, task as task_action,
    task_type as type_action,
};
use crate::admit::{Gate, admit};
use crate::app::App;
use crate::asset;
use crate::page::batch::BatchPage;
use crate::page::batches::BatchesPage;
use crate::page::dead::DeadPage;
use crate::page::dead_change::{DeadChange, Discard, Requeue};
use crate::page::health::HealthPage;
use crate::page::history::{HistoryPage, download as download_history};
use crate::page::instances::InstancesPage;
use crate::page::log::{LogPage, download};
use crate::page::overview::OverviewPage;
use crate::page::pools::PoolsPage;
use crate::page::purge::PurgePage;
use crate::page::recurring::RecurringPage;
use crate::page::search::SearchPage;
use crate::page::task::TaskPage;
use crate::page::task_type::TypePage;
use crate::page::tasks::TasksPage;
use crate::page::tasks_cancel::TasksCancel;
use crate::page::{not_found, show};
use crate::viewer::Role;

/// A route of the page.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Route {
    /// `GET`, which changes nothing, or `POST`.
    pub method: &'static str,
    /// The path below the prefix.
    pub path: &'static str,
    /// The lowest role that may use it.
    pub role: Role,
    handler: fn() -> MethodRouter,
}

const fn page(path: &'static str, role: Role, handler: fn() -> MethodRouter) -> Route {
    Route {
        method: "GET",
        path,
        role,
        handler,
    }
}

const fn action(path: &'static str, role: Role, handler: fn() -> MethodRouter) -> Route {
    Route {
        method: "POST",
        path,
        role,
        handler,
    }
}

/// All routes except the files under `/assets`, which need no role.
pub(crate) const ROUTES: &[Route] = &[
    page("/", Role::Viewer, || get(show::<OverviewPage>)),
    page("/type", Role::Viewer, || get(show::<TypePage>)),
    page("/tasks", Role::Viewer, || get(show::<TasksPage>)),
    page("/task", Role::Viewer, || get(show::<TaskPage>)),
    page("/dead", Role::Viewer, || get(show::<DeadPage>)),
    page("/search", Role::Viewer, || get(show::<SearchPage>)),
    page("/recurring", Role::Viewer, || get(show::<RecurringPage>)),
    page("/batches", Role::Viewer, || get(show::<BatchesPage>)),
    page("/batch", Role::Viewer, || get(show::<BatchPage>)),
    page("/pools", Role::Viewer, || get(show::<PoolsPage>)),
    page("/instances", Role::Viewer, || get(show::<InstancesPage>)),
    page("/log", Role::Viewer, || get(show::<LogPage>)),
    page("/log.jsonl", Role::Viewer, || get(download)),
    page("/history", Role::Viewer, || get(show::<HistoryPage>)),
    page("/history.jsonl", Role::Viewer, || get(download_history)),
    page("/health", Role::Viewer, || get(show::<HealthPage>)),
    page("/dead/requeue", Role::Operator, || {
        get(show::<DeadChange<Requeue>>)
    }),
    page("/dead/discard", Role::Admin, || {
        get(show::<DeadChange<Discard>>)
    }),
    page("/tasks/cancel", Role::Admin, || get(show::<TasksCancel>)),
    page("/type/purge", Role::Admin, || get(show::<PurgePage>)),
    action("/task/cancel", Role::Operator, || post(task_action::cancel)),
    action("/task/run-now", Role::Operator, || {
        post(task_action::run_now)
    }),
    action("/task/move", Role::Operator, || {
        post(task_action::reschedule)
    }),
    action("/task/edit", Role::Operator, || post(task_action::edit)),
    action("/task/requeue", Role::Operator, || {
        post(task_action::requeue)
    }),
    action("/task/discard", Role::Admin, || post(task_action::discard)),
    action("/type/pause", Role::Operator, || post(type_action::pause)),
    action("/type/resume", Role::Operator, || post(type_action::resume)),
    action("/type/configure", Role::Admin, || {
        post(type_action::configure)
    }),
    action("/type/purge", Role::Admin, || post(type_action::purge)),
    action("/type/drop", Role::Admin, || post(type_action::drop_type)),
    action("/dead/requeue", Role::Operator, || {
        post(dead_action::requeue)
    }),
    action("/dead/discard", Role::Admin, || post(dead_action::discard)),
    action("/dead/groups/requeue", Role::Operator, || {
        post(dead_action::requeue_picked)
    }),
    action("/dead/groups/discard", Role::Admin, || {
        post(dead_action::discard_picked)
    }),
    action("/jobs/stop", Role::Operator, || post(dead_action::stop)),
    action("/tasks/cancel", Role::Admin, || post(many::cancel)),
    action("/recurring/remove", Role::Operator, || {
        post(recurring_action::remove)
    }),
    action("/batch/cancel", Role::Operator, || {
        post(recurring_action::cancel_batch)
    }),
    action("/types/pause", Role::Operator, || {
        post(type_action::pause_picked)
    }),
    action("/types/resume", Role::Operator, || {
        post(type_action::resume_picked)
    }),
    action("/selected/run-now", Role::Operator, || {
        post(selected::run_now)
    }),
    action("/selected/move", Role::Operator, || {
        post(selected::reschedule)
    }),
    action("/selected/cancel", Role::Operator, || {
        post(selected::cancel)
    }),
    action("/selected/requeue", Role::Operator, || {
        post(selected::requeue)
    }),
    action("/selected/discard", Role::Admin, || post(selected::discard)),
];

/// The router of all routes.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let gate = |role: Role| {
        let app = Arc::clone(app);
        from_fn_with_state(Gate { app, role }, admit)
    };
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, (route.handler)().layer(gate(route.role)));
    }
    let lost: MethodRouter = any(not_found).layer(gate(Role::Viewer));
    router
        .route("/assets/{hash}/{name}", get(file))
        .fallback_service(lost)
        .layer(map_response(secure))
}

async fn file(request: Request) -> Response {
    asset::serve(request.uri().path(), request.headers())
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
     base-uri 'none'";

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
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    reply
}
