//! The log of operators' actions.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::body::Body as Stream;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use delayq_plugin::Result;
use delayq_plugin::store::{LoggedAction, MAX_ACTION_PAGE};
use futures_util::stream;

use super::Page;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::{Fields, Link};
use crate::look::{LogAsk, LogLook};
use crate::moment::Moment;
use crate::said::{ROW_CHARS, count, one_line};
use crate::shell::Nav;
use crate::visit::Visit;

/// The page of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogPage {
    ask: LogAsk,
}

/// An entry.
struct LogRow {
    number: u64,
    at: Moment,
    actor: String,
    origin: String,
    verb: String,
    task_type: String,
    target: String,
    count: String,
    end: &'static str,
    class: &'static str,
    icon: &'static str,
    detail: String,
}

/// A filter by the result of actions.
struct End {
    name: &'static str,
    is_here: bool,
}

#[derive(Template)]
#[template(path = "log.html")]
struct LogBody<'a> {
    ask: &'a LogAsk,
    action: String,
    ends: Vec<End>,
    rows: Vec<LogRow>,
    is_kept: bool,
    download: String,
    first: Option<String>,
    next: Option<String>,
}

fn ask(fields: &Fields) -> LogAsk {
    let own = |name: &str| fields.get(name).to_owned();
    LogAsk {
        actor: own("actor"),
        verb: own("verb"),
        task_type: own("type"),
        end: own("end"),
        text: own("text"),
        before: fields.number("before"),
    }
}

impl Page for LogPage {
    type Data = LogLook;
    const NAV: Nav = Nav::Log;

    fn of(visit: &Visit) -> Self {
        let ask = ask(&visit.fields);
        Self { ask }
    }

    fn title(&self) -> String {
        "Log of actions".to_owned()
    }

    fn key(&self) -> String {
        format!("{:?}", self.ask)
    }

    fn cache(app: &App) -> &Cache<LogLook> {
        &app.shelf.log
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<LogLook>> + Send + 'static {
        LogLook::read(app.tasks.clone(), self.ask.clone())
    }

    fn body(&self, visit: &Visit, data: &LogLook) -> askama::Result<String> {
        let end = |name: &'static str| End {
            name,
            is_here: self.ask.end == name,
        };
        let is_later = self.ask.before.is_some();
        LogBody {
            ask: &self.ask,
            action: visit.href(&Link::to("/log")),
            ends: ["done", "refused", "failed", "begun"].map(end).into(),
            rows: data.entries.iter().map(row).collect(),
            is_kept: data.is_kept,
            download: visit.href(&self.link("/log.jsonl")),
            first: is_later.then(|| visit.href(&self.link("/log"))),
            next: data
                .next
                .map(|next| visit.href(&self.link("/log").with("before", next))),
        }
        .render()
    }
}

impl LogPage {
    fn link(&self, path: &str) -> Link {
        let ask = &self.ask;
        let link = Link::to(path)
            .with("actor", &ask.actor)
            .with("verb", &ask.verb);
        let link = link.with("type", &ask.task_type).with("end", &ask.end);
        link.with("text", &ask.text)
    }
}

fn row(entry: &LoggedAction) -> LogRow {
    let action = &entry.action;
    let (class, icon) = match action.end.as_str() {
        "done" => ("good", "✓"),
        "refused" => ("warn", "⊘"),
        "begun" => ("calm", "…"),
        _ => ("bad", "✕"),
    };
    LogRow {
        number: entry.number,
        at: Moment::whole(entry.at),
        actor: one_line(&action.actor, ROW_CHARS),
        origin: one_line(&action.origin, ROW_CHARS),
        verb: one_line(&action.verb, ROW_CHARS),
        task_type: one_line(&action.task_type, ROW_CHARS),
        target: one_line(&action.target, ROW_CHARS),
        count: action.count.map_or_else(String::new, count),
        end: action.end.as_str(),
        class,
        icon,
        detail: one_line(&action.detail, ROW_CHARS),
    }
}

/// Streams the matching entries as lines of JSON, latest first, with at most one page of the store
/// in memory. If the store fails, the body breaks off.
pub(crate) async fn download(Extension(visit): Extension<Visit>) -> Response {
    let ask = ask(&visit.fields);
    let state = Some((visit.tasks().clone(), ask));
    let lines = stream::try_unfold(state, |state| async move {
        let Some((tasks, mut ask)) = state else {
            return Ok::<_, std::io::Error>(None);
        };
        let page = tasks.store().actions(ask.before, MAX_ACTION_PAGE).await;
        let page = page.map_err(std::io::Error::other)?;
        let mut lines = Vec::new();
        for entry in page.iter().filter(|entry| ask.matches(entry)) {
            serde_json::to_writer(&mut lines, entry)?;
            lines.push(b'\n');
        }
        ask.before = page.last().map(|entry| entry.number);
        let state = (page.len() == MAX_ACTION_PAGE).then_some((tasks, ask));
        Ok(Some((lines, state)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"delayq-actions.jsonl\"",
        ),
    ];
    (headers, Stream::from_stream(lines)).into_response()
}
