//! Search for matching tasks and types, and the walk over them.

use std::collections::BTreeMap;
use std::fmt;

use delayq_core::job::{GROUP_HEADER, header_name};
use delayq_core::operate::{Cursor, Page, TypeStats, check_condition};
use delayq_core::store::MAX_BATCH;
use delayq_core::{
    Error, Result, Store, TaskId, TaskInfo, TaskState, TaskType, Timestamp, TypePattern,
};

/// Maximum number of the store's pages read for one page of `list_by`.
const MOST_PAGES: usize = 16;

/// The number of tasks that match.
pub(crate) async fn count(store: &dyn Store, types: &str, filter: &TaskFilter) -> Result<u64> {
    filter.check()?;
    let mut count = 0;
    for task_type in matching_types(store, types).await? {
        let counts = store.stats(&task_type).await?;
        let mut walk = Walk::new(store, &task_type, filter.only_state(), filter, &counts);
        while let Some(tasks) = walk.next().await? {
            count += tasks.len() as u64;
        }
    }
    Ok(count)
}

/// Up to `limit` tasks that match, after `cursor`.
pub(crate) async fn list_by(
    store: &dyn Store,
    task_type: &TaskType,
    filter: &TaskFilter,
    cursor: Option<&Cursor>,
    limit: usize,
) -> Result<Page> {
    filter.check()?;
    let limit = limit.clamp(1, MAX_BATCH);
    let mut found = Page::default();
    found.next = cursor.cloned().or_else(|| first_cursor(filter));
    for _ in 0..MOST_PAGES {
        let (state, cursor) = (filter.only_state(), found.next.as_ref());
        let page = store.list(task_type, state, cursor, MAX_BATCH);
        let page = page.await?;
        found.next = page.next;
        for task in page.tasks {
            if filter.is_over(task.at) {
                found.next = None;
                return Ok(found);
            }
            if !filter.matches(&task) {
                continue;
            }
            if found.tasks.len() == limit {
                let last = found.tasks.last();
                found.next = last.map(|last| Cursor::new(last.at, last.id.clone()));
                return Ok(found);
            }
            found.tasks.push(task);
        }
        if found.next.is_none() {
            break;
        }
    }
    Ok(found)
}

/// The type that `types` names, whether listed or not; or, for a pattern, the listed types that
/// match.
pub(crate) async fn matching_types(store: &dyn Store, types: &str) -> Result<Vec<TaskType>> {
    let pattern = TypePattern::new(types)?;
    if let TypePattern::Exact(task_type) = pattern {
        return Ok(vec![task_type]);
    }
    let mut types = store.types().await?;
    types.retain(|task_type| pattern.matches(task_type));
    Ok(types)
}

/// A selection of the tasks of a type, for [`count`], [`list_by`], [`cancel_all`] and
/// [`reschedule_all`]. All conditions have to hold.
///
/// ```
/// use delayq_plugin::{TaskFilter, Timestamp};
///
/// let filter = TaskFilter::new().group("tenant-7").id_prefix("order-");
/// # let _ = filter;
/// ```
///
/// [`count`]: crate::TaskSubmitService::count
/// [`list_by`]: crate::TaskSubmitService::list_by
/// [`cancel_all`]: crate::TaskSubmitService::cancel_all
/// [`reschedule_all`]: crate::TaskSubmitService::reschedule_all
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a filter does nothing by itself"]
pub struct TaskFilter {
    is_all: bool,
    id_prefix: Option<String>,
    headers: BTreeMap<String, String>,
    due_after: Option<Timestamp>,
    due_before: Option<Timestamp>,
    state: Option<TaskState>,
}

impl TaskFilter {
    /// A filter without conditions. To change all tasks, [`all`](Self::all) is required.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every task, explicitly. Conditions narrow it as usual.
    pub fn all() -> Self {
        Self {
            is_all: true,
            ..Self::default()
        }
    }

    /// Tasks whose id begins with `prefix`, which must not be empty.
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Tasks with a header `name`, in any case and not empty, of exactly this value.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(header_name(name), value.into());
        self
    }

    /// Tasks sent with [`DelayQueueJob::group`](crate::DelayQueueJob::group) of this label, which
    /// must not be empty.
    pub fn group(self, label: impl Into<String>) -> Self {
        self.header(GROUP_HEADER, label)
    }

    /// Scheduled tasks due before `time`.
    pub fn due_before(mut self, time: impl Into<Timestamp>) -> Self {
        self.due_before = Some(time.into());
        self
    }

    /// Scheduled tasks due after `time`.
    pub fn due_after(mut self, time: impl Into<Timestamp>) -> Self {
        self.due_after = Some(time.into());
        self
    }

    /// Tasks in this state: scheduled, running or dead. The default is scheduled tasks; for
    /// `cancel_all` also running ones.
    pub fn state(mut self, state: TaskState) -> Self {
        self.state = Some(state);
        self
    }

    pub(super) fn due_after_time(&self) -> Option<Timestamp> {
        self.due_after
    }

    /// The state of the filter, or scheduled.
    pub(super) fn only_state(&self) -> TaskState {
        self.state.unwrap_or(TaskState::Scheduled)
    }

    /// The states that `cancel_all` searches, in this order. Due tasks start meanwhile, so it
    /// searches the running ones again at the end; those found running before cannot come back.
    pub(super) fn states_to_cancel(&self) -> Vec<TaskState> {
        let (scheduled, running) = (TaskState::Scheduled, TaskState::Running);
        match self.state {
            Some(state) => vec![state],
            None if self.names_due_times() => vec![scheduled],
            None => vec![running, scheduled, running],
        }
    }

    /// True if there is a condition besides the state.
    #[must_use]
    pub fn is_narrowed(&self) -> bool {
        self.id_prefix.is_some() || !self.headers.is_empty() || self.names_due_times()
    }

    fn names_due_times(&self) -> bool {
        self.due_after.is_some() || self.due_before.is_some()
    }

    /// Refuses contradictory conditions, as every operation with a filter does.
    ///
    /// # Errors
    /// `InvalidInput` for an empty text, for the state of tasks that have ended, and for due times
    /// of tasks that are not scheduled.
    pub fn check(&self) -> Result<()> {
        let refuse = |reason: String| Err(Error::invalid("filter", reason));
        if let Some(prefix) = &self.id_prefix {
            check_condition("id_prefix", prefix)?;
        }
        for (name, value) in &self.headers {
            check_condition("name of a header", name)?;
            if name == GROUP_HEADER {
                check_condition("group", value)?;
            }
        }
        let state = self.only_state();
        if state.is_ended() {
            let reason = format!("{state} tasks are found by their id only, with find");
            return refuse(reason);
        }
        if state != TaskState::Scheduled && self.names_due_times() {
            let reason = format!("{state} tasks have no due time: leave due_before and due_after");
            return refuse(reason);
        }
        Ok(())
    }

    /// Also refuses an unconditional filter that does not ask for all tasks explicitly, and dead
    /// tasks.
    pub(super) fn check_change(&self) -> Result<()> {
        self.check()?;
        if !self.is_narrowed() && !self.is_all {
            let reason = "it has no condition: write TaskFilter::all() to change every task";
            return Err(Error::invalid("filter", reason));
        }
        if self.state == Some(TaskState::Dead) {
            let reason = "dead tasks: use requeue_dead or discard_dead";
            return Err(Error::invalid("filter", reason));
        }
        Ok(())
    }

    /// True if no task from `at` on, in listing order, can match.
    pub(super) fn is_over(&self, at: Timestamp) -> bool {
        self.due_before.is_some_and(|before| at >= before)
    }

    pub(super) fn matches(&self, task: &TaskInfo) -> bool {
        let prefix = self.id_prefix.as_deref().unwrap_or_default();
        let has = |name: &str, value: &str| task.headers.get(name).is_some_and(|one| one == value);
        task.id.as_str().starts_with(prefix)
            && self.headers.iter().all(|(name, value)| has(name, value))
            && !self.is_over(task.at)
            && self.due_after.is_none_or(|after| task.at > after)
    }
}

impl fmt::Display for TaskFilter {
    /// The conditions as words, such as `id begins with order-, group = tenant-7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.id_prefix.iter();
        let prefix = prefix.map(|prefix| format!("id begins with {prefix}"));
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| format!("{name} = {value}"));
        let after = self.due_after.map(|time| format!("due after {time}"));
        let before = self.due_before.map(|time| format!("due before {time}"));
        let state = self.state.map(|state| state.to_string());
        let words = prefix.chain(headers).chain(after).chain(before);
        f.write_str(&words.chain(state).collect::<Vec<_>>().join(", "))
    }
}

/// Tasks that may be read in addition to those present at the start.
const SLACK: u64 = 1_024;
/// How often each task may be met: at its old time, at its new time, and once more.
const VISITS: u64 = 3;

/// One walk through the tasks of a type in one state, by time and id. It only goes forward, and
/// stops after a number of tasks that is fixed at its start.
pub(super) struct Walk<'a> {
    store: &'a dyn Store,
    task_type: &'a TaskType,
    state: TaskState,
    filter: &'a TaskFilter,
    cursor: Option<Cursor>,
    is_over: bool,
    left: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        task_type: &'a TaskType,
        state: TaskState,
        filter: &'a TaskFilter,
        counts: &TypeStats,
    ) -> Self {
        let count = match state {
            TaskState::Scheduled => counts.scheduled,
            TaskState::Running => counts.running,
            _ => counts.dead,
        };
        Self {
            store,
            task_type,
            state,
            filter,
            cursor: first_cursor(filter),
            is_over: false,
            left: count.saturating_mul(VISITS).saturating_add(SLACK),
        }
    }

    /// The next matching tasks, possibly none; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<TaskInfo>>> {
        if self.is_over || self.left == 0 {
            return Ok(None);
        }
        let cursor = self.cursor.as_ref();
        let page = self
            .store
            .list(self.task_type, self.state, cursor, MAX_BATCH)
            .await?;
        let last = page.tasks.last();
        self.is_over = page.next.is_none() || last.is_none_or(|last| self.filter.is_over(last.at));
        self.left = self.left.saturating_sub(page.tasks.len() as u64);
        self.cursor = page.next;
        let mut tasks = page.tasks;
        tasks.retain(|task| self.filter.matches(task));
        Ok(Some(tasks))
    }

    /// True if the walk reached the last task.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// The start of a listing of the matching tasks.
pub(super) fn first_cursor(filter: &TaskFilter) -> Option<Cursor> {
    let after = filter.due_after_time()?;
    // No id sorts after this one.
    let last_id = TaskId::new("~".repeat(delayq_core::name::MAX_TASK_ID_BYTES)).ok()?;
    Some(Cursor::new(after, last_id))
}
