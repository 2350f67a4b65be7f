//! Dead tasks: selected ones are scheduled again, or removed.

use std::time::Duration;

use delayq_core::Result;
use delayq_core::TaskState;
use delayq_core::machine::Bookkeeping;
use delayq_core::name::{TaskId, TaskType};
use delayq_core::operate::DeadFilter;
use delayq_core::store::MAX_BATCH;
use delayq_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::connection::Values;
use crate::error::Outcome;
use crate::recorded::RecordedEnd;
use crate::row::{Status, TaskRow};
use crate::store::PostgresStore;
use crate::type_tx::{Opening, TypeTx, on_type_then, tx_work};
use crate::wakes::Wakes;

const LIST: &str = "SELECT * FROM {s}.list_v1($1, $2, $3, $4, $5, $6)";
const TASKS: &str = "SELECT * FROM {s}.tasks_v1($1, $2, true)";
const DISCARD: &str = "DELETE FROM {s}.tasks WHERE type = $1 AND id = ANY ($2) AND state = 2";

/// What becomes of selected dead tasks.
#[derive(Clone, Copy)]
pub(crate) enum DeadOperation {
    /// Scheduled again, each so long after the one before.
    Requeue(Duration),
    Discard,
}

/// Progress through dead tasks.
#[derive(Clone, Default)]
struct Scan {
    changed: Vec<TaskId>,
    after: Option<(i64, String)>,
    next_due: Option<Timestamp>,
    is_over: bool,
}

/// The progress after a step, and the first due time that it made.
struct Step {
    scan: Scan,
    earliest: Option<Timestamp>,
}

/// Changes the selected dead tasks, one page after the other.
pub(crate) async fn change_dead(
    store: &PostgresStore,
    task_type: &TaskType,
    filter: &DeadFilter,
    operation: DeadOperation,
) -> Result<Vec<TaskId>> {
    filter.check()?;
    let mut scan = Scan::default();
    let mut ids: Vec<TaskId> = Vec::new();
    if let DeadFilter::Ids(wanted) = filter {
        let mut seen = std::collections::HashSet::new();
        ids = wanted
            .iter()
            .filter(|id| seen.insert(*id))
            .cloned()
            .collect();
    }
    let mut rest = ids.into_iter();
    while !scan.is_over {
        let step: Vec<String> = rest
            .by_ref()
            .take(MAX_BATCH)
            .map(|id| id.to_string())
            .collect();
        let (filter, before) = (filter.clone(), scan.clone());
        let is_last = step.is_empty();
        if is_last && matches!(filter, DeadFilter::Ids(_)) {
            break;
        }
        let work = tx_work(move |tx| {
            let (filter, before, step) = (filter.clone(), before.clone(), step.clone());
            Box::pin(async move { dead_step(tx, &filter, operation, before, step).await })
        });
        let of = task_type.clone();
        let wake = move |wakes: &Wakes, step: &Step| {
            if let Some(due_at) = step.earliest {
                wakes.scheduled(&of, due_at);
            }
        };
        let step = on_type_then(store, task_type, Opening::Locked, work, wake).await;
        scan = store.part(!scan.changed.is_empty(), step)?.scan;
    }
    Ok(scan.changed)
}

/// Changes one page of the selected dead tasks.
async fn dead_step(
    mut tx: TypeTx<'_>,
    filter: &DeadFilter,
    operation: DeadOperation,
    mut scan: Scan,
    ids: Vec<String>,
) -> Outcome<Step> {
    let id = tx.row.id;
    let mut rows = if let DeadFilter::Ids(_) = filter {
        let values: Values<'_> = &[(&id, Type::INT4), (&ids, Type::TEXT_ARRAY)];
        let mut rows = tx.rows(TASKS, values).await?;
        let place = |row: &TaskRow| ids.iter().position(|id| *id == row.id);
        rows.sort_by_key(place);
        rows
    } else {
        let (at, after) = scan.after.clone().unwrap_or((-1, String::new()));
        let limit = i32::try_from(MAX_BATCH).unwrap_or(128);
        let values: Values<'_> = &[
            (&id, Type::INT4),
            (&2_i32, Type::INT4),
            (&at, Type::INT8),
            (&after, Type::TEXT),
            (&limit, Type::INT4),
            (&true, Type::BOOL),
        ];
        let rows = tx.rows(LIST, values).await?;
        scan.is_over = rows.len() < MAX_BATCH;
        scan.after = rows
            .last()
            .map(|row| (row.at().as_millis(), row.id.clone()));
        rows
    };
    let mut discarded = Vec::new();
    for row in &mut rows {
        let Some(task) = row
            .live()
            .copied()
            .filter(|task| task.state == TaskState::Dead)
        else {
            continue;
        };
        let Ok(task_id) = TaskId::new(&row.id) else {
            continue;
        };
        match selects(filter, row, &task, scan.changed.len()) {
            Selected::No => continue,
            Selected::NoMore => {
                scan.is_over = true;
                break;
            }
            Selected::Yes => {}
        }
        match operation {
            DeadOperation::Requeue(interval) => {
                let due_at = scan.next_due.unwrap_or(tx.now());
                scan.next_due = Some(due_at.plus(interval));
                row.status = Status::Live(task.requeued(due_at));
                tx.change(row);
            }
            DeadOperation::Discard => {
                tx.record(row, RecordedEnd::removal(&task, tx.now()));
                tx.delta.moves(2, None);
                discarded.push(row.id.clone());
            }
        }
        scan.changed.push(task_id);
    }
    if !discarded.is_empty() {
        let sql = tx.sql.sql(DISCARD);
        let values: Values<'_> = &[(&id, Type::INT4), (&discarded, Type::TEXT_ARRAY)];
        tx.session.ask(&sql, values).await?;
    }
    let earliest = tx.finish().await?;
    Ok(Step { scan, earliest })
}

enum Selected {
    Yes,
    No,
    NoMore,
}

fn selects(filter: &DeadFilter, row: &TaskRow, task: &Bookkeeping, so_far: usize) -> Selected {
    let DeadFilter::Matching {
        died_before,
        error_contains,
        limit,
    } = filter
    else {
        return Selected::Yes;
    };
    if so_far >= *limit || died_before.is_some_and(|before| task.at >= before) {
        return Selected::NoMore;
    }
    let error = row.last_error.as_deref();
    let has_error = error_contains
        .as_deref()
        .is_none_or(|text| error.is_some_and(|error| error.contains(text)));
    if has_error {
        Selected::Yes
    } else {
        Selected::No
    }
}
