//! A page: reads its data through a shared snapshot, and shows it as HTML or as a stream of events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use delayq_plugin::{Error, Result, Timestamp};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::cache::{Ask, Cache, FRESH, MAX_FAILED_REST, Seen};
use crate::fields::Link;
use crate::flash::Flash;
use crate::moment::Moment;
use crate::notice::Notice;
use crate::said::visible;
use crate::shell::{Nav, Shell, boot};
use crate::visit::Visit;

pub(crate) mod batch;
pub(crate) mod batches;
pub(crate) mod dead;
pub(crate) mod dead_change;
pub(crate) mod groups_change;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod instances;
pub(crate) mod log;
pub(crate) mod overview;
pub(crate) mod picked;
pub(crate) mod pools;
pub(crate) mod purge;
pub(crate) mod recurring;
pub(crate) mod search;
mod series;
pub(crate) mod tabs;
pub(crate) mod task;
pub(crate) mod task_type;
pub(crate) mod tasks;
pub(crate) mod tasks_cancel;

/// How long a page waits for its first data: the default time limit of a call.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long a page waits for data that may take long to read. Afterwards the page is shown without
/// the data, which follows by itself.
pub(crate) const BRIEF_PATIENCE: Duration = Duration::from_millis(150);
/// How long a page waits while it has older data to show.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);
/// The duration of one stream. Then the browser opens a new one and is authorized again.
const STREAM: Duration = Duration::from_mins(10);

/// A page.
pub(crate) trait Page: Clone + Send + Sync + 'static {
    /// The data of the page.
    type Data: Send + Sync + 'static;

    /// The entry in the navigation.
    const NAV: Nav;

    /// The page for a request.
    fn of(visit: &Visit) -> Self;

    fn title(&self) -> String;

    /// The key of its snapshot. Viewers with the same key share one.
    fn key(&self) -> String;

    fn cache(app: &App) -> &Cache<Self::Data>;

    /// Reads the data from the store.
    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<Self::Data>> + Send + 'static;

    /// Renders the page. Elements with an id and `data-live` are replaced while the page is open.
    fn body(&self, visit: &Visit, data: &Self::Data) -> askama::Result<String>;

    /// How long to wait for the first data.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// The page to redirect to, if any.
    fn elsewhere(&self, data: &Self::Data) -> Option<Link> {
        let _ = data;
        None
    }
}

/// Answers with the page, or with the stream of its changes.
pub(crate) async fn show<P: Page>(
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
) -> Response {
    let page = P::of(&visit);
    let accepts = headers.get(header::ACCEPT);
    if accepts.is_some_and(|accepts| accepts.as_bytes() == b"text/event-stream") {
        return stream_of(page, visit);
    }
    let seen = look(&page, &visit).await;
    if let Some(link) = seen
        .good
        .as_ref()
        .and_then(|good| page.elsewhere(&good.data))
    {
        let to = visit.href(&link);
        return (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response();
    }
    let title = page.title();
    let body = render(&page, &visit, &seen);
    let html = Shell::new(&visit, P::NAV, &title, &body).live().html();
    let mut reply = (status(&seen), html).into_response();
    if visit.flash.is_some()
        && let Some(cookie) = Flash::end(&visit.prefix)
    {
        reply.headers_mut().append(header::SET_COOKIE, cookie);
    }
    let vary = HeaderValue::from_static("accept");
    reply.headers_mut().insert(header::VARY, vary);
    reply
}

/// The snapshot of a page.
async fn look<P: Page>(page: &P, visit: &Visit) -> Seen<P::Data> {
    let (cache, key) = (P::cache(&visit.app), page.key());
    let patience = match cache.peek(&key) {
        Some(_) => page.patience().min(SHORT_PATIENCE),
        None => page.patience(),
    };
    let ask = Ask {
        tasks: visit.tasks(),
        key,
        patience,
        failed_rest: MAX_FAILED_REST,
    };
    cache.get(ask, || page.read(&visit.app)).await
}

/// True for an error of the request, which says nothing about the store.
fn is_mistake(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidInput { .. } | Error::InvalidName { .. }
    )
}

fn status<T>(seen: &Seen<T>) -> StatusCode {
    match &seen.error {
        Some(error) if is_mistake(error) => StatusCode::BAD_REQUEST,
        Some(_) if seen.good.is_none() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    }
}

/// The age of a page's data, and the reason if it is old.
#[derive(Template)]
#[template(path = "freshness.html")]
struct Freshness {
    at: Option<Moment>,
    error: String,
    is_reading: bool,
    is_store: bool,
}

fn render<P: Page>(page: &P, visit: &Visit, seen: &Seen<P::Data>) -> String {
    let freshness = Freshness {
        at: seen.good.as_ref().map(|good| Moment::of_day(good.at)),
        error: seen
            .error
            .as_ref()
            .map_or(String::new(), |error| visible(&error.to_string())),
        is_reading: seen.is_reading && seen.error.is_none(),
        is_store: !seen.error.as_ref().is_some_and(is_mistake),
    };
    let freshness = freshness.render();
    let body = seen.good.as_ref().map(|good| page.body(visit, &good.data));
    let body = body.unwrap_or_else(|| Ok(format!("<h1>{}</h1>", escaped(&page.title()))));
    match (freshness, body) {
        (Ok(freshness), Ok(body)) => format!("{freshness}{body}"),
        (Err(error), _) | (_, Err(error)) => {
            format!(
                "<p>cannot show this page: {}</p>",
                escaped(&error.to_string())
            )
        }
    }
}

fn escaped(text: &str) -> String {
    let escaped = askama::filters::escape(text, askama::filters::Html);
    escaped.map_or(String::new(), |safe| safe.to_string())
}

/// The state of a stream between two events.
struct Live<P> {
    page: P,
    visit: Visit,
    last: String,
    /// The end of the stream, on the clock's elapsed time.
    ends_at: Duration,
    is_first: bool,
    _permit: OwnedSemaphorePermit,
}

/// An event, as JSON.
#[derive(Serialize)]
struct Change<'a> {
    /// The time of the data.
    at: String,
    /// See [`boot`].
    boot: &'a str,
    /// `error` if the store does not answer, `slow` if it takes long: what is shown is then old.
    trouble: Option<&'static str>,
    /// The body, if it has changed.
    html: Option<&'a str>,
}

fn stream_of<P: Page>(page: P, visit: Visit) -> Response {
    let Ok(permit) = Arc::clone(&visit.app.streams).try_acquire_owned() else {
        return Notice::busy().alone();
    };
    let live = Live {
        page,
        ends_at: visit.tasks().clock().elapsed().saturating_add(STREAM),
        visit,
        last: String::new(),
        is_first: true,
        _permit: permit,
    };
    let events = stream::unfold(live, next_event).map(Ok::<_, Infallible>);
    let reply = Sse::new(events).keep_alive(KeepAlive::default());
    // Asks proxies such as nginx to forward events at once.
    ([("x-accel-buffering", "no")], reply).into_response()
}

async fn next_event<P: Page>(mut live: Live<P>) -> Option<(Event, Live<P>)> {
    let clock = Arc::clone(live.visit.tasks().clock());
    let now = clock.elapsed();
    if now >= live.ends_at {
        return None;
    }
    if !std::mem::take(&mut live.is_first) {
        clock.sleep_until(now.saturating_add(FRESH)).await;
        if !live.visit.is_still_admitted() {
            return None;
        }
    }
    let seen = look(&live.page, &live.visit).await;
    let html = render(&live.page, &live.visit, &seen);
    let is_new = html != live.last;
    let trouble = trouble(&live.visit, &seen).await;
    let at = seen.good.map(|good| clock_of(good.at));
    let change = Change {
        at: at.unwrap_or_default(),
        boot: &boot(&live.visit.app),
        trouble,
        html: is_new.then_some(html.as_str()),
    };
    // JSON contains no raw line breaks, so it fits into one line of the event.
    let event = Event::default().data(serde_json::to_string(&change).ok()?);
    live.last = html;
    Some((event, live))
}

/// What keeps a page from being up to date. A view that is read rarely, because that takes long,
/// says little about the store now: so a small call that all pages share asks it.
async fn trouble<T>(visit: &Visit, seen: &Seen<T>) -> Option<&'static str> {
    let is_down = |error: &Option<Error>| error.as_ref().is_some_and(|error| !is_mistake(error));
    if is_down(&seen.error) {
        return Some("error");
    }
    let ask = Ask {
        tasks: visit.tasks(),
        key: String::new(),
        patience: SHORT_PATIENCE,
        // A small call: it is the first to see that the store is back.
        failed_rest: FRESH,
    };
    let pulse = &visit.app.shelf.pulse;
    let pulse = pulse.get(ask, || Arc::clone(&visit.app).feel_pulse());
    let pulse = pulse.await;
    if is_down(&pulse.error) {
        return Some("error");
    }
    (seen.is_reading || pulse.is_reading).then_some("slow")
}

/// The time of day, in UTC.
fn clock_of(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(11..19).unwrap_or(&text).to_owned()
}

/// The answer to an unknown path.
pub(crate) async fn not_found(Extension(visit): Extension<Visit>) -> Response {
    Notice::not_found().reply(&visit)
}
