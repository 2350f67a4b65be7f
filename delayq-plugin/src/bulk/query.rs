//! Questions about the tasks that a filter matches, and about the types that a pattern does.

use delayq_core::operate::{Cursor, Page};
use delayq_core::store::MAX_BATCH;
use delayq_core::{Result, Store, TaskType, TypePattern};

use super::TaskFilter;
use super::walk::{Walk, first_cursor};

/// Pages of the store that one page of `list_by` may take.
const MOST_PAGES: usize = 16;

/// How many tasks match.
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

/// The type that `types` names, listed or not; the listed types that it matches as a pattern.
pub(crate) async fn matching_types(store: &dyn Store, types: &str) -> Result<Vec<TaskType>> {
    let pattern = TypePattern::new(types)?;
    if let TypePattern::Exact(task_type) = pattern {
        return Ok(vec![task_type]);
    }
    let mut types = store.types().await?;
    types.retain(|task_type| pattern.matches(task_type));
    Ok(types)
}
