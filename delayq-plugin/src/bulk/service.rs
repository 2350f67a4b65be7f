//! The bulk operations of the submit service.

use delayq_core::operate::{Cursor, Page};
use delayq_core::store::MAX_BATCH;
use delayq_core::{Result, TaskType, Timestamp, TypePattern, When};

use super::walk::{Walk, first_cursor};
use super::{BulkChange, TaskFilter};
use crate::submit::TaskSubmitService;

/// Pages of the store that one page of `list_by` may take.
const MOST_PAGES: usize = 16;

/// Tasks by a filter. `types` is a type, or a pattern such as `remind.*`, which stands for the types
/// in the store's list that it matches now.
impl TaskSubmitService {
    /// How many tasks match. Reads all tasks of these types that are in the filter's state, in
    /// pages: beside tasks that come and go the number is not exact.
    ///
    /// ```
    /// # use delayq_plugin::{Result, TaskFilter, TaskSubmitService};
    /// # async fn count(tasks: &TaskSubmitService) -> Result<()> {
    /// let waiting = tasks.count("remind.*", &TaskFilter::new().group("tenant-7")).await?;
    /// # let _ = waiting; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` for a filter that cannot be meant, and as for every call.
    pub async fn count(&self, types: &str, filter: &TaskFilter) -> Result<u64> {
        filter.check()?;
        let store = &**self.store();
        let mut count = 0;
        for task_type in self.matching_types(types).await? {
            let stats = store.stats(&task_type).await?;
            let mut walk = Walk::new(store, &task_type, filter.only_state(), filter, &stats);
            while let Some(tasks) = walk.next().await? {
                count += tasks.len() as u64;
            }
        }
        Ok(count)
    }

    /// Up to `limit` (at most 128) tasks of one type that match, after `cursor`; pass the page's
    /// `next` for the next. A call reads up to 2,048 tasks: where few match a page has fewer than
    /// `limit`, perhaps none, although there is a `next`.
    ///
    /// # Errors
    /// `InvalidInput` for a filter that cannot be meant, and as for every call.
    pub async fn list_by(
        &self,
        task_type: &str,
        filter: &TaskFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        filter.check()?;
        let (task_type, limit) = (TaskType::new(task_type)?, limit.clamp(1, MAX_BATCH));
        let mut found = Page::default();
        found.next = cursor.cloned().or_else(|| first_cursor(filter));
        for _ in 0..MOST_PAGES {
            let (state, cursor) = (filter.only_state(), found.next.as_ref());
            let page = self.store().list(&task_type, state, cursor, MAX_BATCH);
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

    /// Cancels every task that matches. Running ones are asked to stop, and counted apart.
    ///
    /// ```
    /// # use delayq_plugin::{BulkError, TaskFilter, TaskSubmitService};
    /// # async fn leave(tasks: &TaskSubmitService) -> Result<(), BulkError> {
    /// let filter = TaskFilter::new().group("tenant-7");
    /// let expected = tasks.cancel_all("remind.*", &filter).dry_run().await?;
    /// let report = tasks.cancel_all("remind.*", &filter).await?;
    /// println!("{} cancelled, {} asked to stop", report.changed, report.running);
    /// # let _ = expected; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`BulkError`](crate::BulkError), which has what was done: `InvalidInput` for a filter
    /// without a condition, unless it is [`TaskFilter::all`], and for dead tasks; as for every
    /// call.
    pub fn cancel_all<'a>(&'a self, types: &'a str, filter: &'a TaskFilter) -> BulkChange<'a> {
        BulkChange::cancel(self, types, filter)
    }

    /// Moves every scheduled task that matches to one time: a delay counts from the beginning of
    /// the call (of each type, where a pattern names several), on the store's clock. Running tasks
    /// stay as they are.
    ///
    /// # Errors
    /// As for [`cancel_all`](Self::cancel_all), and `InvalidInput` for a delay over the limit.
    pub fn reschedule_all<'a>(
        &'a self,
        types: &'a str,
        filter: &'a TaskFilter,
        when: When,
    ) -> BulkChange<'a> {
        BulkChange::cancel(self, types, filter).reschedule(when)
    }

    /// Starts nothing of these types until `until`, or until [`resume`](Self::resume) when `None`.
    /// Returns which types that is. A type that appears later is not paused.
    ///
    /// # Errors
    /// As for every call. Types before the one that failed are paused; the call can be repeated.
    pub async fn pause(&self, types: &str, until: Option<Timestamp>) -> Result<Vec<TaskType>> {
        let types = self.matching_types(types).await?;
        for task_type in &types {
            self.store().pause(task_type, until).await?;
        }
        Ok(types)
    }

    /// Ends the pauses of these types. Returns which types that is.
    ///
    /// # Errors
    /// As for [`pause`](Self::pause).
    pub async fn resume(&self, types: &str) -> Result<Vec<TaskType>> {
        let types = self.matching_types(types).await?;
        for task_type in &types {
            self.store().resume(task_type).await?;
        }
        Ok(types)
    }

    /// The type that `types` names, listed or not; the listed types that it matches as a pattern.
    pub(super) async fn matching_types(&self, types: &str) -> Result<Vec<TaskType>> {
        let pattern = TypePattern::new(types)?;
        if let TypePattern::Exact(task_type) = pattern {
            return Ok(vec![task_type]);
        }
        let mut types = self.store().types().await?;
        types.retain(|task_type| pattern.matches(task_type));
        Ok(types)
    }

    pub(super) fn limits_now(&self) -> (delayq_core::Limits, Timestamp) {
        (self.limits, self.clock.now())
    }
}
