//! The recurring tasks.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use delayq_ops::{RecurringTask, RecurringTasks, recurring};
use delayq_plugin::{Result, Timestamp};

use super::Page;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::figure::Figure;
use crate::moment::Moment;
use crate::said::{count, counted, mark, one_line};
use crate::shell::Nav;
use crate::sort::{Column, Head, Sort};
use crate::tag::{Tag, pause};
use crate::viewer::Role;
use crate::visit::Visit;

const COLUMNS: [Column; 6] = [
    Column::text("type", "Type"),
    Column::text("schedule", "Schedule"),
    Column::text("next", "Next run"),
    Column::number("running", "Running"),
    Column::number("dead", "Dead"),
    Column::number("serving", "Instances").titled("instances that serve it"),
];

/// The largest number of types named that were not read to their end.
const MOST_NAMED: usize = 10;

/// The list of recurring tasks.
#[derive(Clone, Debug)]
pub(crate) struct RecurringPage {
    /// The order of the list; by the next run, unless one is chosen.
    sort: Sort,
}

/// A recurring task.
struct RecurringRow {
    task_type: String,
    type_href: String,
    name: String,
    schedule: String,
    next: Option<Moment>,
    next_href: Option<String>,
    /// The type and id of the next occurrence, for a form.
    pick: Option<String>,
    /// The type and name, for a form.
    whole: String,
    /// The same at every place of the list, for an element's id.
    mark: String,
    tags: Vec<Tag>,
    figures: Vec<Figure>,
}

#[derive(Template)]
#[template(path = "recurring.html")]
struct RecurringBody<'a> {
    visit: &'a Visit,
    own: Link,
    said: String,
    /// The types that were not read to their end, in words; empty if there is none.
    partly: String,
    heads: Vec<Head>,
    rows: Vec<RecurringRow>,
    may_operate: bool,
}

impl Page for RecurringPage {
    type Data = RecurringTasks;
    const NAV: Nav = Nav::Recurring;

    fn of(visit: &Visit) -> Self {
        Self {
            sort: Sort::read(&visit.fields, &COLUMNS),
        }
    }

    fn title(&self) -> String {
        "Recurring tasks".to_owned()
    }

    fn key(&self) -> String {
        String::new()
    }

    fn cache(app: &App) -> &Cache<RecurringTasks> {
        &app.shelf.recurring
    }

    fn read(
        &self,
        app: &Arc<App>,
    ) -> impl Future<Output = Result<RecurringTasks>> + Send + 'static {
        let tasks = app.tasks.clone();
        async move { recurring(&tasks).await }
    }

    fn body(&self, visit: &Visit, data: &RecurringTasks) -> askama::Result<String> {
        let now = visit.tasks().clock().now();
        let mut sorted: Vec<_> = data.recurring.iter().collect();
        sorted.sort_by(|a, b| self.order(a, b));
        RecurringBody {
            visit,
            own: Link::to("/recurring").with("sort", self.sort.field()),
            said: said(data),
            partly: partly(data),
            heads: self.sort.heads(visit, &COLUMNS, || Link::to("/recurring")),
            rows: sorted.into_iter().map(|one| row(visit, one, now)).collect(),
            may_operate: visit.may(Role::Operator),
        }
        .render()
    }
}

impl RecurringPage {
    fn order(&self, a: &RecurringTask, b: &RecurringTask) -> Ordering {
        let order = match self.sort.key {
            "type" => a.info.task_type.cmp(&b.info.task_type),
            "schedule" => a.info.schedule.cmp(&b.info.schedule),
            "running" => a.running.cmp(&b.running),
            "dead" => a.dead.cmp(&b.dead),
            "serving" => a.serving.cmp(&b.serving),
            _ => a.info.next.cmp(&b.info.next),
        };
        let order = self.sort.directed(order);
        order.then_with(|| a.info.name.cmp(&b.info.name))
    }
}

fn said(data: &RecurringTasks) -> String {
    let least = if data.partly_read.is_empty() {
        ""
    } else {
        "At least "
    };
    let count = data.recurring.len() as u64;
    format!("{least}{}", counted(count, "recurring task"))
}

fn partly(data: &RecurringTasks) -> String {
    let types = data.partly_read.iter().take(MOST_NAMED);
    let mut named: Vec<_> = types.map(ToString::to_string).collect();
    let more = data.partly_read.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        named.push(format!("{} more", count(more as u64)));
    }
    named.join(", ")
}

fn row(visit: &Visit, one: &RecurringTask, now: Timestamp) -> RecurringRow {
    let (info, name) = (&one.info, one.info.task_type.as_str());
    let list = |state: &str| {
        let link = Link::to("/tasks").with("type", name);
        visit.href(&link.with("state", state))
    };
    let next_id = info.next_id.as_ref();
    let mut tags: Vec<_> = one
        .paused_until
        .map(|until| pause(until, now))
        .into_iter()
        .collect();
    if one.serving == 0 {
        tags.push(Tag {
            class: "bad",
            icon: "✕",
            text: "no worker".to_owned(),
            title: "no instance serves this type".to_owned(),
        });
    }
    let serving = match one.serving {
        0 => "none".to_owned(),
        some => count(some as u64),
    };
    let whole = format!("{name} {}", info.name);
    RecurringRow {
        task_type: name.to_owned(),
        type_href: visit.href(&Link::to("/type").with("name", name)),
        name: one_line(&info.name, 100),
        schedule: one_line(&info.schedule, 100),
        next: info.next.map(|next| Moment::exact(now, next)),
        next_href: next_id.map(|id| {
            let link = Link::to("/task").with("type", name);
            visit.href(&link.with("id", id))
        }),
        pick: next_id.map(|id| format!("{name} {id}")),
        mark: mark(&whole),
        whole,
        tags,
        figures: vec![
            Figure::count("Running", one.running).to(list("running")),
            Figure::count("Dead", one.dead).to(list("dead")),
            Figure::text("Instances", serving),
        ],
    }
}
