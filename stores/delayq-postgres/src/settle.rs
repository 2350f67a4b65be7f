//! Settle and extend: what the holder of a lock may do.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use delayq_core::Result;
use delayq_core::machine::{self, Settling};
use delayq_core::name::TaskType;
use delayq_core::state::TaskState;
use delayq_core::store::{
    AttemptEnd, ExtendOutcome, MAX_BATCH, SettleOutcome, Settlement, cut_error,
};
use delayq_core::task::Lock;
use delayq_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::claim::lock_ms;
use crate::connection::{Session, Values, session_work};
use crate::error::Outcome;
use crate::row::{ALONE, Status, TaskRow, signed};
use crate::store::PostgresStore;
use crate::type_tx::TypeTx;

const DONE: &str = "SELECT o_ids, o_is_freed FROM {s}.done_v1($1, $2, $3, $4)";
const EXTEND: &str = "SELECT o_id, o_fence, o_until, o_is_cancelled \
    FROM {s}.extend_v1($1, $2, $3, $4, $5, $6)";
const TASKS: &str = "SELECT * FROM {s}.tasks_v1($1, $2, true)";
const BUSY: &str = "SELECT {s}.busy_v1($1, $2)";
const FREE: &str = "UPDATE {s}.types SET is_held_back = false WHERE id = $1";
const NOTE: &str = "UPDATE {s}.tasks SET last_error = $4 WHERE type = $1 AND id = $2 \
    AND state = 3 AND settled = $3 AND last_error IS NULL RETURNING 1";

/// What a transaction of settlements has done.
struct Step {
    outcomes: Vec<SettleOutcome>,
    is_freed: bool,
    earliest: Option<Timestamp>,
}

/// What the statement for the usual end has done.
#[derive(Default)]
struct Done {
    ids: HashSet<String>,
    is_freed: bool,
}

pub(crate) async fn settle_all(
    store: &PostgresStore,
    task_type: &TaskType,
    settlements: Vec<Settlement>,
) -> Result<Vec<SettleOutcome>> {
    let mut outcomes = Vec::with_capacity(settlements.len());
    let mut rest = settlements.into_iter();
    loop {
        let step: Vec<_> = rest.by_ref().take(MAX_BATCH).collect();
        if step.is_empty() {
            return Ok(outcomes);
        }
        let step = settle_step(store, task_type, step).await;
        outcomes.extend(store.part(!outcomes.is_empty(), step)?);
    }
}

/// Tasks that are done take one statement, all others a transaction.
async fn settle_step(
    store: &PostgresStore,
    task_type: &TaskType,
    all: Vec<Settlement>,
) -> Result<Vec<SettleOutcome>> {
    let mut seen = HashSet::new();
    let is_usual = all
        .iter()
        .all(|one| one.end == AttemptEnd::Done && seen.insert(one.lock.id.clone()));
    let ended = all.len();
    if !is_usual {
        let outcomes = settle_slowly(store, task_type, all).await?;
        store.forget_beyond(task_type, ended).await;
        return Ok(outcomes);
    }
    let done = settle_done(store, task_type, &all).await?;
    let open: Vec<_> = all
        .iter()
        .filter(|one| !done.contains(one.lock.id.as_str()))
        .cloned()
        .collect();
    let mut rest = Vec::new();
    if !open.is_empty() {
        let step = settle_slowly(store, task_type, open).await;
        rest = store.part(!done.is_empty(), step)?;
    }
    store.forget_beyond(task_type, done.len()).await;
    let mut rest = rest.into_iter();
    let outcomes = all.iter().map(|one| {
        if done.contains(one.lock.id.as_str()) {
            return SettleOutcome::Settled;
        }
        rest.next().unwrap_or(SettleOutcome::LockLost)
    });
    Ok(outcomes.collect())
}

async fn settle_done(
    store: &PostgresStore,
    task_type: &TaskType,
    all: &[Settlement],
) -> Result<HashSet<String>> {
    let (sql, key) = (store.sql(DONE), store.key(task_type));
    let locks: (Vec<String>, Vec<i64>) = all
        .iter()
        .map(|one| (one.lock.id.to_string(), signed(one.lock.fence)))
        .unzip();
    let (wakes, of) = (store.wakes.clone(), task_type.clone());
    let work = session_work(move |session: &mut Session| {
        let (sql, key, locks) = (sql.clone(), key.clone(), locks.clone());
        Box::pin(async move {
            let values: Values<'_> = &[
                (&key.namespace, Type::TEXT),
                (&key.name, Type::TEXT),
                (&locks.0, Type::TEXT_ARRAY),
                (&locks.1, Type::INT8_ARRAY),
            ];
            let rows = match session.write(&sql, values).await {
                // Another transaction keeps one of them locked: all are told apart.
                Err(fault) if fault.is_lock_timeout() => return Ok(Done::default()),
                written => written?,
            };
            let ids: Option<Vec<String>> = rows.first().map(|row| row.try_get(0)).transpose()?;
            let is_freed: Option<bool> = rows.first().map(|row| row.try_get(1)).transpose()?;
            Ok(Done {
                ids: ids.unwrap_or_default().into_iter().collect(),
                is_freed: is_freed.unwrap_or(false),
            })
        })
    });
    let wake = move |done: &Done| {
        if done.is_freed {
            wakes.wake(&of);
        }
    };
    Ok(store.connections.call_then(work, wake).await?.ids)
}

async fn settle_slowly(
    store: &PostgresStore,
    task_type: &TaskType,
    all: Vec<Settlement>,
) -> Result<Vec<SettleOutcome>> {
    let (sql, key, retention) = (
        store.statements.clone(),
        store.key(task_type),
        store.retention,
    );
    let (wakes, of) = (store.wakes.clone(), task_type.clone());
    let work = session_work(move |session: &mut Session| {
        let (sql, key, all) = (sql.clone(), key.clone(), all.clone());
        Box::pin(async move {
            let mut tx = TypeTx::begin(session, &sql, &key, false).await?;
            if tx.row.is_limited {
                tx.lock_type().await?;
            }
            settle_in(tx, &all, retention).await
        })
    });
    let wake = move |step: &Step| {
        if step.is_freed {
            wakes.wake(&of);
        }
        if let Some(due_at) = step.earliest {
            wakes.scheduled(&of, due_at);
        }
    };
    Ok(store.connections.call_then(work, wake).await?.outcomes)
}

pub(crate) async fn extend_all(
    store: &PostgresStore,
    task_type: &TaskType,
    locks: Vec<Lock>,
    lock_for: Duration,
    is_alone: bool,
) -> Result<Vec<ExtendOutcome>> {
    let mut outcomes = Vec::with_capacity(locks.len());
    for step in locks.chunks(MAX_BATCH) {
        let extended = extend_step(store, task_type, step, lock_for, is_alone).await;
        outcomes.extend(store.part(!outcomes.is_empty(), extended)?);
    }
    Ok(outcomes)
}

async fn extend_step(
    store: &PostgresStore,
    task_type: &TaskType,
    locks: &[Lock],
    lock_for: Duration,
    is_alone: bool,
) -> Result<Vec<ExtendOutcome>> {
    let (sql, key, lock_ms) = (store.sql(EXTEND), store.key(task_type), lock_ms(lock_for));
    let alone = if is_alone { i32::from(ALONE) } else { 0 };
    let ids: Vec<String> = locks.iter().map(|lock| lock.id.to_string()).collect();
    let fences: Vec<i64> = locks.iter().map(|lock| signed(lock.fence)).collect();
    let call = store.connections.call(move |session: &mut Session| {
        let (sql, key) = (sql.clone(), key.clone());
        let (ids, fences) = (ids.clone(), fences.clone());
        Box::pin(async move {
            let values: Values<'_> = &[
                (&key.namespace, Type::TEXT),
                (&key.name, Type::TEXT),
                (&ids, Type::TEXT_ARRAY),
                (&fences, Type::INT8_ARRAY),
                (&lock_ms, Type::INT8),
                (&alone, Type::INT4),
            ];
            let rows = session.write(&sql, values).await?;
            let read = |row: &tokio_postgres::Row| -> Outcome<((String, i64), ExtendOutcome)> {
                let until = Timestamp::from_millis(row.try_get(2)?);
                let is_cancelled: bool = row.try_get(3)?;
                let outcome = if is_cancelled {
                    ExtendOutcome::CancelRequested(until)
                } else {
                    ExtendOutcome::Extended(until)
                };
                Ok(((row.try_get(0)?, row.try_get(1)?), outcome))
            };
            rows.iter().map(read).collect::<Outcome<BTreeMap<_, _>>>()
        })
    });
    let extended = call.await?;
    let outcomes: Vec<_> = locks
        .iter()
        .map(|lock| {
            let key = (lock.id.to_string(), signed(lock.fence));
            extended
                .get(&key)
                .copied()
                .unwrap_or(ExtendOutcome::LockLost)
        })
        .collect();
    for outcome in &outcomes {
        if let ExtendOutcome::Extended(until) | ExtendOutcome::CancelRequested(until) = outcome {
            store
                .locals
                .with_floors(task_type, |floors| floors.note_lock(*until));
        }
    }
    Ok(outcomes)
}

pub(crate) async fn note(
    store: &PostgresStore,
    task_type: &TaskType,
    lock: &Lock,
    error: &str,
) -> Result<bool> {
    let (sql, key) = (store.statements.clone(), store.key(task_type));
    let (id, fence) = (lock.id.to_string(), signed(lock.fence));
    let error = cut_error(error).as_bytes().to_vec();
    store
        .connections
        .call(move |session: &mut Session| {
            let (sql, key, id, error) = (sql.clone(), key.clone(), id.clone(), error.clone());
            Box::pin(async move {
                let mut tx = TypeTx::begin(session, &sql, &key, false).await?;
                let values: Values<'_> = &[
                    (&tx.row.id.clone(), Type::INT4),
                    (&id, Type::TEXT),
                    (&fence, Type::INT8),
                    (&error, Type::BYTEA),
                ];
                let noted = !tx.session.ask(&sql.sql(NOTE), values).await?.is_empty();
                tx.delta.totals.failed += u64::from(noted);
                tx.finish().await?;
                Ok(noted)
            })
        })
        .await
}

async fn settle_in(mut tx: TypeTx<'_>, all: &[Settlement], retention: Duration) -> Outcome<Step> {
    let ids: Vec<&str> = all.iter().map(|one| one.lock.id.as_str()).collect();
    let id = tx.row.id;
    let values: Values<'_> = &[(&id, Type::INT4), (&ids, Type::TEXT_ARRAY)];
    let busy = tx.session.ask(&tx.sql.sql(BUSY), values).await?;
    let busy = busy.iter().map(|row| row.try_get::<_, String>(0));
    let busy: HashSet<String> = busy.collect::<std::result::Result<_, _>>()?;
    let ids: Vec<&str> = ids.into_iter().filter(|id| !busy.contains(*id)).collect();
    let values: Values<'_> = &[(&id, Type::INT4), (&ids, Type::TEXT_ARRAY)];
    let rows = tx.rows(TASKS, values).await?;
    let mut rows: BTreeMap<String, TaskRow> =
        rows.into_iter().map(|row| (row.id.clone(), row)).collect();
    // The row locks may have taken time: waits count from the end of it.
    tx.read_clock().await?;
    let mut outcomes = Vec::with_capacity(all.len());
    for one in all {
        if busy.contains(one.lock.id.as_str()) {
            outcomes.push(SettleOutcome::Busy);
            continue;
        }
        let now = tx.now();
        let row = rows.get_mut(one.lock.id.as_str());
        outcomes.push(match row.filter(|row| !row.is_over(retention, now)) {
            Some(row) => settle(&mut tx, row, one),
            None => SettleOutcome::LockLost,
        });
    }
    let is_freed = tx.frees();
    if is_freed {
        let sql = tx.sql.sql(FREE);
        tx.session.ask(&sql, &[(&id, Type::INT4)]).await?;
    }
    let earliest = tx.finish().await?;
    Ok(Step {
        outcomes,
        is_freed,
        earliest,
    })
}

fn settle(tx: &mut TypeTx<'_>, row: &mut TaskRow, settlement: &Settlement) -> SettleOutcome {
    let fence = settlement.lock.fence;
    let task = match row.status {
        Status::Unknown => return SettleOutcome::LockLost,
        Status::Ended(ended) => {
            return machine::settle_ended(&ended, fence, settlement.end.kind());
        }
        Status::Live(task) => task,
    };
    let before = task;
    let now = tx.now();
    let settling = machine::settle(&task, fence, &settlement.end, tx.row.reading);
    if let Settling::NotHeld(outcome) = settling {
        return outcome;
    }
    tx.delta.totals.failed += u64::from(settlement.end.is_failure());
    match settling {
        Settling::NotHeld(outcome) => return outcome,
        Settling::Ended(ended) => tx.end(row, ended),
        Settling::Changed {
            task,
            error,
            succeeded,
        } => {
            row.succeeded = succeeded.to_vec();
            if let Some(note) = settlement.kept_note() {
                row.note = Some(note.to_owned());
            }
            if let Some(error) = error {
                row.end_attempt(task, now, error);
                row.last_error = Some(error.to_owned());
            } else {
                row.status = Status::Live(task);
            }
            if task.state == TaskState::Dead {
                tx.die(row, &before);
            } else {
                tx.change(row);
            }
        }
    }
    SettleOutcome::Settled
}
