//! Audit: checks that the orders and the entries of a type agree.

use std::collections::BTreeMap;

use super::type_tasks::{Order, TypeTasks};
use crate::operate::{AuditReport, Problem};
use crate::state::TaskState;

/// Treats the entries as correct; with `repair` the orders are rebuilt from them.
pub(super) fn audit(tasks: &mut TypeTasks, repair: bool) -> AuditReport {
    let expected = expected_orders(tasks);
    let missing = differences(&expected, &tasks.orders, "is in no order");
    let extra = differences(&tasks.orders, &expected, "is in an order without a task");
    let problem = |(id, what)| Problem {
        id,
        what,
        repaired: repair,
    };
    let problems: Vec<Problem> = missing.chain(extra).map(problem).collect();
    if repair && !problems.is_empty() {
        tasks.orders = expected;
    }
    AuditReport {
        checked: tasks.entries.len() as u64,
        problems,
    }
}

fn expected_orders(tasks: &TypeTasks) -> BTreeMap<TaskState, Order> {
    let mut orders: BTreeMap<TaskState, Order> = BTreeMap::new();
    for (id, entry) in &tasks.entries {
        let order = orders.entry(entry.state()).or_default();
        order.insert((entry.at(), id.clone()));
    }
    orders
}

/// The items of `left` that are missing in `right`: the id and the problem.
fn differences<'a>(
    left: &'a BTreeMap<TaskState, Order>,
    right: &'a BTreeMap<TaskState, Order>,
    what: &'static str,
) -> impl Iterator<Item = (String, String)> + 'a {
    left.iter().flat_map(move |(state, order)| {
        let other = right.get(state);
        let only_left = move |key: &&_| other.is_none_or(|other| !other.contains(*key));
        let text = move |at| format!("{state} at {at}: {what}");
        order
            .iter()
            .filter(only_left)
            .map(move |(at, id)| (id.to_string(), text(at)))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::operations::submit;
    use super::super::type_tasks::Retention;
    use super::*;
    use crate::job::DelayQueueJob;
    use crate::job::Limits;
    use crate::time::Timestamp;

    fn bucket_with_a_task() -> TypeTasks {
        let mut bucket = TypeTasks::new(Retention {
            span: Duration::ZERO,
            most: 1,
        });
        let job = DelayQueueJob::raw("a", "x").id("1");
        let task = job.into_task(&Limits::default(), Timestamp::ZERO).unwrap();
        submit(&mut bucket, task).unwrap();
        bucket
    }

    #[test]
    fn a_task_that_has_lost_its_place_is_found_and_put_back() {
        let mut bucket = bucket_with_a_task();
        assert!(audit(&mut bucket, false).problems.is_empty());
        bucket.orders.clear();
        let report = audit(&mut bucket, false);
        assert_eq!(
            report.problems,
            [Problem {
                id: "1".to_owned(),
                what: "scheduled at 1970-01-01T00:00:00.000Z: is in no order".to_owned(),
                repaired: false,
            }]
        );
        assert!(audit(&mut bucket, true).problems.iter().all(|p| p.repaired));
        assert!(audit(&mut bucket, false).problems.is_empty());
        assert_eq!(bucket.first(TaskState::Scheduled), Some(Timestamp::ZERO));
    }

    #[test]
    fn a_place_without_a_task_is_found_and_removed() {
        let mut bucket = bucket_with_a_task();
        bucket.entries.clear();
        assert_eq!(audit(&mut bucket, true).problems.len(), 1);
        assert!(audit(&mut bucket, false).problems.is_empty());
        assert_eq!(bucket.first(TaskState::Scheduled), None);
    }
}
