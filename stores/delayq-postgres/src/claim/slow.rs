//! A claim with all its decisions, in a transaction.

use delayq_core::machine::{self, Claiming, MAX_FENCE, Outlook, Quota, expiry_text};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::store::{CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, MAX_BATCH};
use delayq_core::time::Timestamp;
use delayq_core::{Error, Result};
use tokio_postgres::types::Type;

use super::holder;
use crate::connection::{Session, Values};
use crate::error::Outcome;
use crate::floors::{Seen, Starts};
use crate::row::{Status, TaskRow};
use crate::statements::Statements;
use crate::store::PostgresStore;
use crate::type_tx::TypeTx;

const EXPIRED: &str = "SELECT * FROM {s}.expired_v1($1, $2, $3, $4)";
const DUE: &str = "SELECT * FROM {s}.due_v1($1, $2, $3, $4)";
const NEXT: &str = "SELECT o_due, o_lock, o_scan_us FROM {s}.next_v1($1, $2, $3)";
const LIMIT: &str = "UPDATE {s}.types SET tat = $2, is_held_back = $3, is_limited = true \
    WHERE id = $1";

/// What a claim in a transaction leads to.
pub(super) struct Slow {
    pub(super) claimed: Claimed,
    /// The first due time.
    pub(super) next_due: Option<Timestamp>,
    /// `None` if it did not look.
    pub(super) seen: Option<Seen>,
}

/// The first due time, and the first expiry of a lock.
pub(super) struct Next {
    pub(super) due: Option<Timestamp>,
    pub(super) lock: Option<Timestamp>,
    pub(super) scan_us: i64,
}

impl Next {
    pub(super) async fn read(
        session: &mut Session,
        sql: &Statements,
        id: i32,
        starts: Starts,
    ) -> Outcome<Option<Self>> {
        let values: Values<'_> = &[
            (&id, Type::INT4),
            (&starts.due, Type::INT8),
            (&starts.lock, Type::INT8),
        ];
        let rows = session.ask(&sql.sql(NEXT), values).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let time = |ms: Option<i64>| ms.map(Timestamp::from_millis);
        Ok(Some(Self {
            due: time(row.try_get(0)?),
            lock: time(row.try_get(1)?),
            scan_us: row.try_get(2)?,
        }))
    }
}

pub(super) async fn claim_slowly(
    store: &PostgresStore,
    task_type: &TaskType,
    request: &ClaimRequest,
    starts: Starts,
) -> Result<Slow> {
    let (sql, key, request) = (
        store.statements.clone(),
        store.key(task_type),
        request.clone(),
    );
    store
        .connections
        .call(move |session: &mut Session| {
            let (sql, key, request) = (sql.clone(), key.clone(), request.clone());
            Box::pin(async move {
                let mut tx = TypeTx::begin(session, &sql, &key, true).await?;
                let slow = claim_in(&mut tx, &request, starts).await?;
                tx.finish().await?;
                Ok(slow)
            })
        })
        .await
}

async fn claim_in(tx: &mut TypeTx<'_>, request: &ClaimRequest, starts: Starts) -> Outcome<Slow> {
    let reading = tx.row.reading;
    let now = reading.now.min(request.caller_now.plus(CLOCK_GUARD));
    let mut slow = Slow {
        claimed: Claimed::nothing(now, reading.now),
        next_due: None,
        seen: None,
    };
    if !tx.row.is_known() {
        return Ok(slow);
    }
    slow.claimed.high_water = tx.row.fence;
    if let Some(until) = tx.row.pause() {
        let has_end = until < Timestamp::MAX;
        slow.claimed.next_in = has_end.then(|| until.since(reading.now));
        return Ok(slow);
    }
    claim_open(tx, request, starts, &mut slow).await?;
    Ok(slow)
}

/// Claims from a type that is not paused.
async fn claim_open(
    tx: &mut TypeTx<'_>,
    request: &ClaimRequest,
    mut starts: Starts,
    slow: &mut Slow,
) -> Outcome<()> {
    let (reading, now) = (tx.row.reading, slow.claimed.now);
    // A clock that was set back is no reason to overlook what is due now.
    starts.due = starts.due.min(now.as_millis());
    let is_limited = request.fleet != delayq_core::FleetLimits::NONE;
    let request = &request.clone().under(tx.row.fleet);
    let running = usize::try_from(tx.row.running).unwrap_or(usize::MAX);
    let mut quota = Quota::new(request, tx.row.tat, reading, running);
    let times = [reading.now.as_millis(), starts.lock];
    let mut rows = locked(tx, EXPIRED, times, quota.limit).await?;
    let most = quota.due(rows.len());
    let due = locked(tx, DUE, [now.as_millis(), starts.due], most).await?;
    let is_full = due.len() >= most;
    let last = due.last().map(TaskRow::at);
    rows.extend(due);
    // No earlier fence of the rows is left out, now that they are locked.
    tx.read_fence().await?;
    for row in &mut rows {
        take(tx, row, request, &mut slow.claimed)?;
    }
    let tat = quota.take(slow.claimed.tasks.len()).unwrap_or(tx.row.tat);
    let running = tx.running_after();
    tx.flush().await?;
    let (id, sql) = (tx.row.id, tx.sql.clone());
    let Some(next) = Next::read(tx.session, &sql, id, starts).await? else {
        return Ok(());
    };
    let outlook = Outlook {
        reading,
        now,
        due: next.due,
        lock: next.lock,
        is_full: quota.is_full(running),
        again_at: quota.again_at(),
    };
    slow.claimed.next_in = outlook.next_in();
    slow.next_due = next.due;
    slow.seen = Some(Seen {
        store_now: reading.now,
        cleared: if is_full { last } else { Some(now) },
        is_full,
        next_lock: next.lock,
        taken: rows.len(),
        scan_us: next.scan_us,
    });
    let is_held_back = tx.row.is_held_back || outlook.is_held_back();
    let is_news = tat != tx.row.tat || is_held_back != tx.row.is_held_back;
    if is_news || is_limited && !tx.row.is_limited {
        let values: Values<'_> = &[
            (&id, Type::INT4),
            (&tat, Type::INT8),
            (&is_held_back, Type::BOOL),
        ];
        tx.session.ask(&sql.sql(LIMIT), values).await?;
    }
    Ok(())
}

/// Locks rows. `times`: up to which and from which.
async fn locked(
    tx: &mut TypeTx<'_>,
    query: &'static str,
    times: [i64; 2],
    limit: usize,
) -> Outcome<Vec<TaskRow>> {
    let limit = i32::try_from(limit.min(MAX_BATCH)).unwrap_or(0);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let (id, [now, floor]) = (tx.row.id, times);
    let values: Values<'_> = &[
        (&id, Type::INT4),
        (&now, Type::INT8),
        (&limit, Type::INT4),
        (&floor, Type::INT8),
    ];
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
            row.holder = holder(request);
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
            row.end_attempt(task, now, &error);
            row.last_error = Some(error);
            tx.die(row, &before);
            cause
        }
    };
    if let Ok(id) = TaskId::new(&row.id) {
        claimed.ended.push(ClaimEnd::new(id, cause));
    }
    Ok(())
}
