//! The history: what became of tasks.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::body::Body as Stream;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use delayq_plugin::Result;
use delayq_plugin::history::{Life, LifeOutcome, MAX_HISTORY_PAGE};
use futures_util::stream;

use super::Page;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::{Fields, Link};
use crate::look::{HistoryAsk, HistoryLook};
use crate::moment::Moment;
use crate::said::{ROW_CHARS, maybe_span, one_line};
use crate::shell::Nav;
use crate::visit::Visit;

/// The page of the history.
#[derive(Clone, Debug)]
pub(crate) struct HistoryPage {
    ask: HistoryAsk,
}

/// A life.
pub(super) struct LifeRow {
    pub(super) ended_at: Moment,
    pub(super) task_type: String,
    pub(super) id: String,
    pub(super) href: String,
    pub(super) outcome: &'static str,
    pub(super) class: &'static str,
    pub(super) icon: &'static str,
    pub(super) attempts: u32,
    pub(super) late: String,
    pub(super) run: String,
    pub(super) group: String,
    pub(super) holder: String,
    pub(super) error: String,
}

/// A filter by the way in which lives ended.
struct OutcomeChoice {
    name: &'static str,
    is_here: bool,
}

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryBody<'a> {
    ask: &'a HistoryAsk,
    action: String,
    outcomes: Vec<OutcomeChoice>,
    rows: Vec<LifeRow>,
    is_kept: bool,
    mistake: Option<&'a str>,
    download: String,
    first: Option<String>,
    next: Option<String>,
}

fn ask(fields: &Fields) -> HistoryAsk {
    let own = |name: &str| fields.get(name).to_owned();
    HistoryAsk {
        task_type: own("type"),
        id: own("id"),
        group: own("group"),
        project: own("project"),
        outcome: own("outcome"),
        error: own("error"),
        since: own("since"),
        until: own("until"),
        late_by: own("late_by"),
        longer_than: own("longer_than"),
        cursor: own("cursor"),
    }
}

impl Page for HistoryPage {
    type Data = HistoryLook;
    const NAV: Nav = Nav::History;

    fn of(visit: &Visit) -> Self {
        let ask = ask(&visit.fields);
        Self { ask }
    }

    fn title(&self) -> String {
        "History".to_owned()
    }

    fn key(&self) -> String {
        format!("{:?}", self.ask)
    }

    fn cache(app: &App) -> &Cache<HistoryLook> {
        &app.shelf.history
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<HistoryLook>> + Send + 'static {
        HistoryLook::read(app.tasks.clone(), self.ask.clone())
    }

    fn body(&self, visit: &Visit, data: &HistoryLook) -> askama::Result<String> {
        let outcome = |outcome: LifeOutcome| OutcomeChoice {
            name: outcome.as_str(),
            is_here: self.ask.outcome == outcome.as_str(),
        };
        let is_later = !self.ask.cursor.is_empty();
        let next = data.page.next.as_ref();
        HistoryBody {
            ask: &self.ask,
            action: visit.href(&Link::to("/history")),
            outcomes: LifeOutcome::ALL.map(outcome).into(),
            rows: data
                .page
                .lives
                .iter()
                .map(|life| life_row(visit, life))
                .collect(),
            is_kept: data.is_kept,
            mistake: data.mistake.as_deref(),
            download: visit.href(&self.link("/history.jsonl")),
            first: is_later.then(|| visit.href(&self.link("/history"))),
            next: next.map(|next| visit.href(&self.link("/history").with("cursor", next))),
        }
        .render()
    }
}

impl HistoryPage {
    fn link(&self, path: &str) -> Link {
        let ask = &self.ask;
        let link = Link::to(path)
            .with("type", &ask.task_type)
            .with("id", &ask.id);
        let link = link.with("group", &ask.group).with("project", &ask.project);
        let link = link.with("outcome", &ask.outcome).with("error", &ask.error);
        let link = link.with("since", &ask.since).with("until", &ask.until);
        link.with("late_by", &ask.late_by)
            .with("longer_than", &ask.longer_than)
    }
}

pub(super) fn life_row(visit: &Visit, life: &Life) -> LifeRow {
    let (class, icon) = match life.outcome {
        LifeOutcome::Done => ("good", "✓"),
        LifeOutcome::Dead => ("bad", "✕"),
        LifeOutcome::Expired => ("warn", "⊘"),
        _ => ("calm", "–"),
    };
    let link = Link::to("/task").with("type", &life.task_type);
    let text =
        |text: Option<&String>| text.map_or_else(String::new, |text| one_line(text, ROW_CHARS));
    LifeRow {
        ended_at: Moment::whole(life.ended_at),
        task_type: life.task_type.to_string(),
        id: one_line(life.id.as_str(), ROW_CHARS),
        href: visit.href(&link.with("id", &life.id)),
        outcome: life.outcome.as_str(),
        class,
        icon,
        attempts: life.attempts,
        late: maybe_span(life.late()),
        run: maybe_span(life.run_ms.map(Duration::from_millis)),
        group: text(life.group.as_ref()),
        holder: text(life.holder.as_ref()),
        error: text(life.error.as_ref()),
    }
}

/// Streams the matching lives as lines of JSON, latest first, with at most one page of the history
/// in memory. If the database fails, the body breaks off.
pub(crate) async fn download(Extension(visit): Extension<Visit>) -> Response {
    let (history, query) = (visit.tasks().history(), ask(&visit.fields).query());
    let (Some(history), Ok(mut query)) = (history, query) else {
        let text = "there is no history, or a field cannot be read: see the page";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    query.limit = MAX_HISTORY_PAGE;
    let lines = stream::try_unfold(Some((history, query)), |state| async move {
        let Some((history, mut query)) = state else {
            return Ok::<_, std::io::Error>(None);
        };
        let page = history
            .search(&query)
            .await
            .map_err(std::io::Error::other)?;
        let mut lines = Vec::new();
        for life in &page.lives {
            serde_json::to_writer(&mut lines, life)?;
            lines.push(b'\n');
        }
        query.after = page.next;
        let state = query.after.is_some().then_some((history, query));
        Ok(Some((lines, state)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"delayq-history.jsonl\"",
        ),
    ];
    (headers, Stream::from_stream(lines)).into_response()
}
