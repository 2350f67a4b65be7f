//! The tasks of a store, page by page.

use std::collections::VecDeque;

use delayq_plugin::{Cursor, TaskState, TaskSubmitService, TaskType};

use super::line::Line;
use super::{DeadTasks, TransferFault};
use crate::selection::selected;

/// Number of tasks in one page. With the largest messages it holds 64 MiB.
const PAGE: usize = 64;

/// One pass through the tasks of some types. It only goes forward. For each type it reads at most
/// twice the number of tasks present at the start plus a thousand, so that it ends even while tasks
/// are being sent.
pub(super) struct Source<'a> {
    tasks: &'a TaskSubmitService,
    left: VecDeque<SourceListing>,
    pub(super) running: u64,
    pub(super) dead_left_out: u64,
}

/// The tasks of a type in a state.
struct SourceListing {
    task_type: TaskType,
    state: TaskState,
    cursor: Option<Cursor>,
    budget: u64,
}

impl<'a> Source<'a> {
    pub(super) async fn of(
        tasks: &'a TaskSubmitService,
        types: &str,
        dead: DeadTasks,
    ) -> Result<Self, TransferFault> {
        let mut source = Self {
            tasks,
            left: VecDeque::new(),
            running: 0,
            dead_left_out: 0,
        };
        for task_type in selected(tasks, types).await? {
            let stats = tasks.stats(task_type.as_str()).await?;
            source.running += stats.running;
            let mut listed = vec![(TaskState::Scheduled, stats.scheduled)];
            match dead {
                DeadTasks::Include => listed.push((TaskState::Dead, stats.dead)),
                DeadTasks::LeaveOut => source.dead_left_out += stats.dead,
            }
            source
                .left
                .extend(listed.into_iter().map(|(state, count)| SourceListing {
                    task_type: task_type.clone(),
                    state,
                    cursor: None,
                    budget: count.saturating_mul(2).saturating_add(1_000),
                }));
        }
        Ok(source)
    }

    /// The next tasks, possibly none; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Line>>, TransferFault> {
        let Some(listing) = self.left.front_mut() else {
            return Ok(None);
        };
        let name = listing.task_type.as_str();
        let page = self
            .tasks
            .list(name, listing.state, listing.cursor.as_ref(), PAGE);
        let page = page.await?;
        listing.budget = listing.budget.saturating_sub(page.tasks.len() as u64);
        let task_type = listing.task_type.clone();
        listing.cursor = page.next;
        if listing.cursor.is_none() || listing.budget == 0 {
            self.left.pop_front();
        }
        let lines = page.tasks.into_iter();
        Ok(Some(lines.map(|task| Line::of(&task_type, task)).collect()))
    }
}
