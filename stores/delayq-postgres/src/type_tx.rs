//! A transaction on one type: rows are read and locked, changed by the decisions of
//! [`delayq_core::machine`], and written together at its end.

use std::time::Duration;

use delayq_core::Result;
use delayq_core::fleet::{FleetLimits, Rate};
use delayq_core::machine::{Ended, Gate, Settled};
use delayq_core::name::TaskType;
use delayq_core::operate::TypeTotals;
use delayq_core::state::TaskState;
use delayq_core::task::TaskInfo;
use delayq_core::time::{Reading, Timestamp};
use futures_util::future::BoxFuture;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Session, Values};
use crate::error::Outcome;
use crate::row::{
    ALONE, CANCEL_REQUESTED, HAS_FOLLOW_UP, Status, TaskRow, code, names_text, signed,
};
use crate::statements::Statements;
use crate::store::PostgresStore;

/// The row of a type, its counts, and the store's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeRow {
    pub(crate) id: i32,
    pub(crate) reading: Reading,
    pub(crate) paused_until: Timestamp,
    pub(crate) max_pending: Option<u64>,
    pub(crate) fleet: FleetLimits,
    pub(crate) tat: i64,
    pub(crate) is_limited: bool,
    pub(crate) is_held_back: bool,
    pub(crate) scheduled: u64,
    pub(crate) running: u64,
    pub(crate) dead: u64,
    pub(crate) ended: u64,
    pub(crate) refused: u64,
    pub(crate) totals: TypeTotals,
    pub(crate) fence: u64,
    pub(crate) forgotten: Timestamp,
}

const OPEN: &str = "SELECT o_now_us, (o_type).id, (o_type).paused_until, (o_type).max_pending, \
    (o_type).fleet_concurrency, (o_type).rate_starts, (o_type).rate_per_us, (o_type).rate_burst, \
    (o_type).tat, (o_type).is_limited, (o_type).is_held_back, (o_counts).scheduled, \
    (o_counts).running, (o_counts).dead, (o_counts).ended, (o_counts).done, (o_counts).died, \
    (o_counts).cancelled, (o_counts).expired, (o_counts).failed, (o_counts).refused, \
    (o_counts).fence, (o_counts).forgotten FROM {s}.open_v1($1, $2, $3)";

const WRITE: &str = "SELECT {s}.write_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
    $14, $15, $16, $17, $18, $19)";
const FOLLOW: &str = "SELECT {s}.follow_v1($1, $2, $3, $4, $5)";
const LEDGER: &str = "INSERT INTO {s}.ledger (type, scheduled, running, dead, ended, done, died, \
    cancelled, expired, failed, refused, fence) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const MADE: &str = "SELECT {s}.type_v1($1, $2)";
const CLOCK: &str = "SELECT {s}.clock_us()";

fn number(row: &Row, column: &str) -> Outcome<u64> {
    let number: Option<i64> = row.try_get(column)?;
    Ok(u64::try_from(number.unwrap_or(0)).unwrap_or(0))
}

fn small(number: Option<i64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok())
}

/// A reading of the store's clock in microseconds.
pub(crate) fn reading(now_us: i64) -> Reading {
    Reading {
        now: Timestamp::from_millis(now_us.div_euclid(1_000)),
        sub_ms: Duration::from_micros(now_us.rem_euclid(1_000).unsigned_abs()),
    }
}

impl TypeRow {
    /// Reads a type; the clock alone for an unknown one, whose number is 0.
    pub(crate) async fn read(
        session: &mut Session,
        sql: &Statements,
        key: (&str, &str),
        locks: bool,
    ) -> Outcome<Self> {
        let values: Values<'_> = &[
            (&key.0, Type::TEXT),
            (&key.1, Type::TEXT),
            (&locks, Type::BOOL),
        ];
        let rows = session.ask(&sql.sql(OPEN), values).await?;
        rows.first().map_or(Ok(Self::default()), Self::of)
    }

    fn of(row: &Row) -> Outcome<Self> {
        let reading = reading(row.try_get("o_now_us")?);
        let id: Option<i32> = row.try_get("id")?;
        let Some(id) = id else {
            return Ok(Self {
                reading,
                ..Self::default()
            });
        };
        let rate = (
            small(row.try_get("rate_starts")?),
            row.try_get::<_, Option<i64>>("rate_per_us")?,
            small(row.try_get("rate_burst")?),
        );
        let rate = match rate {
            (Some(starts), Some(per), Some(burst)) => Some(Rate {
                starts,
                per: Duration::from_micros(per.unsigned_abs()),
                burst,
            }),
            _ => None,
        };
        let mut totals = TypeTotals::default();
        totals.done = number(row, "done")?;
        totals.dead = number(row, "died")?;
        totals.cancelled = number(row, "cancelled")?;
        totals.expired = number(row, "expired")?;
        totals.failed = number(row, "failed")?;
        let max_pending: Option<i64> = row.try_get("max_pending")?;
        Ok(Self {
            id,
            reading,
            paused_until: Timestamp::from_millis(row.try_get("paused_until")?),
            max_pending: max_pending.map(i64::unsigned_abs),
            fleet: FleetLimits {
                concurrency: small(row.try_get("fleet_concurrency")?),
                rate,
            },
            tat: row.try_get("tat")?,
            is_limited: row.try_get("is_limited")?,
            is_held_back: row.try_get("is_held_back")?,
            scheduled: number(row, "scheduled")?,
            running: number(row, "running")?,
            dead: number(row, "dead")?,
            ended: number(row, "ended")?,
            refused: number(row, "refused")?,
            totals,
            fence: number(row, "fence")?,
            forgotten: Timestamp::from_millis(row.try_get("forgotten")?),
        })
    }

    pub(crate) fn is_known(&self) -> bool {
        self.id != 0
    }

    /// The end of the pause, while paused.
    pub(crate) fn pause(&self) -> Option<Timestamp> {
        (self.paused_until > self.reading.now).then_some(self.paused_until)
    }

    pub(crate) fn gate(&self) -> Gate {
        Gate {
            reading: self.reading,
            paused_until: self.pause(),
            running: usize::try_from(self.running).unwrap_or(usize::MAX),
            held_back: self.is_held_back,
            fleet: self.fleet,
            tat: self.tat,
        }
    }

    /// A row for people, unless it is damaged or forgotten.
    pub(crate) fn info(
        &self,
        row: &TaskRow,
        retention: Duration,
        again_at: Option<Timestamp>,
    ) -> Option<TaskInfo> {
        if row.is_over(retention, self.reading.now) {
            return None;
        }
        row.info(self.gate(), again_at)
    }
}

/// What a transaction changes in the counts of its type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delta {
    /// By state: scheduled, running, dead, ended.
    states: [i32; 4],
    pub(crate) totals: TypeTotals,
    /// The largest fence issued.
    pub(crate) fence: Option<u64>,
}

impl Delta {
    /// Counts that a task goes from one state to another.
    pub(crate) fn moves(&mut self, from: i16, to: Option<i16>) {
        let slot = |state: i16| usize::try_from(state.clamp(0, 3)).unwrap_or(0);
        if let Some(count) = self.states.get_mut(slot(from)) {
            *count -= 1;
        }
        if let Some(count) = to.and_then(|to| self.states.get_mut(slot(to))) {
            *count += 1;
        }
    }
}

/// The transaction. It is taken back unless [`finish`](Self::finish) is called.
pub(crate) struct TypeTx<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) sql: Statements,
    /// The namespace and the name of the type.
    key: (String, String),
    pub(crate) row: TypeRow,
    written: Vec<TaskRow>,
    follows: Vec<(String, Settled)>,
    pub(crate) delta: Delta,
    /// The earliest due time of a task that was scheduled.
    pub(crate) earliest: Option<Timestamp>,
}

impl<'a> TypeTx<'a> {
    /// Begins a transaction on a type. `locks`: no other one with a lock goes on at the same time.
    pub(crate) async fn begin(
        session: &'a mut Session,
        sql: &Statements,
        key: (&str, &str),
        locks: bool,
    ) -> Outcome<Self> {
        session.begin().await?;
        let row = TypeRow::read(session, sql, key, locks).await?;
        Ok(Self {
            session,
            sql: sql.clone(),
            key: (key.0.to_owned(), key.1.to_owned()),
            row,
            written: Vec::new(),
            follows: Vec::new(),
            delta: Delta::default(),
            earliest: None,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.row.reading.now
    }

    /// Locks the type, and reads it again.
    pub(crate) async fn lock_type(&mut self) -> Outcome<()> {
        let key = (self.key.0.as_str(), self.key.1.as_str());
        self.row = TypeRow::read(self.session, &self.sql, key, true).await?;
        Ok(())
    }

    /// Reads the type again, in the transaction that goes on now.
    pub(crate) async fn read_again(&mut self) -> Outcome<()> {
        let key = (self.key.0.as_str(), self.key.1.as_str());
        self.row = TypeRow::read(self.session, &self.sql, key, false).await?;
        Ok(())
    }

    /// Reads the store's clock again.
    pub(crate) async fn read_clock(&mut self) -> Outcome<()> {
        let rows = self.session.ask(&self.sql.sql(CLOCK), &[]).await?;
        if let Some(row) = rows.first() {
            self.row.reading = reading(row.try_get(0)?);
        }
        Ok(())
    }

    /// Runs a query that answers rows of tasks.
    pub(crate) async fn rows(
        &mut self,
        query: &'static str,
        values: Values<'_>,
    ) -> Outcome<Vec<TaskRow>> {
        let rows = self.session.ask(&self.sql.sql(query), values).await?;
        rows.iter().map(TaskRow::read).collect()
    }

    /// Notes the present values of a row, which are written at the end.
    pub(crate) fn change(&mut self, row: &mut TaskRow) {
        let Status::Live(task) = row.status else {
            return;
        };
        let state = code(task.state);
        if state != row.state_code {
            self.delta.moves(row.state_code, Some(state));
            self.delta.totals.count(task.state);
            row.state_code = state;
        }
        if task.state == TaskState::Scheduled {
            self.note_due(task.at);
        }
        self.written.push(row.clone());
    }

    /// Ends a task. If another follows it, that one replaces it.
    pub(crate) fn end(&mut self, row: &mut TaskRow, ended: Ended) {
        let before = row.state_code;
        self.delta.totals.count(ended.state);
        if self.follow(row, ended.settled) {
            return;
        }
        row.status = Status::Ended(ended);
        row.state_code = code(ended.state);
        row.flags = 0;
        row.last_error = None;
        row.note = None;
        row.errors.clear();
        row.succeeded.clear();
        row.holder = None;
        row.message.clear();
        self.delta.moves(before, Some(row.state_code));
        self.written.push(row.clone());
    }

    /// Replaces a task by the request that waits for its end, if there is one.
    pub(crate) fn follow(&mut self, row: &mut TaskRow, settled: Settled) -> bool {
        if row.flags & HAS_FOLLOW_UP == 0 {
            return false;
        }
        self.delta.moves(row.state_code, Some(0));
        self.follows.push((row.id.clone(), settled));
        if let Status::Live(task) = &mut row.status {
            task.state = TaskState::Scheduled;
            task.fence = 0;
            task.settled = settled;
        }
        row.state_code = 0;
        row.flags = 0;
        true
    }

    /// Notes that a task is due at this time from now on.
    pub(crate) fn note_due(&mut self, due_at: Timestamp) {
        self.earliest = Some(self.earliest.map_or(due_at, |first| first.min(due_at)));
    }

    /// The number of running tasks with what was noted.
    pub(crate) fn running_after(&self) -> usize {
        let change = self.delta.states.get(1).copied().unwrap_or(0);
        let running = self.row.running.saturating_add_signed(i64::from(change));
        usize::try_from(running).unwrap_or(usize::MAX)
    }

    /// True if the transaction frees a slot of a limit of the fleet that tasks wait for.
    pub(crate) fn frees(&self) -> bool {
        let running = self.delta.states.get(1).copied().unwrap_or(0);
        self.row.is_held_back && running < 0
    }

    /// Writes what was noted.
    pub(crate) async fn flush(&mut self) -> Outcome<()> {
        let written = std::mem::take(&mut self.written);
        if !written.is_empty() {
            let columns = Columns::of(&written);
            columns.write(self.session, &self.sql, self.row.id).await?;
        }
        let follows = std::mem::take(&mut self.follows);
        if !follows.is_empty() {
            let ids: Vec<&str> = follows.iter().map(|(id, _)| id.as_str()).collect();
            let fences: Vec<i64> = follows.iter().map(|(_, of)| signed(of.fence)).collect();
            let by: Vec<Option<i16>> = follows.iter().map(|(_, of)| settled_by(*of)).collect();
            let rows = self
                .session
                .ask(
                    &self.sql.sql(FOLLOW),
                    &[
                        (&self.row.id, Type::INT4),
                        (&ids, Type::TEXT_ARRAY),
                        (&fences, Type::INT8_ARRAY),
                        (&by, Type::INT2_ARRAY),
                        (&self.row.reading.now.as_millis(), Type::INT8),
                    ],
                )
                .await?;
            for row in &rows {
                self.note_due(Timestamp::from_millis(row.try_get(0)?));
            }
        }
        let delta = std::mem::take(&mut self.delta);
        self.count(&delta).await
    }

    async fn count(&mut self, delta: &Delta) -> Outcome<()> {
        let Delta {
            states,
            totals,
            fence,
        } = delta;
        let ends = [
            totals.done,
            totals.dead,
            totals.cancelled,
            totals.expired,
            totals.failed,
        ];
        if *states == [0; 4] && ends == [0; 5] && fence.is_none() {
            return Ok(());
        }
        let [scheduled, running, dead, ended] = *states;
        let small = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
        let [done, died, cancelled, expired, failed] = ends.map(small);
        let values: Values<'_> = &[
            (&self.row.id, Type::INT4),
            (&scheduled, Type::INT4),
            (&running, Type::INT4),
            (&dead, Type::INT4),
            (&ended, Type::INT4),
            (&done, Type::INT4),
            (&died, Type::INT4),
            (&cancelled, Type::INT4),
            (&expired, Type::INT4),
            (&failed, Type::INT4),
            (&0_i32, Type::INT4),
            (&fence.map(signed), Type::INT8),
        ];
        self.session.ask(&self.sql.sql(LEDGER), values).await?;
        Ok(())
    }

    /// Writes what was noted and ends the transaction. Returns the earliest due time of a task that
    /// it scheduled.
    pub(crate) async fn finish(mut self) -> Outcome<Option<Timestamp>> {
        self.flush().await?;
        self.session.commit().await?;
        Ok(self.earliest)
    }
}

pub(crate) fn settled_by(settled: Settled) -> Option<i16> {
    settled.by.map(|by| i16::from(by.number()))
}

/// Rows as arrays.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<&'a str>,
    states: Vec<i16>,
    flags: Vec<i16>,
    at: Vec<i64>,
    due: Vec<Option<i64>>,
    delays: Vec<Option<i64>>,
    fences: Vec<Option<i64>>,
    settled: Vec<Option<i64>>,
    settled_by: Vec<Option<i16>>,
    failures: Vec<i32>,
    lock_expiries: Vec<i32>,
    releases: Vec<i32>,
    requeues: Vec<i32>,
    holders: Vec<Option<&'a str>>,
    succeeded: Vec<Option<String>>,
    errors: Vec<Option<String>>,
    last_errors: Vec<Option<&'a [u8]>>,
    notes: Vec<Option<&'a [u8]>>,
}

impl<'a> Columns<'a> {
    /// The last values of each row.
    fn of(rows: &'a [TaskRow]) -> Self {
        let mut columns = Self::default();
        let mut seen = std::collections::HashSet::new();
        for row in rows.iter().rev() {
            if seen.insert(row.id.as_str()) {
                columns.add(row);
            }
        }
        columns
    }

    fn add(&mut self, row: &'a TaskRow) {
        let small = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let kept = |fence: u64| (fence > 0).then(|| signed(fence));
        self.ids.push(&row.id);
        self.states.push(row.state_code);
        let (mut flags, mut counts) = (row.flags & HAS_FOLLOW_UP, [0; 4]);
        let (at, mut due, mut delay, mut fence, settled) = match &row.status {
            Status::Live(task) => {
                flags |= if task.cancel_requested {
                    CANCEL_REQUESTED
                } else {
                    0
                };
                flags |= if task.is_alone { ALONE } else { 0 };
                counts = [
                    task.failures,
                    task.lock_expiries,
                    task.releases,
                    task.requeues,
                ];
                let due = Some(task.asked_due.as_millis());
                (task.at, due, task.delay_ms, kept(task.fence), task.settled)
            }
            Status::Ended(ended) => {
                counts[0] = ended.attempt;
                (ended.at, None, None, None, ended.settled)
            }
            Status::Unknown => (Timestamp::ZERO, None, None, None, Settled::default()),
        };
        if row.state_code > 2 {
            (due, delay, fence) = (None, None, None);
        }
        self.flags.push(flags);
        self.at.push(at.as_millis());
        self.due.push(due);
        self.delays.push(delay);
        self.fences.push(fence);
        self.settled.push(kept(settled.fence));
        self.settled_by.push(settled_by(settled));
        let [failures, lock_expiries, releases, requeues] = counts.map(small);
        self.failures.push(failures);
        self.lock_expiries.push(lock_expiries);
        self.releases.push(releases);
        self.requeues.push(requeues);
        self.holders.push(row.holder.as_deref());
        self.succeeded.push(names_text(&row.succeeded));
        let errors = (!row.errors.is_empty()).then(|| row.errors.clone());
        self.errors.push(errors);
        self.last_errors
            .push(row.last_error.as_deref().map(str::as_bytes));
        self.notes.push(row.note.as_deref().map(str::as_bytes));
    }

    async fn write(&self, session: &mut Session, sql: &Statements, id: i32) -> Outcome<()> {
        let values: Values<'_> = &[
            (&id, Type::INT4),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.states, Type::INT2_ARRAY),
            (&self.flags, Type::INT2_ARRAY),
            (&self.at, Type::INT8_ARRAY),
            (&self.due, Type::INT8_ARRAY),
            (&self.delays, Type::INT8_ARRAY),
            (&self.fences, Type::INT8_ARRAY),
            (&self.settled, Type::INT8_ARRAY),
            (&self.settled_by, Type::INT2_ARRAY),
            (&self.failures, Type::INT4_ARRAY),
            (&self.lock_expiries, Type::INT4_ARRAY),
            (&self.releases, Type::INT4_ARRAY),
            (&self.requeues, Type::INT4_ARRAY),
            (&self.holders, Type::TEXT_ARRAY),
            (&self.succeeded, Type::TEXT_ARRAY),
            (&self.errors, Type::TEXT_ARRAY),
            (&self.last_errors, Type::BYTEA_ARRAY),
            (&self.notes, Type::BYTEA_ARRAY),
        ];
        session.ask(&sql.sql(WRITE), values).await?;
        Ok(())
    }
}

/// How a transaction on a type begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Beside others; an unknown type has the number 0.
    Shared,
    /// Alone; an unknown type has the number 0.
    Locked,
    /// Alone; an unknown type is made.
    Made,
}

/// Names the type of a closure, which Rust does not find by itself.
pub(crate) fn tx_work<T, W>(work: W) -> W
where
    W: for<'a> Fn(TypeTx<'a>) -> BoxFuture<'a, Outcome<T>>,
{
    work
}

impl PostgresStore {
    /// Runs `work` in a transaction on a type. The work has to finish it.
    pub(crate) async fn on_type<T, W>(
        &self,
        task_type: &TaskType,
        opening: Opening,
        work: W,
    ) -> Result<T>
    where
        T: Send + 'static,
        W: for<'a> Fn(TypeTx<'a>) -> BoxFuture<'a, Outcome<T>> + Send + Sync + Clone + 'static,
    {
        let (sql, key) = (self.statements.clone(), self.key(task_type));
        self.connections
            .call(move |session: &mut Session| {
                let (sql, key, work) = (sql.clone(), key.clone(), work.clone());
                Box::pin(async move {
                    let locks = opening != Opening::Shared;
                    if opening == Opening::Made {
                        let values: Values<'_> = &[(&key.0, Type::TEXT), (&key.1, Type::TEXT)];
                        session.write(&sql.sql(MADE), values).await?;
                    }
                    let tx = TypeTx::begin(session, &sql, (&key.0, &key.1), locks).await?;
                    work(tx).await
                })
            })
            .await
    }
}
