//! Claim: in one statement where nothing but due tasks is concerned, else in a transaction.

use std::time::Duration;

use delayq_core::machine::{self, Claiming, MAX_FENCE, Outlook, Quota, expiry_text};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::store::{CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, EndCause, MAX_BATCH};
use delayq_core::time::{Timestamp, duration_ms};
use delayq_core::{Bucket, Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::Session;
use crate::error::Outcome;
use crate::floors::{Floors, Seen, Starts};
use crate::row::{Status, StoredExpiry, TaskRow, unsigned};
use crate::statements::Statements;
use crate::store::PostgresStore;
use crate::type_row::{TypeKey, reading};
use crate::type_tx::TypeTx;

const CLAIM: &str = "SELECT * FROM {s}.claim_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const EXPIRED: &str = "SELECT * FROM {s}.expired_v1($1, $2, $3)";
const DUE: &str = "SELECT * FROM {s}.due_v1($1, $2, $3)";
const NEXT: &str = "SELECT * FROM {s}.next_v1($1)";
const TASKS: &str = "SELECT * FROM {s}.tasks_v1($1, $2, true)";
const LIMIT: &str = "UPDATE {s}.types SET tat = $2, is_held_back = $3, is_limited = true \
    WHERE id = $1";

/// The answer of the fast way.
struct Fast {
    claimed: Claimed,
    is_slow: bool,
    scan_us: i64,
    next_due: Option<Timestamp>,
    next_lock: Option<Timestamp>,
    /// Tasks whose record is damaged: they have a lock now.
    damaged: Vec<(String, String)>,
}

impl Fast {
    fn read(rows: &[Row], guard: Timestamp) -> Outcome<Self> {
        let Some(head) = rows.first() else {
            let error = Error::corrupt("claim_v1", "it has no answer");
            return Err(error.into());
        };
        let reading = reading(head.try_get("o_now_us")?);
        let now = reading.now.min(guard);
        let time = |column| -> Outcome<Option<Timestamp>> {
            let ms: Option<i64> = head.try_get(column)?;
            Ok(ms.map(Timestamp::from_millis))
        };
        let mut claimed = Claimed::nothing(now, reading.now);
        claimed.high_water = unsigned(head.try_get("o_high")?);
        let (next_due, next_lock) = (time("o_next_due")?, time("o_next_lock")?);
        let outlook = Outlook {
            reading,
            now,
            due: next_due,
            lock: next_lock,
            is_full: false,
            again_at: None,
        };
        claimed.next_in = outlook.next_in();
        let scan_us: Option<i64> = head.try_get("o_scan_us")?;
        let mut fast = Self {
            claimed,
            is_slow: head.try_get("o_is_slow")?,
            scan_us: scan_us.unwrap_or(0),
            next_due,
            next_lock,
            damaged: Vec::new(),
        };
        for row in rows.iter().skip(1) {
            fast.add(&read_claimed(row)?, row)?;
        }
        Ok(fast)
    }

    /// What the claim saw of its bucket.
    fn seen(&self, request: &ClaimRequest) -> Seen {
        let tasks = &self.claimed.tasks;
        let taken = tasks.len() + self.damaged.len();
        let is_full = taken >= request.limit.min(MAX_BATCH);
        let first = self.claimed.now.minus(Duration::from_hours(24));
        Seen {
            now: self.claimed.now,
            // A claim of damaged tasks alone says nothing about the others.
            last: is_full.then(|| tasks.last().map_or(first, |task| task.due_at)),
            next_lock: self.next_lock,
            taken,
            scan_us: self.scan_us,
        }
    }

    fn add(&mut self, task: &TaskRow, row: &Row) -> Outcome<()> {
        let due_at = Timestamp::from_millis(row.try_get("o_due_at")?);
        let damage = task.damage();
        let book = task.live().filter(|_| damage.is_none());
        if let Some(claimed) = book.and_then(|book| task.claimed(book, due_at)) {
            self.claimed.tasks.push(claimed);
        } else {
            let damage = damage.unwrap_or_else(|| "corrupt: its id is damaged".to_owned());
            self.damaged.push((task.id.clone(), damage));
        }
        Ok(())
    }
}

/// Reads a task that the fast way has locked.
fn read_claimed(row: &Row) -> Outcome<TaskRow> {
    let small = |column| -> Outcome<u32> {
        let count: i32 = row.try_get(column)?;
        Ok(u32::try_from(count).unwrap_or(0))
    };
    let text = |column| -> Outcome<Option<String>> {
        let bytes: Option<Vec<u8>> = row.try_get(column)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let succeeded: Option<String> = row.try_get("o_succeeded")?;
    let succeeded = succeeded.and_then(|names| serde_json::from_str(&names).ok());
    let due: Option<i64> = row.try_get("o_due")?;
    let due_at: i64 = row.try_get("o_due_at")?;
    let submitted: Option<i64> = row.try_get("o_submitted")?;
    let message: Option<Vec<u8>> = row.try_get("o_message")?;
    let book = machine::Bookkeeping {
        failures: small("o_failures")?,
        lock_expiries: small("o_lock_expiries")?,
        releases: small("o_releases")?,
        requeues: small("o_requeues")?,
        asked_due: Timestamp::from_millis(due.unwrap_or(due_at)),
        ..machine::Bookkeeping::accepted(
            delayq_core::When::At(Timestamp::from_millis(due_at)),
            Timestamp::ZERO.into(),
        )
    };
    let until = Timestamp::from_millis(row.try_get("o_until")?);
    let book = book.locked(unsigned(row.try_get("o_fence")?), until);
    Ok(TaskRow {
        id: row.try_get("o_id")?,
        status: Status::Live(book),
        state_code: 1,
        flags: 0,
        submitted: Timestamp::from_millis(submitted.unwrap_or(0)),
        expiry: StoredExpiry {
            at: row.try_get("o_expires_at")?,
            after: row.try_get("o_expires_after")?,
        },
        checksum: row.try_get("o_checksum")?,
        holder: None,
        succeeded: succeeded.unwrap_or_default(),
        errors: String::new(),
        last_error: text("o_last_error")?,
        note: text("o_note")?,
        headers: row.try_get("o_headers")?,
        message: message.unwrap_or_default(),
    })
}

pub(crate) async fn claim_from(
    store: &PostgresStore,
    bucket: &Bucket,
    request: &ClaimRequest,
) -> Result<Claimed> {
    let task_type = bucket.task_type();
    let starts = store.with_floors(task_type, Floors::next);
    let fast = claim_fast(store, task_type, request, starts).await?;
    if !fast.is_slow {
        store.with_floors(task_type, |known| known.learn(fast.seen(request)));
    }
    let (mut claimed, mut next_due) = (fast.claimed, fast.next_due);
    if fast.is_slow {
        (claimed, next_due) = claim_slowly(store, task_type, request).await?;
    } else if !fast.damaged.is_empty() {
        let ended = bury(store, task_type, fast.damaged).await?;
        claimed.ended.extend(ended);
    }
    store.wakes.planned(task_type, next_due);
    Ok(claimed)
}

async fn claim_fast(
    store: &PostgresStore,
    task_type: &TaskType,
    request: &ClaimRequest,
    starts: Starts,
) -> Result<Fast> {
    let sql = store.sql(CLAIM);
    let key = store.key(task_type);
    let limit = i32::try_from(request.limit.min(MAX_BATCH)).unwrap_or(0);
    let lock_ms = lock_ms(request.lock_for);
    let holder = request
        .holder
        .as_ref()
        .map(|holder| holder.short().to_owned());
    let is_limited = request.fleet != delayq_core::FleetLimits::NONE;
    let guard = request.caller_now.plus(CLOCK_GUARD);
    let guard_ms = guard.as_millis();
    store
        .connections
        .call(move |session: &mut Session| {
            let (sql, key) = (sql.clone(), key.clone());
            let holder = holder.clone();
            Box::pin(async move {
                let values: crate::connection::Values<'_> = &[
                    (&key.namespace, Type::TEXT),
                    (&key.name, Type::TEXT),
                    (&limit, Type::INT4),
                    (&lock_ms, Type::INT8),
                    (&holder, Type::TEXT),
                    (&is_limited, Type::BOOL),
                    (&guard_ms, Type::INT8),
                    (&starts.due, Type::INT8),
                    (&starts.lock, Type::INT8),
                ];
                let rows = session.write(&sql, values).await?;
                Fast::read(&rows, guard)
            })
        })
        .await
}

async fn claim_slowly(
    store: &PostgresStore,
    task_type: &TaskType,
    request: &ClaimRequest,
) -> Result<(Claimed, Option<Timestamp>)> {
    let (sql, key, request) = (
        store.statements.clone(),
        store.key(task_type),
        request.clone(),
    );
    store
        .connections
        .call(move |session: &mut Session| {
            let (sql, key, request) = (sql.clone(), key.clone(), request.clone());
            Box::pin(async move { claim_in(session, &sql, &key, &request).await })
        })
        .await
}

/// Ends damaged tasks that have just got a lock.
async fn bury(
    store: &PostgresStore,
    task_type: &TaskType,
    damaged: Vec<(String, String)>,
) -> Result<Vec<ClaimEnd>> {
    let (sql, key) = (store.statements.clone(), store.key(task_type));
    store
        .connections
        .call(move |session: &mut Session| {
            let (sql, key, damaged) = (sql.clone(), key.clone(), damaged.clone());
            Box::pin(async move {
                let mut tx = TypeTx::begin(session, &sql, &key, false).await?;
                let ids: Vec<&str> = damaged.iter().map(|(id, _)| id.as_str()).collect();
                let id = tx.row.id;
                let values: crate::connection::Values<'_> =
                    &[(&id, Type::INT4), (&ids, Type::TEXT_ARRAY)];
                let mut rows = tx.rows(TASKS, values).await?;
                let mut ended = Vec::new();
                for row in &mut rows {
                    let damage = damaged.iter().find(|(id, _)| *id == row.id);
                    let task = row.live().copied();
                    let (Some((_, damage)), Some(task)) = (damage, task) else {
                        continue;
                    };
                    tx.bury(row, &task, damage);
                    if let Ok(id) = TaskId::new(&row.id) {
                        ended.push(ClaimEnd::new(id, EndCause::Corrupt));
                    }
                }
                tx.finish().await?;
                Ok(ended)
            })
        })
        .await
}

/// The length of a lock, which ends at the last time at the latest.
pub(crate) fn lock_ms(lock_for: Duration) -> i64 {
    duration_ms(lock_for).min(Timestamp::MAX.as_millis())
}

/// A claim with all its decisions, in a transaction. Also returns the first due time.
async fn claim_in(
    session: &mut Session,
    sql: &Statements,
    key: &TypeKey,
    request: &ClaimRequest,
) -> Outcome<(Claimed, Option<Timestamp>)> {
    let is_limited = request.fleet != delayq_core::FleetLimits::NONE;
    let mut tx = TypeTx::begin(session, sql, key, true).await?;
    let reading = tx.row.reading;
    let now = reading.now.min(request.caller_now.plus(CLOCK_GUARD));
    let mut claimed = Claimed::nothing(now, reading.now);
    if !tx.row.is_known() {
        tx.finish().await?;
        return Ok((claimed, None));
    }
    claimed.high_water = tx.row.fence;
    if let Some(until) = tx.row.pause() {
        let has_end = until < Timestamp::MAX;
        claimed.next_in = has_end.then(|| until.since(reading.now));
        tx.finish().await?;
        return Ok((claimed, None));
    }
    let request = &request.clone().under(tx.row.fleet);
    let running = usize::try_from(tx.row.running).unwrap_or(usize::MAX);
    let mut quota = Quota::new(request, tx.row.tat, reading, running);
    let mut rows = locked(&mut tx, EXPIRED, reading.now, quota.limit).await?;
    let due = locked(&mut tx, DUE, now, quota.due(rows.len())).await?;
    rows.extend(due);
    for row in &mut rows {
        take(&mut tx, row, request, &mut claimed)?;
    }
    let tat = quota.take(claimed.tasks.len()).unwrap_or(tx.row.tat);
    let running = tx.running_after();
    tx.flush().await?;
    let id = tx.row.id;
    let next = tx.session.ask(&sql.sql(NEXT), &[(&id, Type::INT4)]).await?;
    let first = |column: usize| -> Outcome<Option<Timestamp>> {
        let Some(row) = next.first() else {
            return Ok(None);
        };
        let ms: Option<i64> = row.try_get(column)?;
        Ok(ms.map(Timestamp::from_millis))
    };
    let outlook = Outlook {
        reading,
        now,
        due: first(0)?,
        lock: first(1)?,
        is_full: quota.is_full(running),
        again_at: quota.again_at(),
    };
    claimed.next_in = outlook.next_in();
    let is_held_back = tx.row.is_held_back || outlook.is_held_back();
    let is_news = tat != tx.row.tat || is_held_back != tx.row.is_held_back;
    if is_news || is_limited && !tx.row.is_limited {
        let values: crate::connection::Values<'_> = &[
            (&id, Type::INT4),
            (&tat, Type::INT8),
            (&is_held_back, Type::BOOL),
        ];
        tx.session.ask(&sql.sql(LIMIT), values).await?;
    }
    tx.finish().await?;
    Ok((claimed, outlook.due))
}

async fn locked(
    tx: &mut TypeTx<'_>,
    query: &'static str,
    now: Timestamp,
    limit: usize,
) -> Outcome<Vec<TaskRow>> {
    let limit = i32::try_from(limit.min(MAX_BATCH)).unwrap_or(0);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let (id, now) = (tx.row.id, now.as_millis());
    let values: crate::connection::Values<'_> =
        &[(&id, Type::INT4), (&now, Type::INT8), (&limit, Type::INT4)];
    tx.rows(query, values).await
}

/// Locks a task, or ends it.
fn take(
    tx: &mut TypeTx<'_>,
    row: &mut TaskRow,
    request: &ClaimRequest,
    claimed: &mut Claimed,
) -> Outcome<()> {
    let Some(before) = row.live().copied() else {
        return Ok(());
    };
    let known = tx.delta.fence.unwrap_or(tx.row.fence);
    let high = known.max(before.settled.fence).max(before.fence);
    let claiming = machine::claim(&before, row.record(), high, request, claimed);
    let claiming = claiming.ok_or_else(|| {
        let detail = format!("no fence above {MAX_FENCE} is left");
        Error::corrupt("the largest fence given", detail)
    })?;
    let now = claimed.store_now;
    let cause = match claiming {
        Claiming::Started { task, due_at } => {
            tx.delta.fence = tx.delta.fence.max(Some(task.fence));
            let is_taken_over = row.state_code == 1;
            if is_taken_over {
                let expired = expiry_text(row.holder.as_deref());
                row.end_attempt(task, now, &expired);
            } else {
                row.status = Status::Live(task);
            }
            row.flags &= crate::row::HAS_FOLLOW_UP;
            row.holder = request
                .holder
                .as_ref()
                .map(|holder| holder.short().to_owned());
            if let Some(mut handed_out) = row.claimed(&task, due_at) {
                handed_out.is_taken_over = is_taken_over;
                claimed.tasks.push(handed_out);
            }
            tx.change(row);
            return Ok(());
        }
        Claiming::Ended(ended, cause) => {
            tx.end(row, ended);
            cause
        }
        Claiming::Dead(task, cause, error) => {
            if tx.follow(row, task.settled) {
                tx.delta.totals.count(task.state);
            } else {
                row.end_attempt(task, now, &error);
                row.last_error = Some(error);
                tx.change(row);
            }
            cause
        }
    };
    if let Ok(id) = TaskId::new(&row.id) {
        claimed.ended.push(ClaimEnd::new(id, cause));
    }
    Ok(())
}
