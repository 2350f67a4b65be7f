//! Claim: in one statement where nothing but due tasks is concerned, else in a transaction.

mod slow;

use std::time::{Duration, Instant};

use delayq_core::machine::{self, Outlook};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::store::{CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, EndCause, MAX_BATCH};
use delayq_core::time::{Timestamp, duration_ms};
use delayq_core::{Bucket, Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tracing::{debug, warn};

use self::slow::{Next, claim_slowly};
use crate::connection::Session;
use crate::error::Outcome;
use crate::floors::{Floors, Seen, Starts};
use crate::row::{Status, StoredExpiry, TaskRow, unsigned};
use crate::statements::Statements;
use crate::store::PostgresStore;
use crate::type_row::{TypeKey, TypeRow, reading};
use crate::type_tx::TypeTx;

const CLAIM: &str = "SELECT * FROM {s}.claim_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const TASKS: &str = "SELECT * FROM {s}.tasks_v1($1, $2, true)";

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
        // A claim of damaged tasks alone says nothing about the others.
        let last = tasks.last().map(|task| task.due_at);
        Seen {
            store_now: self.claimed.store_now,
            cleared: if is_full {
                last
            } else {
                Some(self.claimed.now)
            },
            is_full,
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
    sound(store, task_type);
    let starts = store.locals.with_floors(task_type, Floors::next);
    let begun = Instant::now();
    let claimed = claim_at(store, task_type, request, starts).await;
    if claimed.is_err() {
        let is_late = begun.elapsed() >= store.connections.timeout();
        let failed = |floors: &mut Floors| floors.fail(starts, is_late);
        store.locals.with_floors(task_type, failed);
    }
    claimed
}

async fn claim_at(
    store: &PostgresStore,
    task_type: &TaskType,
    request: &ClaimRequest,
    starts: Starts,
) -> Result<Claimed> {
    let fast = claim_fast(store, task_type, request, starts).await?;
    let learn = |seen| {
        let learn = |floors: &mut Floors| match seen {
            Some(seen) => floors.learn(starts, seen),
            None => floors.fail(starts, false),
        };
        store.locals.with_floors(task_type, learn);
    };
    if fast.is_slow {
        let slow = claim_slowly(store, task_type, request, starts).await?;
        learn(slow.seen);
        store.wakes.planned(task_type, slow.next_due);
        return Ok(slow.claimed);
    }
    learn(Some(fast.seen(request)));
    store.wakes.planned(task_type, fast.next_due);
    let mut claimed = fast.claimed;
    if !fast.damaged.is_empty() {
        // What was claimed is handed out in any case. A damaged task comes back with its lock.
        match bury(store, task_type, fast.damaged).await {
            Ok(ended) => claimed.ended.extend(ended),
            Err(error) => warn!(%error, %task_type, "damaged tasks are ended later"),
        }
    }
    Ok(claimed)
}

/// Looks for the floors beside the claims, if scans take longer than a claim may.
fn sound(store: &PostgresStore, task_type: &TaskType) {
    let Some(starts) = store.locals.with_floors(task_type, Floors::sounding) else {
        return;
    };
    let (sql, key) = (store.statements.clone(), store.key(task_type));
    let (connections, locals) = (store.connections.downgrade(), store.locals.clone());
    let task_type = task_type.clone();
    drop(store.connections.spawn(async move {
        let Some(open) = connections.upgrade() else {
            return;
        };
        let looking = open.alone(move |session: &mut Session| {
            Box::pin(async move { look_at(session, &sql, &key).await })
        });
        drop(open);
        let seen = looking.await;
        locals.with_floors(&task_type, |floors| match seen {
            Ok(Some(seen)) => floors.learn(starts, seen),
            failed => {
                debug!(?failed, "the floors of a type are looked for again");
                floors.fail(starts, false);
            }
        });
    }));
}

async fn look_at(session: &mut Session, sql: &Statements, key: &TypeKey) -> Outcome<Option<Seen>> {
    let of = TypeRow::read(session, sql, key, false).await?;
    let Some(next) = Next::read(session, sql, of.id, Starts::default()).await? else {
        return Ok(None);
    };
    Ok(Some(Seen {
        store_now: of.reading.now,
        cleared: Some(next.due.unwrap_or(of.reading.now)),
        is_full: next.due.is_some(),
        next_lock: next.lock,
        taken: 0,
        scan_us: next.scan_us,
    }))
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
    let holder = holder(request);
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

/// The holder as a column has it, which takes no zero character.
fn holder(request: &ClaimRequest) -> Option<String> {
    let holder = request.holder.as_ref()?.short();
    Some(holder.replace('\0', "\u{fffd}"))
}

/// The length of a lock, which ends at the last time at the latest.
pub(crate) fn lock_ms(lock_for: Duration) -> i64 {
    duration_ms(lock_for).min(Timestamp::MAX.as_millis())
}
