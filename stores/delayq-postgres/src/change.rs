//! Operations on one task by its id: cancel, reschedule, update, find.

use delayq_core::job::When;
use delayq_core::machine;
use delayq_core::name::{TaskId, TaskType};
use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_core::task::{Headers, TaskInfo, replace_headers};
use delayq_core::time::Timestamp;
use delayq_core::{Error, Result, TaskState};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Session, Values, session_work};
use crate::error::Outcome;
use crate::row::{HAS_FOLLOW_UP, TaskRow, checksum, headers_text, read_headers, state_of};
use crate::store::PostgresStore;
use crate::submit::asked;
use crate::type_row::TypeRow;
use crate::type_tx::TypeTx;

const CANCEL: &str = "SELECT o_outcome, o_state FROM {s}.cancel_v1($1, $2, $3, $4)";
const RESCHEDULE: &str = "SELECT o_outcome, o_state, o_due \
    FROM {s}.reschedule_v1($1, $2, $3, $4, $5, $6)";
const UPDATE: &str = "SELECT o_outcome, o_state, o_due FROM {s}.update_v1($1, $2, $3, $4, $5)";
const TASKS: &str = "SELECT * FROM {s}.tasks_v1($1, $2, $3)";
const FOLLOW_UP: &str = "SELECT at FROM {s}.follow_ups WHERE type = $1 AND id = $2";
const REPLACE: &str = "UPDATE {s}.tasks SET message = $3, headers = $4, checksum = $5 \
    WHERE type = $1 AND id = $2";

fn state(row: &Row) -> Outcome<TaskState> {
    let code: Option<i16> = row.try_get(1)?;
    let state = code.and_then(state_of);
    Ok(state.ok_or_else(|| Error::corrupt("tasks", "a task has no state that was ever stored"))?)
}

fn changed(rows: &[Row]) -> Outcome<ChangeOutcome> {
    let Some(row) = rows.first() else {
        return Ok(ChangeOutcome::NotFound);
    };
    let outcome: i16 = row.try_get(0)?;
    Ok(match outcome {
        0 => {
            let due: Option<i64> = row.try_get(2)?;
            let due_at = Timestamp::from_millis(due.unwrap_or(0));
            ChangeOutcome::Changed { due_at }
        }
        1 => ChangeOutcome::Running,
        2 => ChangeOutcome::Finished(state(row)?),
        _ => ChangeOutcome::NotFound,
    })
}

pub(crate) async fn cancel_one(
    store: &PostgresStore,
    task_type: &TaskType,
    id: &TaskId,
) -> Result<CancelOutcome> {
    let (sql, key, ids) = (
        store.sql(CANCEL),
        store.key(task_type),
        vec![id.to_string()],
    );
    let retention = store.retention_ms;
    let call = store.connections.call(move |session: &mut Session| {
        let (sql, key, ids) = (sql.clone(), key.clone(), ids.clone());
        Box::pin(async move {
            let values: Values<'_> = &[
                (&key.namespace, Type::TEXT),
                (&key.name, Type::TEXT),
                (&retention, Type::INT8),
                (&ids, Type::TEXT_ARRAY),
            ];
            let rows = session.write(&sql, values).await?;
            let Some(row) = rows.first() else {
                return Ok(CancelOutcome::NotFound);
            };
            let outcome: i16 = row.try_get(0)?;
            Ok(match outcome {
                0 => CancelOutcome::Cancelled,
                1 => CancelOutcome::Running,
                2 => CancelOutcome::Finished(state(row)?),
                _ => CancelOutcome::NotFound,
            })
        })
    });
    let outcome = call.await?;
    if outcome == CancelOutcome::Cancelled {
        store.forget_beyond(task_type, 1).await;
    }
    Ok(outcome)
}

pub(crate) async fn move_one(
    store: &PostgresStore,
    task_type: &TaskType,
    id: &TaskId,
    when: When,
) -> Result<ChangeOutcome> {
    let (sql, key, ids) = (
        store.sql(RESCHEDULE),
        store.key(task_type),
        vec![id.to_string()],
    );
    let (retention, (after, due)) = (store.retention_ms, asked(when));
    let (after, due) = (vec![after], vec![due]);
    let work = session_work(move |session: &mut Session| {
        let (sql, key, ids) = (sql.clone(), key.clone(), ids.clone());
        let (after, due) = (after.clone(), due.clone());
        Box::pin(async move {
            let values: Values<'_> = &[
                (&key.namespace, Type::TEXT),
                (&key.name, Type::TEXT),
                (&retention, Type::INT8),
                (&ids, Type::TEXT_ARRAY),
                (&after, Type::INT8_ARRAY),
                (&due, Type::INT8_ARRAY),
            ];
            changed(&session.write(&sql, values).await?)
        })
    });
    let (wakes, of) = (store.wakes.clone(), task_type.clone());
    let wake = move |outcome: &ChangeOutcome| {
        if let ChangeOutcome::Changed { due_at } = outcome {
            wakes.scheduled(&of, *due_at);
        }
    };
    store.connections.call_then(work, wake).await
}

pub(crate) async fn update_one(
    store: &PostgresStore,
    task_type: &TaskType,
    id: &TaskId,
    message: Vec<u8>,
    headers: &Headers,
) -> Result<ChangeOutcome> {
    if !headers.is_empty() {
        return update_headers(store, task_type, id, message, headers).await;
    }
    let (sql, key, ids) = (
        store.sql(UPDATE),
        store.key(task_type),
        vec![id.to_string()],
    );
    let (retention, messages) = (store.retention_ms, vec![message]);
    store
        .connections
        .call(move |session: &mut Session| {
            let (sql, key, ids) = (sql.clone(), key.clone(), ids.clone());
            let messages = messages.clone();
            Box::pin(async move {
                let values: Values<'_> = &[
                    (&key.namespace, Type::TEXT),
                    (&key.name, Type::TEXT),
                    (&retention, Type::INT8),
                    (&ids, Type::TEXT_ARRAY),
                    (&messages, Type::BYTEA_ARRAY),
                ];
                changed(&session.write(&sql, values).await?)
            })
        })
        .await
}

/// Headers are read, changed and written back in a transaction.
async fn update_headers(
    store: &PostgresStore,
    task_type: &TaskType,
    id: &TaskId,
    message: Vec<u8>,
    headers: &Headers,
) -> Result<ChangeOutcome> {
    let (sql, key, id) = (
        store.statements.clone(),
        store.key(task_type),
        id.to_string(),
    );
    let (headers, retention) = (headers.clone(), store.retention);
    store
        .connections
        .call(move |session: &mut Session| {
            let (sql, key, id) = (sql.clone(), key.clone(), id.clone());
            let (headers, message) = (headers.clone(), message.clone());
            Box::pin(async move {
                let mut tx = TypeTx::begin(session, &sql, &key, false).await?;
                let (number, ids) = (tx.row.id, vec![id.as_str()]);
                let values: Values<'_> = &[
                    (&number, Type::INT4),
                    (&ids, Type::TEXT_ARRAY),
                    (&true, Type::BOOL),
                ];
                let rows = tx.rows(TASKS, values).await?;
                let now = tx.now();
                let row = rows.into_iter().find(|row| !row.is_over(retention, now));
                let due_at = row.as_ref().and_then(TaskRow::live);
                let due_at = due_at.map_or(Timestamp::ZERO, |task| task.at);
                let outcome = machine::change(row.as_ref().and_then(TaskRow::state), due_at);
                if let (ChangeOutcome::Changed { .. }, Some(row)) = (outcome, row) {
                    let mut present = read_headers(row.headers.as_deref()).unwrap_or_default();
                    replace_headers(&mut present, &headers);
                    let text = headers_text(&present);
                    let sum = checksum(&message, text.as_deref(), row.expiry);
                    let values: Values<'_> = &[
                        (&number, Type::INT4),
                        (&id, Type::TEXT),
                        (&message, Type::BYTEA),
                        (&text, Type::TEXT),
                        (&sum, Type::INT8),
                    ];
                    tx.session.ask(&sql.sql(REPLACE), values).await?;
                }
                tx.finish().await?;
                Ok(outcome)
            })
        })
        .await
}

pub(crate) async fn find_one(
    store: &PostgresStore,
    task_type: &TaskType,
    id: &TaskId,
) -> Result<Option<TaskInfo>> {
    let (sql, key, id) = (
        store.statements.clone(),
        store.key(task_type),
        id.to_string(),
    );
    let retention = store.retention;
    store
        .connections
        .call(move |session: &mut Session| {
            let (sql, key, id) = (sql.clone(), key.clone(), id.clone());
            Box::pin(async move {
                let of = TypeRow::read(session, &sql, &key, false).await?;
                let ids = vec![id.as_str()];
                let values: Values<'_> = &[
                    (&of.id, Type::INT4),
                    (&ids, Type::TEXT_ARRAY),
                    (&false, Type::BOOL),
                ];
                let rows = session.ask(&sql.sql(TASKS), values).await?;
                let Some(row) = rows.first().map(TaskRow::read).transpose()? else {
                    return Ok(None);
                };
                let mut again_at = None;
                if row.flags & HAS_FOLLOW_UP != 0 {
                    let values: Values<'_> = &[(&of.id, Type::INT4), (&id, Type::TEXT)];
                    let rows = session.ask(&sql.sql(FOLLOW_UP), values).await?;
                    let at = rows.first().map(|row| row.try_get(0)).transpose()?;
                    again_at = at.map(Timestamp::from_millis);
                }
                Ok(of.info(&row, retention, again_at))
            })
        })
        .await
}
