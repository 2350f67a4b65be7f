//! I1: nothing of a type is handed out while the type is paused.

use super::view::TaskView;
use super::{Findings, Promise};
use crate::event::TypeChange;
use crate::history::{Step, TypeCall};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    let calls = view.run.history.type_calls.iter();
    let of_type = calls.filter(|call| call.task_type == view.task_type);
    for pause in of_type {
        let TypeChange::Pause { until } = pause.change else {
            continue;
        };
        if view.run.allowances.undone((pause.from, pause.to)).is_some() {
            continue;
        }
        let over = changed_at(view, pause);
        for lock in &view.locks {
            let is_within = lock.row.from > pause.to && lock.row.to < over;
            if is_within && until.is_none_or(|until| lock.call.store_now < until) {
                let detail = format!("fence {}", lock.fence);
                let rule = "handed out while its type was paused";
                findings.task(Promise::NeverEarly, rule, view, detail);
            }
        }
        for row in view.rows {
            let is_end = matches!(row.step, Step::EndedByClaim { .. });
            if is_end && until.is_none() && row.from > pause.to && row.to < over {
                let rule = "ended while its type was paused";
                findings.task(Promise::NeverEarly, rule, view, String::new());
            }
        }
    }
}

/// When somebody else may have changed or ended the pause.
fn changed_at(view: &TaskView<'_>, pause: &TypeCall) -> u64 {
    let calls = view.run.history.type_calls.iter();
    let others = calls.filter(|call| {
        let changes = matches!(call.change, TypeChange::Pause { .. } | TypeChange::Resume);
        let is_other = !std::ptr::eq(*call, pause);
        is_other && changes && call.task_type == pause.task_type && call.to >= pause.from
    });
    others.map(|call| call.from).min().unwrap_or(u64::MAX)
}
