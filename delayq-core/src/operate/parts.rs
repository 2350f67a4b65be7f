//! Combines answers from several parts of a type: shards, or stores.

use super::{Cursor, Page, TypeStats};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::task::TaskInfo;
use crate::time::Timestamp;

/// The sum of the counts of two parts.
#[must_use]
pub fn sum_stats(mut sum: TypeStats, other: &TypeStats) -> TypeStats {
    sum.now = sum.now.max(other.now);
    sum.scheduled += other.scheduled;
    sum.due += other.due;
    sum.running += other.running;
    sum.dead += other.dead;
    sum.next_due = sum.next_due.into_iter().chain(other.next_due).min();
    sum.paused_until = sum.paused_until.max(other.paused_until);
    sum.max_pending = match (sum.max_pending, other.max_pending) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    };
    sum.refused += other.refused;
    sum.totals = sum.totals + other.totals;
    sum.remembered += other.remembered;
    sum.remembered_since = sum.remembered_since.max(other.remembered_since);
    sum.fleet_concurrency = sum.fleet_concurrency.or(other.fleet_concurrency);
    sum.fleet_rate = sum.fleet_rate.or(other.fleet_rate);
    sum.history = sum.history.or(other.history);
    sum
}

/// Merges the pages of all parts into one page, up to the point to which every part has been read.
/// Ended tasks are listed latest first.
#[must_use]
pub fn merge_pages(pages: Vec<Page>, state: TaskState, limit: usize) -> Page {
    let order = |a: (Timestamp, &TaskId), b: (Timestamp, &TaskId)| {
        let order = a.cmp(&b);
        if state.is_ended() {
            order.reverse()
        } else {
            order
        }
    };
    let ends = pages.iter().filter_map(|page| page.next.as_ref());
    let read_to = ends.min_by(|a, b| order(position(a), position(b))).cloned();
    let mut tasks: Vec<TaskInfo> = pages.into_iter().flat_map(|page| page.tasks).collect();
    tasks.sort_by(|a, b| order((a.at, &a.id), (b.at, &b.id)));
    if let Some(end) = &read_to {
        tasks.retain(|task| order((task.at, &task.id), position(end)).is_le());
    }
    let has_more = read_to.is_some() || tasks.len() > limit;
    tasks.truncate(limit);
    let last = tasks.last().filter(|_| has_more);
    let next = last.map(|task| Cursor::new(task.at, task.id.clone()));
    Page { tasks, next }
}

fn position(cursor: &Cursor) -> (Timestamp, &TaskId) {
    (cursor.at, &cursor.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(at: &[i64], has_more: bool) -> Page {
        let tasks = at.iter().map(|at| {
            let id = TaskId::new(format!("t{at}")).unwrap();
            TaskInfo::new(id, TaskState::Scheduled, Timestamp::from_millis(*at))
        });
        let mut page = Page {
            tasks: tasks.collect(),
            next: None,
        };
        let last = page.tasks.last().filter(|_| has_more);
        page.next = last.map(|task| Cursor::new(task.at, task.id.clone()));
        page
    }

    fn merged(pages: Vec<Page>, limit: usize) -> (Vec<i64>, Option<i64>) {
        let page = merge_pages(pages, TaskState::Scheduled, limit);
        let at = page.tasks.iter().map(|task| task.at.as_millis());
        (at.collect(), page.next.map(|next| next.at.as_millis()))
    }

    #[test]
    fn a_page_ends_where_a_part_has_more_that_was_not_read() {
        let pages = vec![
            page(&[1, 5, 9], true),
            page(&[2, 3], true),
            page(&[4], false),
        ];
        assert_eq!(merged(pages, 9), (vec![1, 2, 3], Some(3)));
    }

    #[test]
    fn ended_tasks_are_merged_the_latest_first() {
        let pages = vec![page(&[9, 7, 5], true), page(&[8, 6], true)];
        let page = merge_pages(pages, TaskState::Done, 9);
        let at: Vec<i64> = page.tasks.iter().map(|task| task.at.as_millis()).collect();
        assert_eq!(
            (at, page.next.map(|next| next.at.as_millis())),
            (vec![9, 8, 7, 6], Some(6))
        );
    }

    #[test]
    fn a_page_is_cut_at_its_limit_and_the_last_one_has_no_next() {
        let pages = vec![page(&[1, 3], false), page(&[2], false)];
        assert_eq!(merged(pages.clone(), 2), (vec![1, 2], Some(2)));
        assert_eq!(merged(pages, 3), (vec![1, 2, 3], None));
    }

    #[test]
    fn the_counts_of_parts_add_up_and_the_earliest_task_comes_first() {
        let at = Timestamp::from_millis;
        let mut one = TypeStats::default();
        (one.now, one.next_due, one.max_pending) = (at(7), Some(at(20)), Some(3));
        (one.scheduled, one.due, one.running) = (1, 2, 3);
        let mut other = TypeStats::default();
        (other.now, other.next_due, other.max_pending) = (at(9), Some(at(10)), Some(4));
        (other.scheduled, other.due, other.running) = (10, 20, 30);
        (other.dead, other.refused, other.paused_until) = (4, 5, Some(at(99)));
        let all = [one, other, TypeStats::default()];
        let sum = all.iter().fold(TypeStats::default(), sum_stats);
        assert_eq!((sum.now, sum.next_due), (at(9), Some(at(10))));
        assert_eq!((sum.scheduled, sum.due, sum.running), (11, 22, 33));
        assert_eq!((sum.dead, sum.refused), (4, 5));
        assert_eq!((sum.paused_until, sum.max_pending), (Some(at(99)), Some(7)));
    }
}
