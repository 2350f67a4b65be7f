//! The tasks of a type, by state.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use delayq_plugin::store::{Cursor, GROUP_HEADER};
use delayq_plugin::{Error, Result, TaskId, TaskInfo, TaskState, Timestamp, WaitsFor};

use super::picked::TaskActions;
use super::tabs::{STATES, Tab, tabs};
use super::{BRIEF_PATIENCE, PATIENCE, Page};
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::look::{Search, TasksAsk, TasksLook};
use crate::moment::Moment;
use crate::said::{DASH, ROW_CHARS, one_line};
use crate::shell::Nav;
use crate::viewer::Role;
use crate::visit::Visit;

/// The requested list of tasks.
#[derive(Clone, Debug)]
pub(crate) struct TasksPage {
    pub(crate) task_type: String,
    pub(crate) state: TaskState,
    pub(crate) by: String,
    pub(crate) q: String,
    pub(crate) search: Result<Search, String>,
    after: Option<Cursor>,
}

/// A task.
struct ListRow {
    id: String,
    /// Its type and id, for a form.
    pick: String,
    href: String,
    at: Moment,
    attempt: String,
    group: String,
    note: String,
}

/// A kind of search.
struct By {
    value: &'static str,
    name: &'static str,
    is_here: bool,
}

#[derive(Template)]
#[template(path = "tasks.html")]
struct TasksBody<'a> {
    visit: &'a Visit,
    page: &'a TasksPage,
    /// The page itself, to which an action leads back.
    own: Link,
    may: TaskActions,
    action: String,
    type_href: String,
    tabs: Vec<Tab>,
    bys: Vec<By>,
    rows: Vec<ListRow>,
    at_head: &'static str,
    note_head: &'static str,
    first: Option<String>,
    next: Option<String>,
    /// The link that cancels the tasks found by the search.
    cancel: Option<String>,
    is_search: bool,
    has_groups: bool,
}

impl Page for TasksPage {
    type Data = TasksLook;
    const NAV: Nav = Nav::Elsewhere;

    fn of(visit: &Visit) -> Self {
        let fields = &visit.fields;
        let state = STATES
            .into_iter()
            .find(|state| state.as_str() == fields.get("state"));
        let id = TaskId::new(fields.get("after_id")).ok();
        let at = fields.number("after_at").map(Timestamp::from_millis);
        let (by, q) = (fields.get("by"), fields.get("q"));
        Self {
            task_type: fields.get("type").to_owned(),
            state: state.unwrap_or(TaskState::Scheduled),
            search: Search::read(by, q),
            by: by.to_owned(),
            q: q.to_owned(),
            after: at.zip(id).map(|(at, id)| Cursor::new(at, id)),
        }
    }

    fn title(&self) -> String {
        format!("{} tasks of {}", self.state, one_line(&self.task_type, 100))
    }

    fn key(&self) -> String {
        let after = self.after.as_ref();
        let after = after.map(|after| (after.at.as_millis(), after.id.as_str()));
        format!(
            "{:?}",
            (&self.task_type, self.state, &self.by, &self.q, after)
        )
    }

    fn cache(app: &App) -> &Cache<TasksLook> {
        &app.shelf.tasks
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<TasksLook>> + Send + 'static {
        let tasks = app.tasks.clone();
        let ask = self.search.clone().map(|search| TasksAsk {
            task_type: self.task_type.clone(),
            state: self.state,
            search,
            after: self.after.clone(),
        });
        async move {
            let ask = ask.map_err(|reason| Error::invalid("search", reason))?;
            TasksLook::read(tasks, ask).await
        }
    }

    /// Redis reads all ended tasks to find the latest ones.
    fn patience(&self) -> Duration {
        match self.search {
            Ok(Search::Nothing) if self.state.is_ended() => BRIEF_PATIENCE,
            _ => PATIENCE,
        }
    }

    fn elsewhere(&self, data: &TasksLook) -> Option<Link> {
        let found = data.exact.as_ref()?;
        let link = Link::to("/task").with("type", &self.task_type);
        Some(link.with("id", &found.id))
    }

    fn body(&self, visit: &Visit, data: &TasksLook) -> askama::Result<String> {
        let now = data.stats.now;
        let may_cancel = visit.may(Role::Admin) && self.state == TaskState::Scheduled;
        let is_bulk = matches!(
            self.search,
            Ok(Search::Prefix(_) | Search::Group(_) | Search::Header(..))
        );
        let cancel = (may_cancel && is_bulk).then(|| {
            let link = Link::to("/tasks/cancel").with("type", &self.task_type);
            visit.href(&link.with("by", &self.by).with("q", &self.q))
        });
        let next = data.next.as_ref().map(|next| {
            let link = self.searched().with("after_at", next.at.as_millis());
            visit.href(&link.with("after_id", &next.id))
        });
        let is_later = self.after.is_some();
        TasksBody {
            visit,
            page: self,
            own: self.searched(),
            may: TaskActions::on(visit, &[self.state]),
            action: visit.href(&Link::to("/tasks")),
            type_href: visit.href(&Link::to("/type").with("name", &self.task_type)),
            tabs: tabs(visit, &self.task_type, &data.stats, Some(self.state)),
            bys: self.bys(),
            rows: data
                .tasks
                .iter()
                .map(|task| self.row(visit, task, now))
                .collect(),
            at_head: at_head(self.state),
            note_head: match self.state {
                TaskState::Dead => "Error",
                TaskState::Running => "Held by",
                TaskState::Scheduled => "Waits for",
                _ => "Note",
            },
            first: is_later.then(|| visit.href(&self.searched())),
            next,
            cancel,
            is_search: self.search != Ok(Search::Nothing),
            has_groups: data
                .tasks
                .iter()
                .any(|task| task.headers.contains_key(GROUP_HEADER)),
        }
        .render()
    }
}

/// The column heading for the time of tasks in this state.
pub(crate) fn at_head(state: TaskState) -> &'static str {
    match state {
        TaskState::Scheduled => "Due",
        TaskState::Running => "Lock expires",
        TaskState::Dead => "Died",
        _ => "Ended",
    }
}

impl TasksPage {
    /// The list with its search, from its beginning.
    fn searched(&self) -> Link {
        Link::to("/tasks")
            .with("type", &self.task_type)
            .with("state", self.state.as_str())
            .with("by", &self.by)
            .with("q", &self.q)
    }

    fn bys(&self) -> Vec<By> {
        let by = |value, name| By {
            value,
            name,
            is_here: self.by == value,
        };
        let mut bys = vec![by("id", "Id is")];
        if !self.state.is_ended() {
            bys.push(by("prefix", "Id begins with"));
            bys.push(by("group", "Group is"));
            bys.push(by("header", "Header NAME=VALUE"));
            bys.push(by("error", "Last error contains"));
            bys.push(by("message", "Message contains"));
        }
        bys
    }

    fn row(&self, visit: &Visit, task: &TaskInfo, now: Timestamp) -> ListRow {
        let link = Link::to("/task").with("type", &self.task_type);
        let error = task.history.last_error.as_deref();
        let note = match task.state {
            TaskState::Scheduled => waits(task),
            TaskState::Running => task.holder.clone(),
            _ => error.map(str::to_owned),
        };
        ListRow {
            id: task.id.to_string(),
            pick: format!("{} {}", self.task_type, task.id),
            href: visit.href(&link.with("id", &task.id)),
            at: Moment::seen_from(now, task.at),
            attempt: task.attempt.to_string(),
            group: task
                .headers
                .get(GROUP_HEADER)
                .map_or_else(String::new, |group| one_line(group, ROW_CHARS)),
            note: note.map_or_else(|| DASH.to_owned(), |note| one_line(&note, ROW_CHARS)),
        }
    }
}

/// The reason why a scheduled task waits, in a few words.
fn waits(task: &TaskInfo) -> Option<String> {
    let error = task.history.last_error.as_deref();
    let said = match task.waits_for? {
        // The column of the due time says it.
        WaitsFor::Delay => return None,
        WaitsFor::Retry => match error {
            Some(error) => format!("A retry after: {error}"),
            None => "A retry".to_owned(),
        },
        WaitsFor::Release => "A wait after it was given back".to_owned(),
        WaitsFor::Requeue => "Its due time since a requeue".to_owned(),
        WaitsFor::Pause { .. } => "The end of a pause".to_owned(),
        WaitsFor::Concurrency => "A free slot: max concurrency is reached".to_owned(),
        WaitsFor::Rate => "The rate limit".to_owned(),
        _ => "A claim".to_owned(),
    };
    Some(said)
}
