//! The batches.

use std::sync::Arc;

use askama::Template;
use delayq_plugin::{BatchState, BatchSummary, Result, Timestamp};

use super::Page;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::look::BatchesLook;
use crate::moment::Moment;
use crate::said::{DASH, count, one_line};
use crate::shell::Nav;
use crate::tag::Tag;
use crate::visit::Visit;

/// The list of batches.
#[derive(Clone, Debug)]
pub(crate) struct BatchesPage {
    /// Only batches whose name contains this text.
    q: String,
}

/// A batch.
pub(super) struct BatchRow {
    pub(super) name: String,
    href: String,
    pub(super) tag: Tag,
    pub(super) ended: u64,
    pub(super) total: u64,
    said: String,
    dead: String,
    sent: Option<Moment>,
    next: Moment,
    pub(super) then: String,
    pub(super) then_href: Option<String>,
}

#[derive(Template)]
#[template(path = "batches.html")]
struct BatchesBody<'a> {
    page: &'a BatchesPage,
    action: String,
    waiting: Vec<BatchRow>,
    over: Vec<BatchRow>,
    has_more: bool,
    has_more_over: bool,
}

impl Page for BatchesPage {
    type Data = BatchesLook;
    const NAV: Nav = Nav::Batches;

    fn of(visit: &Visit) -> Self {
        Self {
            q: visit.fields.get("q").to_owned(),
        }
    }

    fn title(&self) -> String {
        "Batches".to_owned()
    }

    fn key(&self) -> String {
        self.q.clone()
    }

    fn cache(app: &App) -> &Cache<BatchesLook> {
        &app.shelf.batches
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<BatchesLook>> + Send + 'static {
        BatchesLook::read(app.tasks.clone(), self.q.clone())
    }

    fn body(&self, visit: &Visit, data: &BatchesLook) -> askama::Result<String> {
        let now = visit.tasks().clock().now();
        let rows = |batches: &[BatchSummary]| {
            let named = batches
                .iter()
                .filter(|one| one.name.as_str().contains(&self.q));
            named.map(|one| row(visit, one, now)).collect()
        };
        BatchesBody {
            page: self,
            action: visit.at("/batches"),
            waiting: rows(&data.waiting),
            over: rows(&data.over),
            has_more: data.has_more,
            has_more_over: data.has_more_over,
        }
        .render()
    }
}

/// The tag of a batch's state.
pub(super) fn tag(state: BatchState) -> Tag {
    let (class, icon, text) = match state {
        BatchState::Waiting => ("live", "◷", "waiting"),
        BatchState::Cancelled => ("warn", "⊘", "being cancelled"),
        BatchState::Dead => ("bad", "†", "dead"),
        _ => ("good", "✓", "over"),
    };
    Tag {
        class,
        icon,
        text: text.to_owned(),
        title: String::new(),
    }
}

pub(super) fn row(visit: &Visit, one: &BatchSummary, now: Timestamp) -> BatchRow {
    let name = one.name.as_str();
    let (ended, total, dead) = one.counts.as_ref().map_or((0, 0, 0), |counts| {
        (counts.ended(), counts.total, counts.dead)
    });
    let completion = one.completion_type.as_ref().zip(one.completion_id.as_ref());
    BatchRow {
        name: one_line(name, 100),
        href: visit.href(&Link::to("/batch").with("name", name)),
        tag: tag(one.state),
        ended,
        total,
        said: match &one.counts {
            Some(_) => format!("{} of {}", count(ended), count(total)),
            None => DASH.to_owned(),
        },
        dead: count(dead),
        sent: one.sent_at.map(|at| Moment::seen_from(now, at)),
        next: Moment::seen_from(now, one.at),
        then: completion.map_or_else(String::new, |(task_type, _)| task_type.to_string()),
        then_href: completion
            .map(|(task_type, _)| visit.href(&Link::to("/type").with("name", task_type))),
    }
}
