//! The tabs of a type: its summary, and its tasks by state.

use delayq_plugin::TaskState;
use delayq_plugin::store::TypeStats;

use crate::fields::Link;
use crate::said::{capital, count};
use crate::visit::Visit;

/// The states, in the order of their tabs.
pub(crate) const STATES: [TaskState; 6] = [
    TaskState::Scheduled,
    TaskState::Running,
    TaskState::Dead,
    TaskState::Done,
    TaskState::Cancelled,
    TaskState::Expired,
];

/// A tab.
pub(super) struct Tab {
    pub(super) name: String,
    /// The number of its tasks; empty for the summary.
    pub(super) count: String,
    pub(super) class: &'static str,
    pub(super) href: String,
    pub(super) is_here: bool,
}

/// The tabs of a type; `here` is the state whose tasks are shown, or `None` for the summary.
pub(super) fn tabs(
    visit: &Visit,
    task_type: &str,
    stats: &TypeStats,
    here: Option<TaskState>,
) -> Vec<Tab> {
    let totals = stats.totals;
    let of_state = |state: TaskState| {
        let number = match state {
            TaskState::Scheduled => stats.scheduled,
            TaskState::Running => stats.running,
            TaskState::Dead => stats.dead,
            TaskState::Done => totals.done,
            TaskState::Cancelled => totals.cancelled,
            _ => totals.expired,
        };
        let link = Link::to("/tasks").with("type", task_type);
        Tab {
            name: capital(state.as_str()),
            count: count(number),
            class: match (state, number) {
                (_, 0) => "zero",
                (TaskState::Dead, _) => "bad",
                _ => "",
            },
            href: visit.href(&link.with("state", state.as_str())),
            is_here: here == Some(state),
        }
    };
    let summary = Tab {
        name: "Summary".to_owned(),
        count: String::new(),
        class: "",
        href: visit.href(&Link::to("/type").with("name", task_type)),
        is_here: here.is_none(),
    };
    let lists = STATES.into_iter().map(of_state);
    std::iter::once(summary).chain(lists).collect()
}
