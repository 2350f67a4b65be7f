//! One batch: its members' counts, and what follows.

use std::sync::Arc;

use askama::Template;
use delayq_plugin::{BATCH_TYPE, BatchEnd, BatchState, Result};

use super::Page;
use super::batches::tag;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::figure::Figure;
use crate::look::BatchLook;
use crate::moment::Moment;
use crate::said::{counted, one_line};
use crate::shell::Nav;
use crate::tag::Tag;
use crate::viewer::Role;
use crate::visit::Visit;

/// The page of a batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchPage {
    name: String,
}

#[derive(Template)]
#[template(path = "batch.html")]
struct BatchBody<'a> {
    visit: &'a Visit,
    /// The name as it is, for a form.
    name: &'a str,
    heading: String,
    all_href: String,
    tag: Option<Tag>,
    sentence: String,
    figures: Vec<Figure>,
    ended: u64,
    total: u64,
    sent: Option<Moment>,
    next: Option<Moment>,
    watcher_href: String,
    then: String,
    then_href: Option<String>,
    may_cancel: bool,
}

impl Page for BatchPage {
    type Data = BatchLook;
    const NAV: Nav = Nav::Batches;

    fn of(visit: &Visit) -> Self {
        Self {
            name: visit.fields.get("name").to_owned(),
        }
    }

    fn title(&self) -> String {
        one_line(&self.name, 100)
    }

    fn key(&self) -> String {
        self.name.clone()
    }

    fn cache(app: &App) -> &Cache<BatchLook> {
        &app.shelf.batch
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<BatchLook>> + Send + 'static {
        BatchLook::read(app.tasks.clone(), self.name.clone())
    }

    fn body(&self, visit: &Visit, data: &BatchLook) -> askama::Result<String> {
        let now = visit.tasks().clock().now();
        let progress = data.progress.as_ref();
        let counts = progress.and_then(|progress| progress.counts.as_ref());
        let task = data.watcher.as_ref();
        let watcher = Link::to("/task").with("type", BATCH_TYPE);
        let is_waiting = progress.is_some_and(|progress| progress.state == BatchState::Waiting);
        BatchBody {
            visit,
            name: &self.name,
            heading: self.title(),
            all_href: visit.at("/batches"),
            tag: progress.map(|progress| tag(progress.state)),
            sentence: sentence(data),
            figures: counts.map_or_else(Vec::new, figures),
            ended: counts.map_or(0, BatchEnd::ended),
            total: counts.map_or(1, |counts| counts.total.max(1)),
            sent: task
                .and_then(|task| task.submitted_at)
                .map(|at| Moment::exact(now, at)),
            next: task.map(|task| Moment::exact(now, task.at)),
            watcher_href: visit.href(&watcher.with("id", &self.name)),
            then: data
                .then
                .as_ref()
                .map_or_else(String::new, |then| then.task_type.to_string()),
            then_href: data.then.as_ref().map(|then| {
                let link = Link::to("/task").with("type", &then.task_type);
                visit.href(&link.with("id", &then.id))
            }),
            may_cancel: is_waiting && visit.may(Role::Operator),
        }
        .render()
    }
}

fn sentence(data: &BatchLook) -> String {
    let Some(progress) = &data.progress else {
        return "The store knows no such batch: it was never sent, or it has been over for longer \
                than the retention."
            .to_owned();
    };
    let left = |counts: &BatchEnd| counts.total.saturating_sub(counts.ended());
    match (progress.state, &progress.counts) {
        (BatchState::Over, _) => "The batch is over, and what follows it was sent, unless it was \
                                  cancelled."
            .to_owned(),
        (BatchState::Cancelled, _) => {
            "The members are being cancelled; nothing follows.".to_owned()
        }
        (BatchState::Dead, _) => {
            "The task that watches the batch is dead: requeue it to go on.".to_owned()
        }
        (_, Some(counts)) => {
            let most = if progress.is_exact { "" } else { "at most " };
            format!(
                "It waits for {most}{} to end.",
                counted(left(counts), "task")
            )
        }
        _ => "It waits.".to_owned(),
    }
}

fn figures(counts: &BatchEnd) -> Vec<Figure> {
    vec![
        Figure::count("Members", counts.total),
        Figure::count("Ended", counts.ended()),
        Figure::count("Done", counts.done),
        Figure::count("Dead", counts.dead),
        Figure::count("Cancelled", counts.cancelled),
        Figure::count("Expired", counts.expired),
        Figure::count("Forgotten", counts.forgotten),
    ]
}
