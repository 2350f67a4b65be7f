//! A transaction on one type: rows are read and locked, changed by the decisions of
//! [`delayq_core::machine`], and written together at its end.

use delayq_core::Result;
use delayq_core::history::LifeOutcome;
use delayq_core::machine::{Bookkeeping, Ended, Settled};
use delayq_core::name::TaskType;
use delayq_core::operate::TypeTotals;
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;
use futures_util::future::BoxFuture;
use tokio_postgres::types::Type;

use crate::columns::{Columns, settled_by};
use crate::connection::{Session, Values, session_work};
use crate::error::Outcome;
use crate::recorded::{Recorded, RecordedEnd};
use crate::row::{HAS_FOLLOW_UP, Status, TaskRow, code, signed};
use crate::statements::Statements;
use crate::store::PostgresStore;
use crate::type_row::{TypeKey, TypeRow, reading};
use crate::wakes::Wakes;

const FOLLOW: &str = "SELECT {s}.follow_v1($1, $2, $3, $4, $5)";
const LEDGER: &str = "INSERT INTO {s}.ledger (type, scheduled, running, dead, ended, done, died, \
    cancelled, expired, failed, refused, fence) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const MADE: &str = "SELECT {s}.type_v1($1, $2)";
const CLOCK: &str = "SELECT {s}.clock_us()";

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
    key: TypeKey,
    pub(crate) row: TypeRow,
    written: Vec<TaskRow>,
    follows: Vec<(String, Settled)>,
    recorded: Recorded,
    pub(crate) delta: Delta,
    /// The earliest due time of a task that was scheduled.
    pub(crate) earliest: Option<Timestamp>,
}

impl<'a> TypeTx<'a> {
    /// Begins a transaction on a type. `locks`: no other one with a lock goes on at the same time.
    pub(crate) async fn begin(
        session: &'a mut Session,
        sql: &Statements,
        key: &TypeKey,
        locks: bool,
    ) -> Outcome<Self> {
        session.begin().await?;
        let row = TypeRow::read(session, sql, key, locks).await?;
        Ok(Self {
            session,
            sql: sql.clone(),
            key: key.clone(),
            row,
            written: Vec::new(),
            follows: Vec::new(),
            recorded: Recorded::default(),
            delta: Delta::default(),
            earliest: None,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.row.reading.now
    }

    /// Locks the type, and reads it again.
    pub(crate) async fn lock_type(&mut self) -> Outcome<()> {
        self.row = TypeRow::read(self.session, &self.sql, &self.key, true).await?;
        Ok(())
    }

    /// Reads the largest fence of the type again.
    pub(crate) async fn read_fence(&mut self) -> Outcome<()> {
        let again = TypeRow::read(self.session, &self.sql, &self.key, false).await?;
        self.row.fence = self.row.fence.max(again.fence);
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
        self.record_end(row, ended);
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

    /// Moves a task that cannot run to dead, or replaces it by the request that waits for its end.
    pub(crate) fn bury(&mut self, row: &mut TaskRow, task: &Bookkeeping, damage: &str) {
        let now = self.now();
        row.end_attempt(task.died(now), now, damage);
        row.last_error = Some(damage.to_owned());
        self.die(row, task);
    }

    /// Notes that a task has died, with the present values of its row, or replaces it by the
    /// request that waits for its end. `before` is its bookkeeping until then.
    pub(crate) fn die(&mut self, row: &mut TaskRow, before: &Bookkeeping) {
        let Status::Live(dead) = row.status else {
            return;
        };
        self.record(row, RecordedEnd::death(before, &dead));
        if self.follow(row, dead.settled) {
            self.delta.totals.count(TaskState::Dead);
        } else {
            self.change(row);
        }
    }

    fn record_end(&mut self, row: &TaskRow, ended: Ended) {
        let (Status::Live(task), Some(outcome)) = (row.status, LifeOutcome::of(ended.state)) else {
            return;
        };
        let end = RecordedEnd {
            outcome,
            at: ended.at,
            fence: task.fence.max(ended.settled.fence),
            is_running: task.state == TaskState::Running,
            attempts: ended.attempt,
            due: task.asked_due,
        };
        self.record(row, end);
    }

    /// Notes the record of an end, if the type has them.
    pub(crate) fn record(&mut self, row: &TaskRow, end: RecordedEnd) {
        if let Some(kept) = self.row.history {
            self.recorded.push(row, end, kept);
        }
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
        let recorded = std::mem::take(&mut self.recorded);
        if !recorded.is_empty() {
            let (namespace, id) = (&self.key.namespace, self.row.id);
            recorded
                .write(self.session, &self.sql, namespace, id)
                .await?;
        }
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

/// Runs `work` in a transaction on a type. The work has to finish it.
pub(crate) async fn on_type<T, W>(
    store: &PostgresStore,
    task_type: &TaskType,
    opening: Opening,
    work: W,
) -> Result<T>
where
    T: Send + 'static,
    W: for<'a> Fn(TypeTx<'a>) -> BoxFuture<'a, Outcome<T>> + Send + Sync + Clone + 'static,
{
    on_type_then(store, task_type, opening, work, |_, _| ()).await
}

/// The same, and then `then`, also if the caller has gone away.
pub(crate) async fn on_type_then<T, W>(
    store: &PostgresStore,
    task_type: &TaskType,
    opening: Opening,
    work: W,
    then: impl FnOnce(&Wakes, &T) + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    W: for<'a> Fn(TypeTx<'a>) -> BoxFuture<'a, Outcome<T>> + Send + Sync + Clone + 'static,
{
    let (sql, key) = (store.statements.clone(), store.key(task_type));
    let wakes = store.wakes.clone();
    let call = session_work(move |session: &mut Session| {
        let (sql, key, work) = (sql.clone(), key.clone(), work.clone());
        Box::pin(async move {
            let locks = opening != Opening::Shared;
            if opening == Opening::Made {
                let values: Values<'_> = &[(&key.namespace, Type::TEXT), (&key.name, Type::TEXT)];
                session.write(&sql.sql(MADE), values).await?;
            }
            let tx = TypeTx::begin(session, &sql, &key, locks).await?;
            work(tx).await
        })
    });
    let then = move |done: &T| then(&wakes, done);
    store.connections.call_then(call, then).await
}
