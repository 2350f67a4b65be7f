//! Dead letters grouped by error, and the jobs that change them.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use delayq_ops::{DeadGroup, DeadGroups, dead_groups};
use delayq_plugin::{Result, TaskFilter, Timestamp};

use super::dead_change::WITHOUT_ERROR;
use super::{BRIEF_PATIENCE, Page};
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::job::{BulkJob, JobState};
use crate::moment::Moment;
use crate::said::{ROW_CHARS, count, counted, mark, one_line, visible};
use crate::shell::Nav;
use crate::sort::{Column, Head, Sort};
use crate::viewer::Role;
use crate::visit::Visit;

/// The largest number of groups on a page.
pub(super) const MOST: usize = 200;

/// The columns of the list that have values.
const COLUMNS: [Column; 5] = [
    Column::number("tasks", "Tasks"),
    Column::text("error", "Error"),
    Column::text("type", "Type"),
    Column::text("first", "First died"),
    Column::text("last", "Last died"),
];

/// The page of dead letters.
#[derive(Clone, Debug)]
pub(crate) struct DeadPage {
    /// A type or pattern; empty means all types.
    task_type: String,
    /// The order of the groups; the largest first, unless one is chosen.
    sort: Sort,
}

/// A dead task.
struct Sample {
    id: String,
    href: String,
}

/// A group.
struct GroupRow {
    /// Its type and error, for a form.
    pick: String,
    /// The same at every place of the list, for an element's id.
    mark: String,
    task_type: String,
    type_href: String,
    error: String,
    latest: String,
    count: String,
    first: Moment,
    last: Moment,
    samples: Vec<Sample>,
    requeue: Option<String>,
    discard: Option<String>,
}

/// A job.
struct JobRow {
    number: u64,
    what: String,
    target: String,
    actor: String,
    began: Moment,
    done: u64,
    count: u64,
    said: String,
    is_running: bool,
    class: &'static str,
}

/// What this viewer may do. Who may requeue may stop a job, too.
struct DeadRights {
    requeue: bool,
    discard: bool,
}

#[derive(Template)]
#[template(path = "dead.html")]
struct DeadBody<'a> {
    visit: &'a Visit,
    page: &'a DeadPage,
    action: String,
    /// The page itself, to which an action leads back.
    own: Link,
    said: String,
    is_complete: bool,
    heads: Vec<Head>,
    rows: Vec<GroupRow>,
    left_out: usize,
    jobs: Vec<JobRow>,
    may: DeadRights,
    requeue: Option<String>,
    discard: Option<String>,
}

impl Page for DeadPage {
    type Data = DeadGroups;
    const NAV: Nav = Nav::Dead;

    fn of(visit: &Visit) -> Self {
        Self {
            task_type: visit.fields.get("type").to_owned(),
            sort: Sort::read(&visit.fields, &COLUMNS),
        }
    }

    fn title(&self) -> String {
        "Dead letters".to_owned()
    }

    fn key(&self) -> String {
        self.pattern().to_owned()
    }

    fn cache(app: &App) -> &Cache<DeadGroups> {
        &app.shelf.dead
    }

    fn patience(&self) -> Duration {
        BRIEF_PATIENCE
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<DeadGroups>> + Send + 'static {
        let (tasks, types) = (app.tasks.clone(), self.pattern().to_owned());
        async move { dead_groups(&tasks, &types, &TaskFilter::new()).await }
    }

    fn body(&self, visit: &Visit, data: &DeadGroups) -> askama::Result<String> {
        let now = visit.tasks().clock().now();
        let mut groups: Vec<_> = data.groups.iter().collect();
        groups.sort_by(|a, b| self.order(a, b));
        let groups = groups.into_iter().take(MOST);
        let is_one = !self.task_type.is_empty() && !self.task_type.contains('*');
        let all = |path: &str, role: Role| {
            let link = Link::to(path).with("type", &self.task_type);
            (is_one && data.count > 0 && visit.may(role)).then(|| visit.href(&link))
        };
        let jobs = visit.app.jobs.all();
        DeadBody {
            visit,
            page: self,
            action: visit.href(&Link::to("/dead")),
            own: self.link().with("sort", self.sort.field()),
            heads: self.sort.heads(visit, &COLUMNS, || self.link()),
            said: match data.groups.len() as u64 {
                0 => "No dead tasks".to_owned(),
                groups => format!(
                    "{} in {}",
                    counted(data.count, "dead task"),
                    counted(groups, "group")
                ),
            },
            is_complete: data.is_complete,
            rows: groups.map(|group| row(visit, group, now)).collect(),
            left_out: data.groups.len().saturating_sub(MOST),
            jobs: jobs.iter().map(|job| job_row(job, now)).collect(),
            may: DeadRights {
                requeue: visit.may(Role::Operator),
                discard: visit.may(Role::Admin),
            },
            requeue: all("/dead/requeue", Role::Operator),
            discard: all("/dead/discard", Role::Admin),
        }
        .render()
    }
}

impl DeadPage {
    fn link(&self) -> Link {
        Link::to("/dead").with("type", &self.task_type)
    }

    fn order(&self, a: &DeadGroup, b: &DeadGroup) -> Ordering {
        let order = match self.sort.key {
            "error" => a.error.cmp(&b.error),
            "type" => a.task_type.cmp(&b.task_type),
            "first" => a.first_at.cmp(&b.first_at),
            "last" => a.last_at.cmp(&b.last_at),
            "tasks" => a.count.cmp(&b.count),
            _ => b.count.cmp(&a.count),
        };
        self.sort.directed(order)
    }

    fn pattern(&self) -> &str {
        if self.task_type.is_empty() {
            "*"
        } else {
            &self.task_type
        }
    }
}

fn row(visit: &Visit, group: &DeadGroup, now: Timestamp) -> GroupRow {
    let name = group.task_type.as_str();
    let sample = |id: &delayq_plugin::TaskId| Sample {
        id: id.to_string(),
        href: visit.href(&Link::to("/task").with("type", name).with("id", id)),
    };
    let change = |path: &str, role: Role| {
        let link = Link::to(path).with("type", name);
        let link = if group.error.trim().is_empty() {
            link.with("by", WITHOUT_ERROR)
        } else {
            link.with("by", "group").with("group", &group.error)
        };
        visit.may(role).then(|| visit.href(&link))
    };
    let pick = format!("{name} {}", group.error);
    GroupRow {
        mark: mark(&pick),
        pick,
        task_type: name.to_owned(),
        type_href: visit.href(&Link::to("/type").with("name", name)),
        error: one_line(&group.error, ROW_CHARS),
        latest: visible(&group.latest_error),
        count: count(group.count),
        first: Moment::seen_from(now, group.first_at),
        last: Moment::seen_from(now, group.last_at),
        samples: group.ids.iter().map(sample).collect(),
        requeue: change("/dead/requeue", Role::Operator),
        discard: change("/dead/discard", Role::Admin),
    }
}

fn job_row(job: &BulkJob, now: Timestamp) -> JobRow {
    let (said, class) = match job.state() {
        JobState::Running => ("running".to_owned(), "live"),
        JobState::Done(said) => (said, "good"),
        JobState::Failed(error) => (format!("failed: {error}"), "bad"),
        JobState::Stopped(viewer) => (format!("stopped by {viewer}"), "warn"),
    };
    JobRow {
        number: job.number,
        what: format!("{} {}", job.verb, job.task_type),
        target: one_line(&job.target, ROW_CHARS),
        actor: one_line(&job.actor, 100),
        began: Moment::seen_from(now, job.began_at),
        done: job.done(),
        count: job.count().max(1),
        said: one_line(&said, ROW_CHARS),
        is_running: job.is_running(),
        class,
    }
}
