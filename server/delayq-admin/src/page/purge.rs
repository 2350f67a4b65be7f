//! Confirms a purge of a type, with the number of tasks.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use delayq_plugin::{Result, TaskState};

use super::tabs::STATES;
use super::{BRIEF_PATIENCE, Page};
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::look::{Search, TasksAsk, TasksLook};
use crate::said::{counted, one_line};
use crate::shell::Nav;
use crate::visit::Visit;

/// The purge in a form.
#[derive(Clone, Debug)]
pub(crate) struct PurgePage {
    name: String,
    state: TaskState,
}

#[derive(Template)]
#[template(path = "purge.html")]
struct PurgeBody<'a> {
    visit: &'a Visit,
    name: &'a str,
    state: &'static str,
    count: u64,
    counted: String,
    is_ended: bool,
    action: String,
    back: String,
}

/// The state to purge; running tasks cannot be purged.
pub(crate) fn state_of(name: &str) -> TaskState {
    let mut states = STATES.into_iter();
    let found = states.find(|state| state.as_str() == name && *state != TaskState::Running);
    found.unwrap_or(TaskState::Scheduled)
}

impl Page for PurgePage {
    type Data = TasksLook;
    const NAV: Nav = Nav::Elsewhere;

    fn of(visit: &Visit) -> Self {
        Self {
            name: visit.fields.get("name").to_owned(),
            state: state_of(visit.fields.get("state")),
        }
    }

    fn title(&self) -> String {
        format!("Purge {}", one_line(&self.name, 100))
    }

    fn key(&self) -> String {
        format!("purge {:?}", (&self.name, self.state))
    }

    fn cache(app: &App) -> &Cache<TasksLook> {
        &app.shelf.tasks
    }

    /// Reads the same data as the list of tasks.
    fn patience(&self) -> Duration {
        BRIEF_PATIENCE
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<TasksLook>> + Send + 'static {
        let ask = TasksAsk {
            task_type: self.name.clone(),
            state: self.state,
            search: Search::Nothing,
            after: None,
        };
        TasksLook::read(app.tasks.clone(), ask)
    }

    fn body(&self, visit: &Visit, data: &TasksLook) -> askama::Result<String> {
        let stats = &data.stats;
        let count = match self.state {
            TaskState::Scheduled => stats.scheduled,
            TaskState::Dead => stats.dead,
            // The store does not count remembered tasks by their end.
            _ => stats.remembered,
        };
        let noun = format!("{} task", self.state);
        PurgeBody {
            visit,
            name: &self.name,
            state: self.state.as_str(),
            count,
            counted: counted(count, &noun),
            is_ended: self.state.is_ended(),
            action: visit.href(&Link::to("/type/purge")),
            back: visit.href(&Link::to("/type").with("name", &self.name)),
        }
        .render()
    }
}
