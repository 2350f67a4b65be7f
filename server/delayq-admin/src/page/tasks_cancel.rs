//! Confirms a cancel of many tasks, with their number.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use delayq_plugin::{Error, Result, TaskFilter};

use super::{BRIEF_PATIENCE, Page};
use crate::app::App;
use crate::cache::Cache;
use crate::fields::{Fields, Link};
use crate::look::Search;
use crate::said::{counted, one_line, visible};
use crate::shell::Nav;
use crate::visit::Visit;

/// The selection of tasks in a form.
#[derive(Clone, Debug)]
pub(crate) struct TasksCancel {
    pub(crate) task_type: String,
    by: String,
    q: String,
}

#[derive(Template)]
#[template(path = "tasks_cancel.html")]
struct CancelBody<'a> {
    visit: &'a Visit,
    page: &'a TasksCancel,
    shown: String,
    count: u64,
    counted: String,
    action: String,
    back: String,
}

impl TasksCancel {
    pub(crate) fn read_fields(fields: &Fields) -> Self {
        Self {
            task_type: fields.get("type").to_owned(),
            by: fields.get("by").to_owned(),
            q: fields.get("q").to_owned(),
        }
    }

    /// The filter. Refuses an empty one, so that nothing is cancelled without a condition.
    pub(crate) fn filter(&self) -> Result<TaskFilter> {
        let search = Search::read(&self.by, &self.q);
        let search = search.map_err(|reason| Error::invalid("search", reason))?;
        let filter = search.filter().filter(|_| search != Search::Nothing);
        filter.ok_or_else(|| {
            Error::invalid(
                "search",
                "many are cancelled by the beginning of ids, by a group or by a header",
            )
        })
    }
}

impl Page for TasksCancel {
    type Data = u64;
    const NAV: Nav = Nav::Elsewhere;

    fn of(visit: &Visit) -> Self {
        Self::read_fields(&visit.fields)
    }

    fn title(&self) -> String {
        format!("Cancel tasks of {}", one_line(&self.task_type, 100))
    }

    fn key(&self) -> String {
        format!("cancel {:?}", (&self.task_type, &self.by, &self.q))
    }

    fn cache(app: &App) -> &Cache<u64> {
        &app.shelf.count
    }

    /// Counting the matches requires reading every scheduled task of the type.
    fn patience(&self) -> Duration {
        BRIEF_PATIENCE
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<u64>> + Send + 'static {
        let (tasks, task_type) = (app.tasks.clone(), self.task_type.clone());
        let filter = self.filter();
        async move { tasks.count(&task_type, &filter?).await }
    }

    fn body(&self, visit: &Visit, data: &u64) -> askama::Result<String> {
        CancelBody {
            visit,
            page: self,
            shown: visible(&self.filter().unwrap_or_default().to_string()),
            count: *data,
            counted: counted(*data, "scheduled task"),
            action: visit.href(&Link::to("/tasks/cancel")),
            back: visit.href(&Link::to("/tasks").with("type", &self.task_type)),
        }
        .render()
    }
}
