//! The data of a list of tasks.

use delayq_plugin::store::{Cursor, MAX_BATCH, TypeStats};
use delayq_plugin::{Result, TaskFilter, TaskInfo, TaskState, TaskSubmitService};

/// The number of tasks on a page.
const PAGE: usize = 50;
/// The largest number of calls in one search by error. Each reads 128 tasks.
const MOST_CALLS: usize = 8;

/// A search for tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Search {
    #[default]
    Nothing,
    /// Tasks with exactly this id.
    Id(String),
    /// Tasks whose id has this prefix.
    Prefix(String),
    /// Tasks with this header and value.
    Header(String, String),
    /// Tasks whose last error contains this text.
    Error(String),
}

impl Search {
    /// Reads the form fields `by` and `q`. The error says what is wrong.
    pub(crate) fn read(by: &str, text: &str) -> Result<Self, String> {
        let own = text.to_owned();
        match by {
            _ if text.is_empty() => Ok(Self::Nothing),
            "prefix" => Ok(Self::Prefix(own)),
            "error" => Ok(Self::Error(own)),
            "header" => match text.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    Ok(Self::Header(name.to_owned(), value.to_owned()))
                }
                _ => Err("write a header as NAME=VALUE".to_owned()),
            },
            _ => Ok(Self::Id(own)),
        }
    }

    /// The search as a filter for operations on many tasks; `None` if it is not possible as a
    /// filter.
    pub(crate) fn filter(&self) -> Option<TaskFilter> {
        match self {
            Self::Nothing => Some(TaskFilter::all()),
            Self::Prefix(prefix) => Some(TaskFilter::new().id_prefix(prefix)),
            Self::Header(name, value) => Some(TaskFilter::new().header(name, value)),
            Self::Id(_) | Self::Error(_) => None,
        }
    }
}

/// The requested tasks.
#[derive(Clone, Debug)]
pub(crate) struct TasksAsk {
    pub(crate) task_type: String,
    pub(crate) state: TaskState,
    pub(crate) search: Search,
    pub(crate) after: Option<Cursor>,
}

/// A page of tasks.
pub(crate) struct TasksLook {
    pub(crate) stats: TypeStats,
    /// The tasks, without their messages.
    pub(crate) tasks: Vec<TaskInfo>,
    /// The start of the next page.
    pub(crate) next: Option<Cursor>,
    /// The task with exactly the searched id.
    pub(crate) exact: Option<TaskInfo>,
}

impl TasksLook {
    pub(crate) async fn read(tasks: TaskSubmitService, ask: TasksAsk) -> Result<Self> {
        let mut look = Self {
            stats: tasks.stats(&ask.task_type).await?,
            tasks: Vec::new(),
            next: None,
            exact: None,
        };
        match &ask.search {
            Search::Id(id) => look.exact = tasks.find(&ask.task_type, id).await?,
            Search::Error(text) => look.search_errors(&tasks, &ask, text).await?,
            Search::Nothing => {
                let page = tasks.list(&ask.task_type, ask.state, ask.after.as_ref(), PAGE);
                let page = page.await?;
                (look.tasks, look.next) = (page.tasks, page.next);
            }
            search => {
                let filter = search.filter().unwrap_or_default().state(ask.state);
                let page = tasks.list_by(&ask.task_type, &filter, ask.after.as_ref(), PAGE);
                let page = page.await?;
                (look.tasks, look.next) = (page.tasks, page.next);
            }
        }
        for task in look.tasks.iter_mut().chain(&mut look.exact) {
            task.message = None;
        }
        Ok(look)
    }

    async fn search_errors(
        &mut self,
        tasks: &TaskSubmitService,
        ask: &TasksAsk,
        text: &str,
    ) -> Result<()> {
        let mut cursor = ask.after.clone();
        for _ in 0..MOST_CALLS {
            let page = tasks.list(&ask.task_type, ask.state, cursor.as_ref(), MAX_BATCH);
            let page = page.await?;
            for task in page.tasks {
                let error = task.history.last_error.as_deref().unwrap_or_default();
                if !error.contains(text) {
                    continue;
                }
                if self.tasks.len() == PAGE {
                    let last = self.tasks.last();
                    self.next = last.map(|last| Cursor::new(last.at, last.id.clone()));
                    return Ok(());
                }
                self.tasks.push(task);
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        self.next = cursor;
        Ok(())
    }
}
