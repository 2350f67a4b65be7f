//! Dead letters grouped by error, and the jobs that change them.

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
use crate::said::{ROW_CHARS, count, counted, one_line, visible};
use crate::shell::Nav;
use crate::viewer::Role;
use crate::visit::Visit;

/// The largest number of groups on a page.
const MOST: usize = 200;

/// The page of dead letters.
#[derive(Clone, Debug)]
pub(crate) struct DeadPage {
    /// A type or pattern; empty means all types.
    task_type: String,
}

/// A dead task.
struct Sample {
    id: String,
    href: String,
}

/// A group.
struct GroupRow {
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

#[derive(Template)]
#[template(path = "dead.html")]
struct DeadBody<'a> {
    visit: &'a Visit,
    page: &'a DeadPage,
    action: String,
    said: String,
    is_complete: bool,
    rows: Vec<GroupRow>,
    left_out: usize,
    jobs: Vec<JobRow>,
    may_stop: bool,
    requeue: Option<String>,
    discard: Option<String>,
}

impl Page for DeadPage {
    type Data = DeadGroups;
    const NAV: Nav = Nav::Dead;

    fn of(visit: &Visit) -> Self {
        let task_type = visit.fields.get("type").to_owned();
        Self { task_type }
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
        let groups = data.groups.iter().take(MOST);
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
            said: match data.groups.len() as u64 {
                0 => "no dead tasks".to_owned(),
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
            may_stop: visit.may(Role::Operator),
            requeue: all("/dead/requeue", Role::Operator),
            discard: all("/dead/discard", Role::Admin),
        }
        .render()
    }
}

impl DeadPage {
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
    GroupRow {
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
