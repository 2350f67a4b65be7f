//! The data of a list of tasks.

use delayq_plugin::store::{Cursor, MAX_BATCH, TypeStats};
use delayq_plugin::{Result, TaskFilter, TaskInfo, TaskState, TaskSubmitService};

/// The number of tasks on a page.
const PAGE: usize = 50;
/// The largest number of calls in one search by error or message. Each reads 128 tasks.
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
    /// Tasks of this group.
    Group(String),
    /// Tasks with this header and value.
    Header(String, String),
    /// Tasks whose last error contains this text.
    Error(String),
    /// Tasks whose message contains this text.
    Message(String),
}

impl Search {
    /// Reads the form fields `by` and `q`. The error says what is wrong.
    pub(crate) fn read(by: &str, text: &str) -> Result<Self, String> {
        let own = text.to_owned();
        match by {
            _ if text.is_empty() => Ok(Self::Nothing),
            "prefix" => Ok(Self::Prefix(own)),
            "group" => Ok(Self::Group(own)),
            "error" => Ok(Self::Error(own)),
            "message" => Ok(Self::Message(own)),
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
            Self::Group(label) => Some(TaskFilter::new().group(label)),
            Self::Header(name, value) => Some(TaskFilter::new().header(name, value)),
            Self::Id(_) | Self::Error(_) | Self::Message(_) => None,
        }
    }

    /// True if a task has the text that is searched for in its error or message.
    fn is_met(&self, task: &TaskInfo) -> bool {
        match self {
            Self::Error(text) => {
                let error = task.history.last_error.as_deref();
                error.is_some_and(|error| error.contains(text))
            }
            Self::Message(text) => {
                let message = task.message.as_deref().unwrap_or_default();
                String::from_utf8_lossy(message).contains(text)
            }
            _ => false,
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
            Search::Error(_) | Search::Message(_) => look.scan(&tasks, &ask).await?,
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

    /// Reads the tasks one by one, as no store has an index of errors and messages.
    async fn scan(&mut self, tasks: &TaskSubmitService, ask: &TasksAsk) -> Result<()> {
        let mut cursor = ask.after.clone();
        for _ in 0..MOST_CALLS {
            let page = tasks.list(&ask.task_type, ask.state, cursor.as_ref(), MAX_BATCH);
            let page = page.await?;
            for task in page.tasks {
                if !ask.search.is_met(&task) {
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
