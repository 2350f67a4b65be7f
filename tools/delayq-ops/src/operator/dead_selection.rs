//! Selection of dead tasks of a type.

use std::fmt;

use delayq_plugin::store::{MAX_BATCH, check_condition};
use delayq_plugin::{
    Cursor, DeadFilter, Page, Result, TaskFilter, TaskId, TaskInfo, TaskState, TaskSubmitService,
    Timestamp,
};

use crate::dead::folded;

/// Dead tasks of one type that meet all conditions; without conditions, all of them.
#[derive(Clone, Debug, Default)]
#[must_use = "a selection does nothing by itself"]
pub struct DeadSelection {
    task_type: String,
    ids: Vec<TaskId>,
    filter: TaskFilter,
    error: Option<String>,
    group: Option<String>,
    without_error: bool,
    died_before: Option<Timestamp>,
    limit: Option<u64>,
}

impl DeadSelection {
    /// All dead tasks of a type.
    pub fn of(task_type: impl Into<String>) -> Self {
        Self {
            task_type: task_type.into(),
            ..Self::default()
        }
    }

    /// The tasks that one call of a store selects by this filter.
    pub(super) fn like(task_type: &str, filter: &DeadFilter) -> Self {
        let selection = Self::of(task_type);
        match filter {
            DeadFilter::Ids(ids) => selection.ids(ids.clone()),
            DeadFilter::Matching {
                died_before,
                error_contains,
                limit,
            } => Self {
                died_before: *died_before,
                error: error_contains.clone(),
                limit: (*limit != usize::MAX).then_some(*limit as u64),
                ..selection
            },
        }
    }

    /// Selects these ids; other conditions are then ignored.
    pub fn ids(mut self, ids: Vec<TaskId>) -> Self {
        self.ids = ids;
        self
    }

    /// Selects matching tasks; the filter's state and due times are ignored.
    pub fn filter(mut self, filter: TaskFilter) -> Self {
        self.filter = filter;
        self
    }

    /// Selects tasks whose last error contains this text, which must not be empty.
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Selects one of the [groups](crate::dead_groups) by its `error`, in which `#` stands for each
    /// number and id. It must not be empty: see [`without_error`](Self::without_error).
    pub fn group(mut self, error: impl Into<String>) -> Self {
        self.group = Some(error.into());
        self
    }

    /// Selects tasks that died without an error, or with a blank one.
    pub fn without_error(mut self) -> Self {
        self.without_error = true;
        self
    }

    /// Selects tasks that died before this time.
    pub fn died_before(mut self, time: Timestamp) -> Self {
        self.died_before = Some(time);
        self
    }

    /// Selects only the first `most`, by their time of death.
    pub fn limit(mut self, most: u64) -> Self {
        self.limit = Some(most);
        self
    }

    /// The type.
    #[must_use]
    pub fn task_type(&self) -> &str {
        &self.task_type
    }

    /// True if it selects every dead task of the type.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.ids.is_empty() && !self.filter.is_narrowed() && self.words().is_empty()
    }

    /// Refuses conditions that every dead task meets, and contradictory filters. Each use of the
    /// selection does this, too.
    ///
    /// # Errors
    /// Only `InvalidInput`.
    pub fn check(&self) -> Result<()> {
        self.filter.clone().state(TaskState::Dead).check()?;
        for (name, text) in [("error_contains", &self.error), ("error_like", &self.group)] {
            if let Some(text) = text {
                check_condition(name, text)?;
            }
        }
        Ok(())
    }

    /// True if a dead task meets the conditions outside the filter.
    fn matches(&self, task: &TaskInfo) -> bool {
        let error = task.history.last_error.as_deref().unwrap_or_default();
        self.error.as_ref().is_none_or(|text| error.contains(text))
            && self
                .group
                .as_ref()
                .is_none_or(|group| folded(error) == *group)
            && (!self.without_error || error.trim().is_empty())
            && self.died_before.is_none_or(|before| task.at < before)
    }

    /// The ids of the selected tasks, by their time of death. Reads all dead tasks of the type in
    /// pages of 128, unless ids are given.
    ///
    /// # Errors
    /// `InvalidInput` for a contradictory filter and for an empty text, and the store's errors.
    pub async fn find(&self, tasks: &TaskSubmitService) -> Result<Vec<TaskId>> {
        self.read(tasks, |task| task.id).await
    }

    /// Like [`find`](Self::find), with all facts about each task.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn tasks(&self, tasks: &TaskSubmitService) -> Result<Vec<TaskInfo>> {
        self.read(tasks, |task| task).await
    }

    /// Up to `limit` selected tasks after `cursor`, by their time of death; ids are ignored. Reads
    /// dead tasks until it has found as many.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn page(
        &self,
        tasks: &TaskSubmitService,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.check()?;
        let filter = self.filter.clone().state(TaskState::Dead);
        let mut found = Page::default();
        found.next = cursor.cloned();
        loop {
            let page = tasks.list_by(&self.task_type, &filter, found.next.as_ref(), MAX_BATCH);
            let page = page.await?;
            found.next = page.next;
            for task in page.tasks {
                if found.tasks.len() >= limit {
                    let last = found.tasks.last();
                    found.next = last.map(|last| Cursor::new(last.at, last.id.clone()));
                    return Ok(found);
                }
                if self.matches(&task) {
                    found.tasks.push(task);
                }
            }
            if found.next.is_none() {
                return Ok(found);
            }
        }
    }

    /// The selected tasks, each converted by `pick`.
    async fn read<T>(
        &self,
        tasks: &TaskSubmitService,
        pick: impl Fn(TaskInfo) -> T,
    ) -> Result<Vec<T>> {
        self.check()?;
        let mut found = Vec::new();
        if !self.ids.is_empty() {
            for id in &self.ids {
                let task = tasks.find(&self.task_type, id.as_str()).await?;
                found.extend(task.filter(|task| task.state == TaskState::Dead).map(&pick));
            }
            return Ok(found);
        }
        let most = self.limit.unwrap_or(u64::MAX);
        let filter = self.filter.clone().state(TaskState::Dead);
        let mut cursor: Option<Cursor> = None;
        loop {
            let page = tasks.list_by(&self.task_type, &filter, cursor.as_ref(), MAX_BATCH);
            let page = page.await?;
            for task in page.tasks {
                if found.len() as u64 >= most {
                    return Ok(found);
                }
                if self.matches(&task) {
                    found.push(pick(task));
                }
            }
            cursor = page.next;
            if cursor.is_none() || found.len() as u64 >= most {
                return Ok(found);
            }
        }
    }

    /// The conditions outside the filter, as words.
    fn words(&self) -> Vec<String> {
        let (error, group) = (self.error.iter(), self.group.iter());
        let error = error.map(|text| format!("error contains {text:?}"));
        let group = group.map(|error| format!("error like {error:?}"));
        let without = self.without_error.then(|| "without an error".to_owned());
        let before = self.died_before.map(|time| format!("died before {time}"));
        let limit = self.limit.map(|most| format!("the first {most}"));
        let words = error.chain(group).chain(without);
        words.chain(before).chain(limit).collect()
    }

    /// The number of selected tasks. Without conditions this takes one call.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn count(&self, tasks: &TaskSubmitService) -> Result<u64> {
        self.check()?;
        if self.is_all() {
            return Ok(tasks.stats(&self.task_type).await?.dead);
        }
        Ok(self.find(tasks).await?.len() as u64)
    }
}

impl fmt::Display for DeadSelection {
    /// The conditions as words, for the log of actions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.ids.is_empty() {
            let ids: Vec<_> = self.ids.iter().map(TaskId::as_str).collect();
            return f.write_str(&ids.join(", "));
        }
        let filter = Some(self.filter.to_string()).filter(|words| !words.is_empty());
        let mut words: Vec<_> = filter.into_iter().chain(self.words()).collect();
        if words.is_empty() {
            words.push("all dead tasks".to_owned());
        }
        f.write_str(&words.join(", "))
    }
}
