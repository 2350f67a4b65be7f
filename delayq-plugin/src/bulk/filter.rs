//! Which tasks of a type are meant.

use std::collections::BTreeMap;
use std::fmt;

use delayq_core::job::GROUP_HEADER;
use delayq_core::operate::check_condition;
use delayq_core::{Error, Result, TaskInfo, TaskState, Timestamp};

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
    /// A filter without conditions. To change all tasks, [`all`](Self::all) has to be written.
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

    /// Tasks whose id begins with `prefix`, which is not empty.
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Tasks with a header `name`, which is not empty, of exactly this value.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Tasks sent with [`DelayQueueJob::group`](crate::DelayQueueJob::group) of this label, which
    /// is not empty.
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

    /// Tasks in this state: scheduled, running or dead. Without it: the scheduled ones, and for
    /// `cancel_all` also the running ones.
    pub fn state(mut self, state: TaskState) -> Self {
        self.state = Some(state);
        self
    }

    pub(super) fn due_after_time(&self) -> Option<Timestamp> {
        self.due_after
    }

    /// The state that it names, or scheduled.
    pub(super) fn only_state(&self) -> TaskState {
        self.state.unwrap_or(TaskState::Scheduled)
    }

    /// The states that `cancel_all` goes through, in this order. Due tasks start while it works, so
    /// it looks at the running ones again in the end; what was running before cannot come back.
    pub(super) fn states_to_cancel(&self) -> Vec<TaskState> {
        let (scheduled, running) = (TaskState::Scheduled, TaskState::Running);
        match self.state {
            Some(state) => vec![state],
            None if self.names_due_times() => vec![scheduled],
            None => vec![running, scheduled, running],
        }
    }

    /// Whether it has a condition, beside the state.
    #[must_use]
    pub fn is_narrowed(&self) -> bool {
        self.id_prefix.is_some() || !self.headers.is_empty() || self.names_due_times()
    }

    fn names_due_times(&self) -> bool {
        self.due_after.is_some() || self.due_before.is_some()
    }

    /// Refuses conditions that cannot be meant, as every operation with a filter does.
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

    /// Refuses also what would change every task of a type without having been asked to, and dead
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

    /// Whether no task from `at` on, in the order of a listing, can match.
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
