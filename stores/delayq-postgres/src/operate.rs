//! Operators' methods.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::history::KeptMessage;
use delayq_core::name::{TaskId, TaskType};
use delayq_core::operate::{
    AuditReport, Cursor, DeadFilter, Operate, Page, TypeSettings, TypeStats, check_histogram,
};
use delayq_core::store::MAX_BATCH;
use delayq_core::time::Timestamp;
use delayq_core::{Error, Result, TaskState};
use tokio_postgres::types::Type;

use crate::audit::audit_type;
use crate::connection::{Session, Values};
use crate::dead::{DeadOperation, change_dead};
use crate::error::Outcome;
use crate::row::{HAS_FOLLOW_UP, TaskRow, code, signed};
use crate::store::PostgresStore;
use crate::type_row::{TypeKey, TypeRow};
use crate::type_tx::{Opening, on_type, on_type_then, tx_work};
use crate::wakes::Wakes;

/// Tasks in one step of a purge.
const PURGE_STEP: i32 = 1_000;

const TYPES: &str = "SELECT name FROM {s}.types WHERE namespace = $1 AND is_listed ORDER BY name";
const LIST_TYPE: &str = "WITH made AS (SELECT {s}.type_v1($1, $2) AS id) \
    UPDATE {s}.types t SET is_listed = true FROM made WHERE t.id = made.id";
const CONFIGURE: &str = "UPDATE {s}.types SET max_pending = $2, fleet_concurrency = $3, \
    rate_starts = $4, rate_per_us = $5, rate_burst = $6, is_limited = is_limited OR $7, \
    history = $8 WHERE id = $1";
const PAUSE: &str = "UPDATE {s}.types SET paused_until = $2 WHERE id = $1";
const DUE_COUNT: &str = "SELECT {s}.due_count_v1($1, $2)";
const NEXT: &str = "SELECT o_due FROM {s}.next_v1($1, 0, 0)";
const LIST: &str = "SELECT * FROM {s}.list_v1($1, $2, $3, $4, $5, $6)";
const PARTS: &str = "SELECT o_part, o_tasks FROM {s}.due_parts_v1($1, $2, $3, $4)";
const PURGE: &str = "SELECT o_purged, o_known FROM {s}.purge_v1($1, $2, $3, $4)";
const FOLLOW_UPS: &str = "SELECT id, at FROM {s}.follow_ups WHERE type = $1 AND id = ANY ($2)";
/// Waits for submits to the type, and they for this transaction.
const DROP_LOCK: &str = "SELECT pg_advisory_xact_lock('{s}.types'::regclass::oid::int, $1)";
const DROP: &str = "WITH gone AS (DELETE FROM {s}.figures WHERE type = $1) \
    UPDATE {s}.types SET is_listed = false, paused_until = 0, max_pending = NULL, \
    fleet_concurrency = NULL, rate_starts = NULL, rate_per_us = NULL, rate_burst = NULL, tat = 0, \
    is_limited = false, is_held_back = false WHERE id = $1";
const DROP_COUNTS: &str = "INSERT INTO {s}.ledger (type, done, died, cancelled, expired, failed, \
    refused) SELECT $1, -c.done, -c.died, -c.cancelled, -c.expired, -c.failed, -c.refused \
    FROM {s}.counts_v1($1) c";
const DROP_FORGOTTEN: &str = "UPDATE {s}.counts SET forgotten = 0 WHERE type = $1";

fn listed(cursor: Option<&Cursor>, state: TaskState) -> (i64, String) {
    match cursor {
        Some(cursor) => (cursor.at.as_millis(), cursor.id.to_string()),
        None if state.is_ended() => (i64::MAX, String::new()),
        None => (-1, String::new()),
    }
}

async fn set_pause(
    store: &PostgresStore,
    task_type: &TaskType,
    until: Timestamp,
    opening: Opening,
) -> Result<()> {
    let work = tx_work(move |tx| {
        Box::pin(async move {
            let is_shorter = until < tx.row.pause().unwrap_or(Timestamp::ZERO);
            let sql = tx.sql.sql(PAUSE);
            let id = tx.row.id;
            let values: Values<'_> = &[(&id, Type::INT4), (&until.as_millis(), Type::INT8)];
            tx.session.ask(&sql, values).await?;
            tx.finish().await?;
            Ok(is_shorter)
        })
    });
    let of = task_type.clone();
    let wake = move |wakes: &Wakes, is_shorter: &bool| {
        if *is_shorter {
            wakes.wake(&of);
        }
    };
    on_type_then(store, task_type, opening, work, wake)
        .await
        .map(drop)
}

async fn purge_all(store: &PostgresStore, task_type: &TaskType, state: TaskState) -> Result<u64> {
    let (sql, key) = (store.statements.clone(), store.key(task_type));
    let (retention, mut purged) = (store.retention_ms, 0);
    let mut is_begun = false;
    loop {
        let (sql, key) = (sql.clone(), key.clone());
        let step = store.connections.call(move |session: &mut Session| {
            let (sql, key) = (sql.clone(), key.clone());
            Box::pin(async move {
                let of = TypeRow::read(session, &sql, &key, false).await?;
                let values: Values<'_> = &[
                    (&of.id, Type::INT4),
                    (&i32::from(code(state)), Type::INT4),
                    (&PURGE_STEP, Type::INT4),
                    (&retention, Type::INT8),
                ];
                let rows = session.write(&sql.sql(PURGE), values).await?;
                let Some(row) = rows.first() else {
                    return Ok((0, 0));
                };
                Ok((row.try_get::<_, i32>(0)?, row.try_get::<_, i32>(1)?))
            })
        });
        let (step, known) = store.part(is_begun, step.await)?;
        if step == 0 {
            return Ok(purged);
        }
        is_begun = true;
        purged += u64::from(known.unsigned_abs());
    }
}

async fn stats_of(
    session: &mut Session,
    sql: &crate::statements::Statements,
    key: &TypeKey,
    retention: Duration,
) -> Outcome<TypeStats> {
    let of = TypeRow::read(session, sql, key, false).await?;
    let now = of.reading.now;
    let mut stats = TypeStats::default();
    stats.now = now;
    stats.remembered_since = Some(now.minus(retention).max(of.forgotten));
    if !of.is_known() {
        return Ok(stats);
    }
    let values: Values<'_> = &[(&of.id, Type::INT4), (&now.as_millis(), Type::INT8)];
    let due = session.ask(&sql.sql(DUE_COUNT), values).await?;
    let due: Option<i64> = due.first().map(|row| row.try_get(0)).transpose()?;
    let next = session.ask(&sql.sql(NEXT), &[(&of.id, Type::INT4)]).await?;
    let next: Option<Option<i64>> = next.first().map(|row| row.try_get(0)).transpose()?;
    stats.scheduled = of.scheduled;
    stats.due = due.unwrap_or(0).unsigned_abs();
    stats.running = of.running;
    stats.dead = of.dead;
    stats.next_due = next.flatten().map(Timestamp::from_millis);
    stats.paused_until = of.pause();
    stats.max_pending = of.max_pending;
    stats.fleet_concurrency = of.fleet.concurrency;
    stats.fleet_rate = of.fleet.rate;
    stats.history = of.history.map(KeptMessage::limit);
    stats.refused = of.refused;
    stats.totals = of.totals;
    stats.remembered = of.ended;
    Ok(stats)
}

#[async_trait]
impl Operate for PostgresStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        let (sql, namespace) = (self.sql(TYPES), self.namespace.to_string());
        let call = self.connections.call(move |session: &mut Session| {
            let (sql, namespace) = (sql.clone(), namespace.clone());
            Box::pin(async move {
                let rows = session.ask(&sql, &[(&namespace, Type::TEXT)]).await?;
                let names = rows.iter().map(|row| Ok(row.try_get(0)?));
                names.collect::<Outcome<Vec<String>>>()
            })
        });
        Ok(call
            .await?
            .iter()
            .filter_map(|name| TaskType::new(name).ok())
            .collect())
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        let (sql, key) = (self.sql(LIST_TYPE), self.key(task_type));
        let call = self.connections.call(move |session: &mut Session| {
            let (sql, key) = (sql.clone(), key.clone());
            Box::pin(async move {
                let values: Values<'_> = &[(&key.namespace, Type::TEXT), (&key.name, Type::TEXT)];
                // The row of a new type is not seen by the statement that makes it.
                session.write(&sql, values).await?;
                session.write(&sql, values).await.map(drop)
            })
        });
        call.await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        settings.check()?;
        let settings = settings.clone();
        let work = tx_work(move |tx| {
            let settings = settings.clone();
            Box::pin(async move {
                let (mut most, mut fleet) = (tx.row.max_pending, tx.row.fleet);
                let mut history = tx.row.history;
                settings.history.apply(&mut history);
                let history = history.map(|kept| i64::from(kept.limit()));
                settings.max_pending.apply(&mut most);
                settings.apply_fleet(&mut fleet);
                let is_limited = fleet != delayq_core::FleetLimits::NONE;
                let per = fleet.rate.map(|rate| i64::try_from(rate.per.as_micros()));
                let values: Values<'_> = &[
                    (&tx.row.id.clone(), Type::INT4),
                    (&most.map(signed), Type::INT8),
                    (&fleet.concurrency.map(i64::from), Type::INT8),
                    (&fleet.rate.map(|rate| i64::from(rate.starts)), Type::INT8),
                    (&per.map(|per| per.unwrap_or(i64::MAX)), Type::INT8),
                    (&fleet.rate.map(|rate| i64::from(rate.burst)), Type::INT8),
                    (&is_limited, Type::BOOL),
                    (&history, Type::INT8),
                ];
                let sql = tx.sql.sql(CONFIGURE);
                tx.session.ask(&sql, values).await?;
                tx.finish().await.map(drop)
            })
        });
        on_type(self, task_type, Opening::Made, work).await
    }

    /// O(log n), except for the number of due tasks, which are counted.
    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let (sql, key, retention) = (self.statements.clone(), self.key(task_type), self.retention);
        self.connections
            .call(move |session: &mut Session| {
                let (sql, key) = (sql.clone(), key.clone());
                Box::pin(async move { stats_of(session, &sql, &key, retention).await })
            })
            .await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let (sql, key) = (self.statements.clone(), self.key(task_type));
        let (retention, after) = (self.retention, listed(cursor, state));
        let limit = limit.clamp(1, MAX_BATCH);
        self.connections
            .call(move |session: &mut Session| {
                let (sql, key, after) = (sql.clone(), key.clone(), after.clone());
                Box::pin(async move {
                    let of = TypeRow::read(session, &sql, &key, false).await?;
                    let more = i32::try_from(limit + 1).unwrap_or(i32::MAX);
                    let values: Values<'_> = &[
                        (&of.id, Type::INT4),
                        (&i32::from(code(state)), Type::INT4),
                        (&after.0, Type::INT8),
                        (&after.1, Type::TEXT),
                        (&more, Type::INT4),
                        (&false, Type::BOOL),
                    ];
                    let rows = session.ask(&sql.sql(LIST), values).await?;
                    let rows = rows
                        .iter()
                        .map(TaskRow::read)
                        .collect::<Outcome<Vec<_>>>()?;
                    let again = again_at(session, &sql, of.id, &rows).await?;
                    let mut page = Page::default();
                    for row in rows.iter().take(limit) {
                        let again_at = again.get(&row.id).copied();
                        page.tasks.extend(of.info(row, retention, again_at));
                    }
                    let last = rows.get(limit - 1).filter(|_| rows.len() > limit);
                    // Ended tasks after one that is forgotten are forgotten, too.
                    let last = last.filter(|row| !row.is_over(retention, of.reading.now));
                    page.next = last.and_then(|row| {
                        let at = row.at();
                        Some(Cursor::new(at, TaskId::new(&row.id).ok()?))
                    });
                    Ok(page)
                })
            })
            .await
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        check_histogram(from, to, steps)?;
        let (sql, key) = (self.statements.clone(), self.key(task_type));
        let parts = i64::try_from(steps).unwrap_or(1);
        self.connections
            .call(move |session: &mut Session| {
                let (sql, key) = (sql.clone(), key.clone());
                Box::pin(async move {
                    let of = TypeRow::read(session, &sql, &key, false).await?;
                    let values: Values<'_> = &[
                        (&of.id, Type::INT4),
                        (&from.as_millis(), Type::INT8),
                        (&to.as_millis(), Type::INT8),
                        (&parts, Type::INT8),
                    ];
                    let rows = session.ask(&sql.sql(PARTS), values).await?;
                    let mut counts = vec![0; steps];
                    for row in &rows {
                        let (part, tasks): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                        let part = usize::try_from(part).unwrap_or(usize::MAX);
                        if let Some(count) = counts.get_mut(part) {
                            *count += tasks.unsigned_abs();
                        }
                    }
                    Ok(counts)
                })
            })
            .await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let requeue = DeadOperation::Requeue(interval);
        change_dead(self, task_type, filter, requeue).await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        change_dead(self, task_type, filter, DeadOperation::Discard).await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        let until = until.unwrap_or(Timestamp::MAX);
        set_pause(self, task_type, until, Opening::Made).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        set_pause(self, task_type, Timestamp::ZERO, Opening::Locked).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        if state == TaskState::Running {
            let reason = "running tasks cannot be purged: cancel them instead".to_owned();
            return Err(Error::invalid("argument", reason));
        }
        purge_all(self, task_type, state).await
    }

    /// Forgets the ended tasks first, in batches, unless the type is in use.
    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        let name = task_type.to_string();
        let check = tx_work(move |tx| {
            let name = name.clone();
            Box::pin(async move {
                refuse_use(&tx.row, &name)?;
                tx.finish().await.map(drop)
            })
        });
        on_type(self, task_type, Opening::Locked, check).await?;
        let mut is_begun = false;
        for state in [TaskState::Done, TaskState::Cancelled, TaskState::Expired] {
            let purged = purge_all(self, task_type, state).await;
            is_begun |= self.part(is_begun, purged)? > 0;
        }
        let name = task_type.to_string();
        let drop_it = tx_work(move |mut tx| {
            let name = name.clone();
            Box::pin(async move {
                let id = tx.row.id;
                // In the order of a submit: this lock, then the row.
                let sql = tx.sql.sql(DROP_LOCK);
                tx.session.ask(&sql, &[(&id, Type::INT4)]).await?;
                tx.lock_type().await?;
                refuse_use(&tx.row, &name)?;
                if id != 0 {
                    for text in [DROP, DROP_COUNTS, DROP_FORGOTTEN] {
                        let sql = tx.sql.sql(text);
                        tx.session.ask(&sql, &[(&id, Type::INT4)]).await?;
                    }
                }
                tx.finish().await.map(drop)
            })
        });
        let dropped = on_type(self, task_type, Opening::Shared, drop_it).await;
        self.part(is_begun, dropped)
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        audit_type(self, task_type, repair).await
    }
}

fn refuse_use(row: &TypeRow, task_type: &str) -> Outcome<()> {
    let (scheduled, running, dead) = (row.scheduled, row.running, row.dead);
    if (scheduled, running, dead) == (0, 0, 0) {
        return Ok(());
    }
    let in_use = Error::TypeInUse {
        task_type: task_type.to_owned(),
        scheduled,
        running,
        dead,
    };
    Err(in_use.into())
}

/// The due times of the requests that follow these tasks.
async fn again_at(
    session: &mut Session,
    sql: &crate::statements::Statements,
    id: i32,
    rows: &[TaskRow],
) -> Outcome<std::collections::HashMap<String, Timestamp>> {
    let followed = rows.iter().filter(|row| row.flags & HAS_FOLLOW_UP != 0);
    let ids: Vec<&str> = followed.map(|row| row.id.as_str()).collect();
    let mut again = std::collections::HashMap::new();
    if !ids.is_empty() {
        let values: Values<'_> = &[(&id, Type::INT4), (&ids, Type::TEXT_ARRAY)];
        for row in session.ask(&sql.sql(FOLLOW_UPS), values).await? {
            let at = Timestamp::from_millis(row.try_get(1)?);
            again.insert(row.try_get(0)?, at);
        }
    }
    Ok(again)
}
